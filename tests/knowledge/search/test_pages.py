"""Further pages of a search, its receipt, and its statistics."""

import logging

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.search import SearchQuery
from app.contract.settings import SettingsPatch
from app.errors import CursorExpired, InvalidInput
from tests.fixtures.database.cluster import connected
from tests.fixtures.providers.failing import FailingProvider
from tests.knowledge.writing import ids, write

pytestmark = pytest.mark.own_tenants


async def test_pages_neither_repeat_nor_skip_while_the_tenant_changes(
    services: Services, tenant: Tenant, failing_provider: FailingProvider
) -> None:
    failing_provider.down = True
    written = await write(services, tenant, *(f"harbour {'filler ' * n}" for n in range(25)), language="english")
    first = await services.search.search(tenant.id, SearchQuery(query="harbour", limit=10))
    assert first.metadata.total == 25
    seen, cursor = list(ids(first)), first.metadata.next_cursor
    await write(services, tenant, "harbour harbour harbour")
    await services.entries.delete(tenant.id, written[24])
    failing_provider.down = False
    pages = 1
    while cursor is not None:
        page = await services.search.search(tenant.id, SearchQuery(query="harbour", limit=10, cursor=cursor))
        assert page.metadata.search_id == first.metadata.search_id
        assert page.metadata.total == 25
        assert page.metadata.fallback_mode is True
        seen += ids(page)
        cursor = page.metadata.next_cursor
        pages += 1
    assert pages == 3
    assert len(seen) == len(set(seen)) == 24
    assert set(seen) == set(written[:24])


async def test_cursor_belongs_to_its_tenant_and_expires(
    services: Services, tenant: Tenant, other_tenant: Tenant, superuser_dsn: str
) -> None:
    for owner in (tenant, other_tenant):
        await write(services, owner, "harbour 1", "harbour 2")
    query = SearchQuery(query="harbour", mode="keyword", limit=1)
    cursor = (await services.search.search(tenant.id, query)).metadata.next_cursor
    continued = SearchQuery(query="harbour", mode="keyword", limit=1, cursor=cursor)
    with pytest.raises(CursorExpired):
        await services.search.search(other_tenant.id, continued)
    assert len(await services.search.search(tenant.id, continued)) == 1
    async with connected(superuser_dsn) as superuser:
        await superuser.execute("delete from searches")
    with pytest.raises(CursorExpired):
        await services.search.search(tenant.id, continued)
    for cursor in ("", "x", "ä", "\ud800", "\x00", "A" * 26, "A" * 28):
        with pytest.raises(InvalidInput, match="cursor: "):
            await services.search.search(tenant.id, SearchQuery(query="harbour", cursor=cursor))


async def test_receipt_contains_ranks_and_the_query_only_if_the_tenant_keeps_it(
    services: Services, tenant: Tenant
) -> None:
    (entry,) = await write(services, tenant, "harbour")
    for keep in (False, True):
        await services.tenants.change_settings(tenant.id, SettingsPatch(keep_query_text=keep))
        result = await services.search.search(tenant.id, SearchQuery(query="harbour"), subject="anna")
        await services.journal.flush()
        kept = await services.administration.receipt(tenant.id, result.metadata.search_id)
        assert kept.receipt.subject == "anna"
        assert kept.receipt.ranking[0].id == entry
        assert kept.receipt.query == ("harbour" if keep else None)


async def test_statistics_count_searches_and_fallbacks(
    services: Services, tenant: Tenant, failing_provider: FailingProvider
) -> None:
    await write(services, tenant, "harbour")
    for down in (False, True, True, False):
        failing_provider.down = down
        await services.search.search(tenant.id, SearchQuery(query="harbour"))
    await services.journal.flush()
    stats = await services.administration.stats(tenant.id)
    assert (stats.searches_24h, stats.fallback_rate_24h) == (4, 0.5)
    assert stats.entries_by_type == {"fact": 1}
    assert (stats.model.provider, stats.model.name, stats.model.dimensions) == ("mock", "text-hash", 16)


async def test_records_of_a_deleted_tenant_do_not_count_as_lost(
    services: Services, tenant: Tenant, other_tenant: Tenant, caplog: pytest.LogCaptureFixture
) -> None:
    for one in (tenant, other_tenant):
        await services.search.search(one.id, SearchQuery(query="harbour"))
    dropped = services.journal.dropped
    await services.tenants.delete(tenant.id, actor="test")
    await services.journal.flush()
    assert (services.journal.dropped, services.journal.waiting) == (dropped, 0)
    assert services.journal.meter.unwritten(tenant.id) == 0
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert (await services.administration.stats(other_tenant.id)).searches_24h == 1
