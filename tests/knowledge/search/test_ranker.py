"""Filters, the ranker, and rehearsals."""

import asyncio
from collections.abc import Callable
from dataclasses import fields
from datetime import UTC, datetime
from itertools import product
from typing import Any

import pytest

from app.composition.services import Services, build_services
from app.contract.administration import Tenant
from app.contract.assets import Upload
from app.contract.entries import Entry, EntryDraft
from app.contract.search import SearchQuery
from app.contract.vocabulary import Audience, WritableType
from app.db.database import Database
from app.db.queries.search import FILTERS, EntryFilter
from app.db.session import PlatformSession
from app.db.statements import parse_statement
from app.knowledge.search.plan import SearchDefaults
from app.knowledge.search.service import Rehearsal
from tests.fixtures.database.cluster import connected
from tests.fixtures.providers.failing import FailingProvider
from tests.fixtures.searching import make_search
from tests.knowledge.conftest import RunJobs
from tests.knowledge.writing import write

Predicate = Callable[[Entry], bool]
CASES: list[tuple[dict[str, Any], Predicate]] = [
    ({}, lambda e: True),
    ({"role": "dev"}, lambda e: bool({"dev", "all"} & set(e.roles))),
    ({"role": "all"}, lambda e: "all" in e.roles),
    ({"tags": ["a"]}, lambda e: "a" in e.tags),
    ({"tags": ["a", "b"]}, lambda e: bool({"a", "b"} & set(e.tags))),
    ({"tags": ["a", "b"], "tags_match": "all"}, lambda e: {"a", "b"} <= set(e.tags)),
    ({"tags": ["unused"]}, lambda e: False),
    ({"entry_type": "lesson"}, lambda e: e.entry_type == "lesson"),
    ({"entry_type": ["fact", "chunk"]}, lambda e: e.entry_type in ("fact", "chunk")),
    ({"min_confidence": 0.5}, lambda e: e.confidence >= 0.5),
    ({"min_confidence": 1.0}, lambda e: e.confidence >= 1.0),
    ({"scope": "project"}, lambda e: e.scope == "project"),
    ({"source": "entry"}, lambda e: e.asset_id is None),
    ({"source": "asset"}, lambda e: e.asset_id is not None),
    ({"metadata": {"team": "red"}}, lambda e: e.metadata.get("team") == "red"),
    ({"metadata": {"team": "red", "deep": {"n": 1}}}, lambda e: e.metadata.get("deep") == {"n": 1}),
    ({"filter": {"field": "metadata.deep.n", "gte": 1}}, lambda e: e.metadata.get("deep") == {"n": 1}),
    ({"filter": {"field": "metadata.deep", "exists": False}}, lambda e: "deep" not in e.metadata),
    (
        {
            "filter": {
                "or": [
                    {"field": "tags", "in": ["c", "b"]},
                    {"and": [{"field": "confidence", "gt": 0.2, "lt": 0.5}, {"field": "entry_type", "ne": "fact"}]},
                ]
            },
            "scope": "global",
        },
        lambda e: (
            (bool({"b", "c"} & set(e.tags)) or (0.2 < e.confidence < 0.5 and e.entry_type != "fact"))
            and e.scope == "global"
        ),
    ),
    (
        {"filter": {"field": "source", "eq": "asset"}, "created_after": datetime(2020, 1, 1, tzinfo=UTC)},
        lambda e: e.asset_id is not None,
    ),
    ({"created_before": datetime(2020, 1, 1, tzinfo=UTC)}, lambda e: False),
    (
        {"role": "qa", "tags": ["a"], "scope": "global", "min_confidence": 0.3},
        lambda e: bool({"qa", "all"} & set(e.roles)) and "a" in e.tags and e.scope == "global" and e.confidence >= 0.3,
    ),
]


async def fill(services: Services, tenant: Tenant, run_jobs: RunJobs) -> list[Entry]:
    roles: tuple[list[Audience], ...] = (["all"], ["dev"], ["pm", "qa"], ["qa"])
    tags: tuple[list[str], ...] = ([], ["a"], ["b"], ["a", "b"], ["a", "b", "c"])
    kinds: tuple[WritableType, ...] = ("fact", "lesson", "decision")
    items = [
        EntryDraft(
            content=f"common entry {n}",
            roles=roles[n % 4],
            tags=tags[n % 5],
            entry_type=kinds[n % 3],
            confidence=(n % 11) / 10,
            scope=("global", "project")[n % 7 % 2],
            metadata={"team": "red", "deep": {"n": n % 2}} if n % 2 else {"team": "blue"},
            language="english",
        )
        for n in range(30)
    ]
    await services.entries.create_many(tenant.id, items)
    for name, marks in (("one", ["a"]), ("two", ["c"])):
        upload = Upload(f"{name}.txt", f"A common text of asset {name}.".encode(), tags=marks, roles=["dev"])
        await services.assets.upload(tenant.id, upload)
    await run_jobs()
    return list((await services.entries.list_entries(tenant.id, limit=200)).items)


async def test_a_keyword_hit_has_the_same_score_whenever_the_vector_is_known(
    services: Services, tenant: Tenant, failing_provider: FailingProvider, run_jobs: RunJobs
) -> None:
    """A vector that is known when the keyword leg starts is compared there, and another one afterwards."""
    await fill(services, tenant, run_jobs)
    query = "common entry 7"
    vector = [float(number) for number in await failing_provider.embed_query(query)]
    late, early = [
        await services.search.search(
            tenant.id, SearchQuery(query, similarity_threshold=0.999, limit=30, query_embedding=given)
        )
        for given in (None, vector)
    ]
    assert [(hit.id, hit.score) for hit in early] == [(hit.id, hit.score) for hit in late]
    only_words = [hit for hit in early if hit.similarity is None]
    without = SearchQuery(query, mode="keyword", fusion="score", limit=30)
    words = {hit.id: hit.score for hit in await services.search.search(tenant.id, without)}
    assert any(hit.score != words[hit.id] for hit in only_words), "their cosines count"


@pytest.mark.parametrize("exact_limit", [pytest.param(10_000, marks=pytest.mark.slow), 5])
async def test_filters_give_the_same_set_in_every_mode(
    services: Services, tenant: Tenant, failing_provider: FailingProvider, run_jobs: RunJobs, exact_limit: int
) -> None:
    failing_provider.default = failing_provider.direction(1)
    entries = await fill(services, tenant, run_jobs)
    assert len(entries) == 32
    assets = (await services.assets.list_assets(tenant.id)).items
    defaults = SearchDefaults(exact_limit=exact_limit)
    small = await build_services(services.database, failing_provider, defaults=defaults)
    cases = [*CASES, ({"asset_id": [assets[0].id]}, lambda e: e.asset_id == assets[0].id)]
    for filters, predicate in cases:
        expected = {e.id for e in entries if predicate(e)}
        for mode, fusion in product(("keyword", "semantic", "hybrid"), ("rrf", "score")):
            wanted: dict[str, Any] = {"mode": mode, "fusion": fusion, "limit": 100, **filters}
            query = SearchQuery(query="common", **wanted)
            found = [hit.id for hit in await small.search.search(tenant.id, query)]
            assert len(found) == len(set(found)), (filters, mode)
            assert set(found) == expected, (filters, mode)
    await small.journal.flush()


@pytest.mark.parametrize("fusion", ["rrf", "score"])
async def test_filters_are_applied_before_the_legs_are_cut(
    services: Services, tenant: Tenant, failing_provider: FailingProvider, run_jobs: RunJobs, fusion: Any
) -> None:
    """Only the worst match passes: a filter after the legs would find nothing."""
    d = failing_provider.direction
    failing_provider.vectors["harbour"] = d(1)
    failing_provider.vectors["a harbour far away " + "and more words " * 9] = d(0.4, 1)
    failing_provider.default = d(1, 0.1)
    items = [EntryDraft(content=f"harbour harbour {n}", language="english") for n in range(150)]
    await services.entries.create_many(tenant.id, items)
    entry, _ = await services.entries.create(
        tenant.id,
        EntryDraft(
            content="a harbour far away " + "and more words " * 9,
            tags=["t"],
            confidence=0.1,
            metadata={"list": [1, {"a": 2}]},
            scope="project",
            entry_type="lesson",
            language="english",
        ),
    )
    await run_jobs()
    for filters in (
        {"tags": ["t"]},
        {"scope": "project"},
        {"entry_type": "lesson"},
        {"metadata": {"list": [{"a": 2}]}},
    ):
        for mode in ("keyword", "semantic", "hybrid"):
            wanted: dict[str, Any] = {"query": "harbour", "mode": mode, "fusion": fusion, "limit": 1}
            result = await services.search.search(tenant.id, SearchQuery(**wanted, **filters))
            assert [hit.id for hit in result] == [entry.id], (filters, mode)
    for mode in ("keyword", "semantic", "hybrid"):
        wanted = {"query": "harbour", "mode": mode, "fusion": fusion, "limit": 1}
        verdict = await services.search.why_not(tenant.id, entry.id, SearchQuery(**wanted))
        assert verdict.rank is None, "without the filter neither leg has room for it"


@pytest.mark.parametrize("hiding", ["superseded_by_id", "expires_at"])
async def test_hidden_entries_do_not_displace_others_in_the_legs(
    services: Services, tenant: Tenant, failing_provider: FailingProvider, run_jobs: RunJobs, hiding: str
) -> None:
    d = failing_provider.direction
    failing_provider.vectors["harbour"] = failing_provider.default = d(1)
    failing_provider.vectors["a harbour further away"] = d(1, 0.5)
    shown, _ = await services.entries.create(
        tenant.id, EntryDraft(content="a harbour further away", language="english")
    )
    value: Any = shown.id if hiding == "superseded_by_id" else datetime(2020, 1, 1, tzinfo=UTC)
    items = [EntryDraft(content=f"harbour harbour {n}", **{hiding: value}, language="english") for n in range(120)]
    results = await services.entries.create_many(tenant.id, items)
    assert {r.status for r in results} == {"created"}
    await run_jobs()
    for mode, fusion in product(("keyword", "semantic", "hybrid"), ("rrf", "score")):
        wanted: dict[str, Any] = {"query": "harbour", "mode": mode, "fusion": fusion, "limit": 1}
        result = await services.search.search(tenant.id, SearchQuery(**wanted))
        assert ([hit.id for hit in result], result.metadata.total) == ([shown.id], 1), (mode, fusion)


def test_every_filter_is_in_the_table_of_filters() -> None:
    listed = [field for fields_of_filter in FILTERS.values() for field in fields_of_filter]
    assert len(listed) == len(set(listed))
    assert {*listed, "include_superseded", "as_of", "excluded", "required"} == {
        field.name for field in fields(EntryFilter)
    }
    assert set(FILTERS) < {field.name for field in fields(SearchQuery)}


async def test_legs_run_in_parallel_only_with_enough_free_connections(
    services: Services, tenant: Tenant, service_dsn: str
) -> None:
    await write(services, tenant, "harbour words", "sailing boats", "words of boats")
    query = SearchQuery(query="harbour boats", similarity_threshold=0.0)
    found = []
    for size, opened in ((1, 1), (3, 1), (4, 2), (10, 2)):
        database = Database(service_dsn, pool_size=size)
        search = make_search(services, database)
        try:
            found.append([(hit.id, hit.score) for hit in await search.search(tenant.id, query)])
            assert database.engine.pool.checkedin() == opened  # type: ignore[attr-defined]
        finally:
            await database.close()
    assert len(found[0]) == 3
    assert all(others == found[0] for others in found)


PLANS = parse_statement("plans", "select statement from pg_prepared_statements")
PROCESS = parse_statement("process", "select pg_backend_pid()")
IDLE = """
select count(*) from pg_stat_activity where datname = current_database() and usename = 'kb_service' and pid <> all ($1)
   and state = 'idle' and query in ('rollback', 'select 1')
"""
"""New connections whose last statement was the end of a rehearsal, or the question whether the database is up."""


async def planned(session: PlatformSession) -> str:
    return " ".join(row["statement"] for row in await session.fetch(PLANS))


def assert_planned(statements: str) -> None:
    assert all(part in statements for part in ("keyword.search", "from embeddings", "left join assets"))


async def test_all_connections_are_open_and_have_their_plans(services: Services, service_dsn: str) -> None:
    database = Database(service_dsn, pool_size=3)
    try:
        async with Rehearsal(database, services.providers).keep_warm():
            assert database.engine.pool.checkedin() == 3  # type: ignore[attr-defined]
            async with (
                database.platform_session() as first,
                database.platform_session() as second,
                database.platform_session() as third,
            ):
                for session in (first, second, third):
                    assert_planned(await planned(session))
    finally:
        await database.close()


async def test_a_rehearsed_connection_searches_without_new_plans(
    services: Services, tenant: Tenant, service_dsn: str
) -> None:
    await write(services, tenant, "harbour words", "sailing boats")
    database = Database(service_dsn, pool_size=1)
    try:
        async with Rehearsal(database, services.providers).keep_warm():
            async with database.platform_session() as session:
                before = await session.fetch(PLANS)
            await make_search(services, database).search(tenant.id, SearchQuery(query="harbour boats"))
            async with database.platform_session() as session:
                assert await session.fetch(PLANS) == before
    finally:
        await database.close()


async def test_an_ended_connection_is_replaced_before_a_caller_comes(
    services: Services, service_dsn: str, superuser_dsn: str
) -> None:
    database = Database(service_dsn, pool_size=2)
    try:
        async with Rehearsal(database, services.providers).keep_warm():
            async with database.platform_session() as one, database.platform_session() as other:
                ended = [await session.fetch_value(PROCESS) for session in (one, other)]
            async with connected(superuser_dsn) as superuser, asyncio.timeout(30):
                for process in ended:
                    await superuser.execute("select pg_terminate_backend($1)", process)
                while await superuser.fetchval(IDLE, ended) < 2:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
                while database.engine.pool.checkedin() < 2:  # type: ignore[attr-defined]  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            async with database.platform_session() as session:
                assert_planned(await planned(session))
                assert await session.fetch_value(PROCESS) not in ended
    finally:
        await database.close()


async def test_a_database_that_is_down_keeps_no_places_and_no_start_waiting(services: Services) -> None:
    database = Database("postgresql://absent@127.0.0.1:1/nothing", pool_size=3)
    try:
        async with Rehearsal(database, services.providers).keep_warm():
            assert database.pool_use.in_use == 0
            await database._warmth.look()
            assert database.pool_use.in_use == 0
    finally:
        await database.close()
