"""Equal scores are ordered by the newest change, then by id: in every mode and fusion, and where a leg is cut."""

from __future__ import annotations

from uuid import UUID

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.entries import EntryDraft
from app.contract.search import SearchQuery
from app.contract.vocabulary import Fusion, Mode
from tests.fixtures.providers.failing import FailingProvider
from tests.knowledge.writing import ids, write

pytestmark = pytest.mark.own_tenants


async def write_equal(services: Services, tenant: Tenant, provider: FailingProvider, count: int) -> list[UUID]:
    """Entries with the same words and the same vector, in their order."""
    provider.default = provider.direction(1)
    results = await services.entries.create_many(
        tenant.id, [EntryDraft(content="The harbour", external_id=f"e{n}") for n in range(count)]
    )
    await services.embedder.embed_all(tenant.id)
    return [result.id for result in results if result.id is not None]


@pytest.mark.parametrize("mode", ["semantic", "keyword", "hybrid"])
@pytest.mark.parametrize("fusion", ["rrf", "score"])
@pytest.mark.parametrize("tags", [None, ["sea"]])
async def test_newest_change_comes_first(
    services: Services,
    tenant: Tenant,
    failing_provider: FailingProvider,
    mode: Mode,
    fusion: Fusion,
    tags: list[str] | None,
) -> None:
    written = await write_equal(services, tenant, failing_provider, 4)
    for entry_id in written[::2]:
        await services.entries.change(tenant.id, entry_id, EntryDraft(tags=["sea"]))
    query = SearchQuery(query="harbour", mode=mode, fusion=fusion, tags=tags)
    found = ids(await services.search.search(tenant.id, query))
    changed = [written[2], written[0]]
    assert found == (changed if tags else [*changed, written[3], written[1]])


@pytest.mark.parametrize("mode", ["semantic", "keyword", "hybrid"])
async def test_cut_keeps_the_newest(
    services: Services, tenant: Tenant, failing_provider: FailingProvider, mode: Mode
) -> None:
    written = await write_equal(services, tenant, failing_provider, 150)
    changed = written[:5]
    for entry_id in changed:
        await services.entries.change(tenant.id, entry_id, EntryDraft(tags=["sea"]))
    found = ids(await services.search.search(tenant.id, SearchQuery(query="harbour", mode=mode)))
    assert found == [*reversed(changed), *reversed(written[-5:])]


async def test_cut_of_the_entries_that_pass_a_filter_keeps_the_newest(
    services: Services, tenant: Tenant, failing_provider: FailingProvider
) -> None:
    written = await write_equal(services, tenant, failing_provider, 40)
    (other,) = await write(services, tenant, "The lighthouse", entry_type="lesson")
    query = SearchQuery(query="harbour", mode="semantic", limit=1, entry_type="fact")
    assert ids(await services.search.search(tenant.id, query)) == [written[-1]]
    assert other not in written
