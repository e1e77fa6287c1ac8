"""Records that grow by calls alone have a bound: the oldest are removed, and the tenant's statistics count them."""

from typing import Any
from uuid import UUID

import asyncpg
import pytest

from app.composition.services import Services, build_services
from app.contract.administration import Tenant
from app.contract.entries import EntryDraft
from app.contract.saved_searches import NewSavedSearch
from app.contract.search import SearchQuery
from app.contract.settings import OwnLimits, SettingsPatch
from app.db.queries import statistics as queries
from app.errors import MaximumReached
from app.knowledge import upkeep
from app.knowledge.search import journal
from app.knowledge.subscriptions import service
from app.knowledge.upkeep import RecordTrimmer
from tests.fixtures.database.cluster import connected, execute, fetch

pytestmark = pytest.mark.own_tenants

GROWING = {
    "searches": "receipts",
    "feedback": "feedback",
    "audit": "audit",
    "saved_searches": "saved_searches",
    "deliveries": "deliveries",
    "former_entries": "former_versions",
}
"""Tables that grow by calls alone, and their names in the statistics."""

BOUNDED_OTHERWISE = {
    "access_counts": "one row an entry",
    "asset_statistics": "one row",
    "assets": "the limits of entries and bytes",
    "callers": "10,000 rows",
    "corpus_statistics": "rows by language and reader",
    "usage_by_day": "one row a day, for 400 days",
    "embeddings": "the limits of entries and bytes",
    "entries": "the limits of entries and bytes",
    "erasure_items": "the items of erasures in progress",
    "erasures": "one row an erasure",
    "entry_changes": "one row an entry",
    "former_embeddings": "vectors of former_entries",
    "kept_versions": "one row",
    "api_keys": "100 rows",
    "jobs": "one row a kind and subject",
    "lexeme_statistics": "words of entries",
    "model_changes": "one row",
    "pending_embeddings": "one row an entry and model",
    "permissions": "one row",
    "released_texts": "one row a text that an admin released",
    "revoked_tokens": "1,000 rows",
    "source_items": "100,000 rows a source",
    "sources": "100 rows",
    "subscriptions": "100 rows",
    "tag_statistics": "tags of entries",
    "vector_statistics": "one row a model",
}


@pytest.fixture
async def filled(services: Services, tenant: Tenant, superuser_dsn: str) -> Tenant:
    """A tenant with ten rows in each table that grows, the oldest of which is number 1."""
    await services.tenants.change_settings(tenant.id, SettingsPatch(keep_versions_days=1), actor="anna")
    entry, _ = await services.entries.create(tenant.id, EntryDraft(content="The harbour"))
    await services.entries.change(tenant.id, entry.id, EntryDraft(title="Night"))
    saved, _ = await services.saved_searches.save(tenant.id, "anna", NewSavedSearch("mine", {"query": "harbour"}))
    async with connected(superuser_dsn) as superuser:
        await superuser.execute("delete from audit")
        values: tuple[Any, ...] = (tenant.id, entry.id)
        for statement in (
            "insert into searches (tenant_id, id, subject, at, fallback, result_count, query_time_ms, receipt)"
            " select $1, gen_random_uuid(), n::text, now() - make_interval(mins => 100 - n), false, 1, 1, '{}'"
            " from generate_series(1, 10) n where $2::uuid is not null",
            "insert into feedback (tenant_id, search_id, entry_id, subject, relevant, at)"
            " select $1, gen_random_uuid(), $2, n::text, true, now() - make_interval(mins => 100 - n)"
            " from generate_series(1, 10) n",
            "insert into audit (tenant_id, id, at, actor, action)"
            " select $1, gen_random_uuid(), now() - make_interval(mins => 100 - n), n::text, 'stats.read'"
            " from generate_series(1, 10) n where $2::uuid is not null",
        ):
            await superuser.execute(statement, *values)
        await superuser.execute(
            "insert into subscriptions (tenant_id, saved_search_id, url, secret, rights_until)"
            " values ($1, $2, 'https://example.com', 's', now())",
            tenant.id,
            saved.id,
        )
        await superuser.execute(
            "insert into deliveries (tenant_id, id, saved_search_id, entry_id, fingerprint, finding, state, ended_at)"
            " select $1, gen_random_uuid(), $2, $3, '', jsonb_build_object('n', n), 'delivered',"
            "        now() - make_interval(mins => 100 - n) from generate_series(1, 10) n",
            tenant.id,
            saved.id,
            entry.id,
        )
    return tenant


async def column(dsn: str, sql: str) -> list[Any]:
    return [row[0] for row in await fetch(dsn, sql)]


async def test_every_table_of_a_tenant_has_a_bound(superuser_dsn: str) -> None:
    """A new table is either counted in the statistics, or its bound is stated here."""
    tables = await column(
        superuser_dsn,
        "select c.relname from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant_id'"
        " where c.relkind in ('r', 'p') and not c.relispartition and c.relnamespace = 'public'::regnamespace",
    )
    assert set(tables) == GROWING.keys() | BOUNDED_OTHERWISE.keys()


async def test_statistics_count_the_records_with_bytes_and_bounds(services: Services, filled: Tenant) -> None:
    found = await services.administration.stats(filled.id)
    assert {name: use.rows for name, use in found.records.items()} == {
        "receipts": 10,
        "feedback": 10,
        "audit": 10,
        "saved_searches": 1,
        "deliveries": 10,
        "former_versions": 1,
    }
    assert all(100 * use.rows <= use.bytes < 1_000 * use.rows for use in found.records.values())
    assert all(use.limit for name, use in found.records.items() if name != "receipts")
    assert found.records["receipts"].limit is None, "these services have no limits"
    assert found.limits["receipts"].used == 10


@pytest.mark.parametrize(("configured", "stated"), [(5, 1_000_000), (3_000_000, 3_000_000), (0, None)])
async def test_the_stated_bound_of_the_audit_trail_is_the_one_that_holds(
    services: Services, tenant: Tenant, configured: int, stated: int | None
) -> None:
    """The database keeps the newest million, whatever is configured."""
    others = await build_services(services.database, services.provider, most_audit=configured)
    found = await others.administration.stats(tenant.id)
    assert found.records["audit"].limit == stated


async def test_the_sweep_removes_the_oldest_records_over_the_bounds(
    services: Services, filled: Tenant, other_tenant: Tenant, superuser_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "MOST_FEEDBACK", 4)
    monkeypatch.setattr(upkeep, "MOST_ENDED_DELIVERIES", 3)
    monkeypatch.setattr(queries, "BATCH", 2)
    await services.tenants.change_settings(filled.id, SettingsPatch(limits=OwnLimits(receipts=5)), actor="anna")
    await services.worker.sweep.run()
    assert await column(superuser_dsn, "select subject::int from searches order by at") == [6, 7, 8, 9, 10]
    assert await column(superuser_dsn, "select subject::int from feedback order by at") == [7, 8, 9, 10]
    assert await column(superuser_dsn, "select (finding ->> 'n')::int from deliveries order by ended_at") == [8, 9, 10]


async def test_the_sweep_neither_removes_nor_counts_pending_messages(
    services: Services, filled: Tenant, superuser_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "MOST_ENDED_DELIVERIES", 3)
    await execute(
        superuser_dsn,
        "insert into deliveries (tenant_id, id, saved_search_id, entry_id, fingerprint, finding)"
        " select tenant_id, gen_random_uuid(), saved_search_id, gen_random_uuid(), '', finding from deliveries",
    )
    await RecordTrimmer(services.database, services.tenants, services.versions).trim(filled.id)
    for state, kept in (("waiting", [*range(1, 11)]), ("delivered", [8, 9, 10])):
        own = f"select (finding ->> 'n')::int from deliveries where state = '{state}' order by 1"
        assert await column(superuser_dsn, own) == kept


async def test_one_sweep_removes_a_bounded_number(
    services: Services, filled: Tenant, superuser_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "BATCH", 2)
    monkeypatch.setattr(upkeep, "MOST_STEPS", 2)
    monkeypatch.setattr(upkeep, "MOST_FEEDBACK", 1)
    trimmer = RecordTrimmer(services.database, services.tenants, services.versions)
    await trimmer.trim(filled.id)
    assert len(await column(superuser_dsn, "select subject from feedback")) == 6


async def test_receipts_over_the_limit_are_removed_while_they_are_written(
    services: Services, tenant: Tenant, superuser_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without any sweep: at most a few are above the limit."""
    monkeypatch.setattr(journal, "LEAST_TRIM", 3)
    await services.tenants.change_settings(tenant.id, SettingsPatch(limits=OwnLimits(receipts=5)), actor="anna")
    ids: list[UUID] = []
    for number in range(20):
        found = await services.search.search(tenant.id, SearchQuery(query=f"harbour {number}", mode="keyword"))
        ids.append(found.metadata.search_id)
        await services.journal.flush()
        assert len(await column(superuser_dsn, "select id from searches")) < 5 + 3
    kept = await column(superuser_dsn, "select id from searches order by at")
    assert kept == ids[-len(kept) :]
    assert len(kept) >= 5


async def test_the_audit_trail_keeps_at_least_its_newest_million(
    services: Services, filled: Tenant, service_dsn: str, superuser_dsn: str
) -> None:
    """The service's role can ask for less, but cannot remove its traces."""
    for most in (0, 1, 999_999, -1):
        async with services.database.tenant_session(filled.id) as session:
            assert await queries.prune_audit(session, most) == 0
    async with connected(service_dsn) as service:
        await service.execute(f"set app.current_tenant = '{filled.id}'")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await service.execute("delete from audit")
    assert len(await column(superuser_dsn, "select actor from audit")) == 10


async def test_the_oldest_rows_of_the_audit_trails_are_removed_and_that_is_recorded(
    services: Services, filled: Tenant, other_tenant: Tenant, superuser_dsn: str
) -> None:
    async with connected(superuser_dsn) as superuser:
        text = await superuser.fetchval("select pg_get_functiondef('tenancy.prune_audit'::regproc)")
        await superuser.execute("delete from platform_audit")
        await superuser.execute(
            "insert into platform_audit (at, actor, action)"
            " select now(), n::text, 'tenant.list' from generate_series(1, 10) n"
        )
        await superuser.execute(
            "insert into audit (tenant_id, id, actor, action)"
            " select $1, gen_random_uuid(), 'other', 'stats.read' from generate_series(1, 10)",
            other_tenant.id,
        )
        await superuser.execute(text.replace("1000000", "4"))
        trimmer = RecordTrimmer(services.database, services.tenants, services.versions, most_audit=4)
        await trimmer.trim(filled.id)
        own = f"select actor from audit where tenant_id = '{filled.id}' order by at"
        assert await column(superuser_dsn, own) == ["7", "8", "9", "10"]
        assert len(await column(superuser_dsn, "select actor from audit where actor = 'other'")) == 10
        (noted,) = await superuser.fetch(
            "select subject_tenant, detail::text from platform_audit where action = 'audit.prune'"
        )
        assert noted["subject_tenant"] == filled.id
        assert '"rows": 6' in noted["detail"]
        await trimmer.trim_platform()
        kept = await column(superuser_dsn, "select actor from platform_audit order by id")
        assert kept == ["8", "9", "10", "upkeep", "upkeep"]
        await superuser.execute(text)


async def test_a_tenant_has_a_bounded_number_of_saved_searches(
    services: Services, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "MAX_OF_A_TENANT", 2)
    for owner in ("anna", "berta"):
        await services.saved_searches.save(tenant.id, owner, NewSavedSearch("mine", {"query": "harbour"}))
    with pytest.raises(MaximumReached, match="the tenant has 2 saved searches"):
        await services.saved_searches.save(tenant.id, "carl", NewSavedSearch("mine", {"query": "harbour"}))
    await services.saved_searches.save(tenant.id, "anna", NewSavedSearch("mine", {"query": "port"}))
