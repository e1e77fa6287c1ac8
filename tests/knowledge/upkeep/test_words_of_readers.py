"""Frequencies of words in entries with readers, for the principals that may read many of them."""

from __future__ import annotations

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.entries import EntryDraft
from app.db.principals import SERVICE, acting_as, principals_of
from app.db.queries.search import EntryFilter, KeywordQuery, match_words
from app.db.queries.statistics import SQL
from app.knowledge.search.plan import KEYWORD_BUDGET
from app.knowledge.upkeep import LEAST_ENTRIES, Upkeep
from tests.fixtures.database.cluster import connected

WORDS = "harbour", "lighthouse"
READERS = [["group:east"], ["group:east", "group:west"], ["group:west"], ["group:few"], None]
"""Each list is that of two entries with the words."""


@pytest.fixture
async def filled(services: Services, tenant: Tenant) -> Tenant:
    drafts = [
        EntryDraft(content=f"{' '.join(WORDS)} number{n} {place}", language="simple", readers=readers)
        for n, readers in enumerate(READERS)
        for place in ("quay", "pier")
    ]
    with acting_as(SERVICE):
        await services.entries.create_many(tenant.id, drafts)
    return tenant


async def recount(services: Services, tenant: Tenant, *, least_entries: int = 3, most: int = 3) -> None:
    with acting_as(SERVICE):
        async with services.database.tenant_session(tenant.id) as session:
            await session.execute(SQL["refresh_lexemes_of_readers"], least_entries=least_entries, most=most, least=2)


async def read_counted(tenant: Tenant, superuser_dsn: str) -> dict[str, dict[str, int]]:
    """The frequencies of the tenant's words by principal."""
    counted: dict[str, dict[str, int]] = {}
    async with connected(superuser_dsn) as superuser:
        for row in await superuser.fetch(
            "select principal, lexeme, entries from lexeme_statistics where tenant_id = $1", tenant.id
        ):
            counted.setdefault(row["principal"], {})[row["lexeme"]] = row["entries"]
    return counted


async def test_the_words_of_large_principals_are_counted(
    services: Services, filled: Tenant, superuser_dsn: str
) -> None:
    await recount(services, filled)
    both = {"harbour": 4, "lighthouse": 4, "pier": 2, "quay": 2}
    assert await read_counted(filled, superuser_dsn) == {
        "*": {"harbour": 8, "lighthouse": 8, "pier": 4, "quay": 4, **{f"number{n}": 2 for n in range(4)}},
        "group:east": {**both, "number0": 2, "number1": 2},
        "group:west": {**both, "number1": 2, "number2": 2},
    }
    await recount(services, filled, most=2)
    assert set(await read_counted(filled, superuser_dsn)) == {"*", "group:east"}
    async with connected(superuser_dsn) as superuser:
        await superuser.execute("update entries set quarantined = true where content like '%pier'")
    await recount(services, filled, least_entries=1, most=9)
    counted = await read_counted(filled, superuser_dsn)
    assert counted["*"] == {"harbour": 4, "lighthouse": 4, "quay": 4}
    assert counted["group:east"] == {"harbour": 2, "lighthouse": 2, "quay": 2}
    await recount(services, filled, least_entries=100)
    assert await read_counted(filled, superuser_dsn) == {}


async def best_score(services: Services, tenant: Tenant, *groups: str) -> float:
    with acting_as(principals_of("jane", groups)):
        async with services.database.tenant_session(tenant.id) as session:
            found = await match_words(session, KeywordQuery("harbour", EntryFilter(), 10, KEYWORD_BUDGET))
    return found.hits[0].value


async def test_a_caller_weighs_frequent_words_by_what_it_may_read(
    services: Services, filled: Tenant, superuser_dsn: str
) -> None:
    usual = {groups: await best_score(services, filled, *groups) for groups in ((), ("east",), ("west",), ("few",))}
    async with connected(superuser_dsn) as superuser:
        store = "insert into lexeme_statistics (tenant_id, lexeme, principal, entries) values ($1, 'harbour', $2, $3)"
        # A frequency that a search can count is counted.
        await superuser.execute(store, filled.id, "group:west", KEYWORD_BUDGET)
        await superuser.execute(store, filled.id, "group:east", KEYWORD_BUDGET + 1)
    for groups, score in usual.items():
        found = await best_score(services, filled, *groups)
        assert (found < score) if groups == ("east",) else (found == pytest.approx(score)), groups


@pytest.mark.slow
async def test_words_are_recounted_after_entries_with_readers_have_grown(
    services: Services, tenant: Tenant, superuser_dsn: str
) -> None:
    drafts = [
        EntryDraft(content=f"harbour {n}", language="simple", readers=["group:east"]) for n in range(LEAST_ENTRIES + 1)
    ]
    with acting_as(SERVICE):
        for start in range(0, len(drafts), 500):
            await services.entries.create_many(tenant.id, drafts[start : start + 500])
        await Upkeep(services.database, services.tenants, services.jobs).check(tenant.id)
        while await services.worker.run_once():
            pass
    count = len(drafts)
    assert await read_counted(tenant, superuser_dsn) == {
        "*": {"harbour": count},
        "group:east": {"harbour": count},
    }
