"""Short functions to write and count entries."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.entries import EntryDraft
from app.contract.results import SearchResult


async def write(services: Services, tenant: Tenant, *contents: str, **values: Any) -> list[UUID]:
    """Create entries with these contents, in order."""
    return [
        (await services.entries.create(tenant.id, EntryDraft(content=content, **values)))[0].id for content in contents
    ]


def ids(result: SearchResult) -> Sequence[UUID]:
    return [hit.id for hit in result]


async def count(services: Services, tenant: Tenant) -> int:
    entries: int = (await services.administration.stats(tenant.id)).entries
    return entries
