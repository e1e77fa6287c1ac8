"""Short functions for tenants that keep versions."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.search import SearchQuery
from app.contract.settings import SettingsPatch


async def keep(services: Services, tenant: Tenant, days: int | None) -> None:
    await services.tenants.change_settings(tenant.id, SettingsPatch(keep_versions_days=days))


async def found(services: Services, tenant: Tenant, as_of: datetime | None, **values: Any) -> list[str]:
    """The texts that a keyword search finds, in any order."""
    query = SearchQuery(query="harbour", mode="keyword", as_of=as_of, **values)
    return sorted(hit.content for hit in await services.search.search(tenant.id, query))


async def texts(services: Services, tenant: Tenant, entry_id: UUID) -> list[str]:
    return [v.content for v in (await services.versions.list_versions(tenant.id, entry_id)).items]


def now() -> datetime:
    return datetime.now(UTC)
