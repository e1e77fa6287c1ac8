"""Upkeep: counters, purges and words of readers."""

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.assets import Upload
from app.contract.entries import EntryDraft
from app.contract.search import SearchQuery
from app.contract.settings import SettingsPatch
from app.db.principals import SERVICE, acting_as, principals_of
from app.db.queries import entries as db
from app.db.queries.search import EntryFilter, KeywordQuery, match_words
from app.db.queries.statistics import SQL
from app.errors import EntryNotFound
from app.knowledge.feedback import WeightTuner
from app.knowledge.search.plan import KEYWORD_BUDGET
from app.knowledge.upkeep import ACTOR, LEAST_ENTRIES, PURGE_BATCH, SHARES, RecordTrimmer, Sweep, Upkeep
from tests.fixtures.database.cluster import connected, execute
from tests.fixtures.workers import run_due
from tests.knowledge.conftest import RunJobs
from tests.knowledge.writing import write

CORPUS = """
select c.language, c.entries, c.characters, real.entries as real_entries, real.characters as real_characters
  from corpus_statistics c
  full join (select tenant_id, language, count(*) as entries, sum(text_length) as characters
               from entries group by 1, 2) real using (tenant_id, language)
 where coalesce(c.entries, 0) <> coalesce(real.entries, 0)
    or coalesce(c.characters, 0) <> coalesce(real.characters, 0)"""
VECTORS = """
select v.passages, real.passages as real_passages
  from vector_statistics v
  full join (select tenant_id, model_id, count(*) as passages from embeddings group by 1, 2) real
       using (tenant_id, model_id)
 where coalesce(v.passages, 0) <> coalesce(real.passages, 0)"""
TAGS = """
select t.tag, t.entries, real.entries as real_entries
  from (select * from tag_statistics where entries <> 0) t
  full join (select tenant_id, tag collate "C" as tag, count(*) as entries
               from entries cross join lateral unnest(tags) tag group by 1, 2) real using (tenant_id, tag)
 where coalesce(t.entries, 0) <> coalesce(real.entries, 0)"""
# An entry either has vectors or waits for them: entries with vectors need not be counted.
EMBEDDED = """
select e.id from entries e join tenants t on t.id = e.tenant_id
 where exists (select from embeddings k where k.tenant_id = e.tenant_id and k.entry_id = e.id
                  and k.model_id = t.model_id and k.passage = 0)
     = exists (select from pending_embeddings p where p.tenant_id = e.tenant_id and p.entry_id = e.id
                  and p.model_id = t.model_id)"""


async def differences(superuser_dsn: str) -> list[dict[str, object]]:
    async with connected(superuser_dsn) as superuser:
        statements = (CORPUS, VECTORS, TAGS, EMBEDDED)
        return [dict(row) for sql in statements for row in await superuser.fetch(sql)]


async def test_counters_stay_exact_through_random_writes(
    services: Services, tenant: Tenant, other_tenant: Tenant, superuser_dsn: str, run_jobs: RunJobs
) -> None:
    chance = random.Random(11)  # noqa: S311
    languages = ("english", "german", "simple")
    assets = []
    for step in range(60):
        owner = chance.choice((tenant, other_tenant))
        listed = (await services.entries.list_entries(owner.id, limit=200)).items
        own = [entry for entry in listed if entry.asset_id is None]
        text = EntryDraft(content="word " * chance.randint(1, 900), language=chance.choice(languages))
        tags = chance.sample(("x", "y", "Z", "ä"), chance.randrange(4))
        match chance.randrange(6):
            case 0 | 1:
                await services.entries.create(owner.id, replace(text, tags=tags, external_id=str(step)))
            case 2:
                items = [replace(text, tags=tags, content=f"bulk {step} {n}") for n in range(5)]
                await services.entries.create_many(owner.id, items)
            case 3 if own:
                change = chance.choice(
                    (EntryDraft(tags=tags), text, EntryDraft(title=f"t{step}"), EntryDraft(parent_id=None))
                )
                entry = chance.choice([e for e in own if e.external_id] or own)
                if entry.external_id:
                    await services.entries.change(owner.id, entry.id, change)
                if len(own) > 1 and own[0].id != entry.id:
                    await services.entries.change(owner.id, entry.id, EntryDraft(parent_id=own[0].id))
            case 4 if own:
                await services.entries.delete(owner.id, chance.choice(own).id)
            case 5 if step % 3 == 0:
                upload = Upload("a.txt", f"asset text {step} ".encode() * 200, external_id="one", tags=tags)
                asset, _ = await services.assets.upload(owner.id, upload)
                assets.append((owner, asset))
        if step % 15 == 14:
            await run_jobs()
            assert await differences(superuser_dsn) == []
    assert assets
    await run_jobs()
    owner, asset = assets[-1]
    await services.assets.delete(owner.id, asset.id)
    assert await differences(superuser_dsn) == []
    stats = await services.administration.stats(tenant.id)
    assert stats.entries == sum(stats.entries_by_type.values())


@pytest.mark.slow
async def test_word_frequencies_are_recounted_after_growth(
    services: Services, tenant: Tenant, superuser_dsn: str, run_jobs: RunJobs
) -> None:
    for start in (0, 1_000):
        items = [
            EntryDraft(content=f"everywhere half{n % 2} rare{n % 500} only{n}", language="simple", external_id=str(n))
            for n in range(start, start + 1_000)
        ]
        await services.entries.create_many(tenant.id, items)
    await run_jobs()
    async with connected(superuser_dsn) as superuser:
        rows = await superuser.fetch("select lexeme, entries from lexeme_statistics where tenant_id = $1", tenant.id)
        changes = await superuser.fetchval("select sum(changes) from corpus_statistics")
    assert {row["lexeme"]: row["entries"] for row in rows} == {
        "everywhere": 2_000,
        "half0": 1_000,
        "half1": 1_000,
        **{f"rare{n}": 4 for n in range(500)},
    }
    assert changes == 0


@pytest.fixture
def sweep(services: Services) -> Sweep:
    return services.worker.sweep


def days_ago(days: float) -> datetime:
    return datetime.now(UTC) - timedelta(days=days)


async def keep_for(services: Services, tenant: Tenant, days: int | None) -> None:
    await services.tenants.change_settings(tenant.id, SettingsPatch(purge_expired_after_days=days), actor="anna")


async def present(services: Services, tenant: Tenant) -> set[UUID]:
    page = await services.entries.list_entries(tenant.id, include_expired=True)
    return {entry.id for entry in page.items}


async def test_expired_entries_are_purged_after_the_time_set_by_the_tenant(
    services: Services, tenant: Tenant, other_tenant: Tenant, sweep: Sweep
) -> None:
    (long_ago,) = await write(services, tenant, "long ago", expires_at=days_ago(3))
    kept = await write(services, tenant, "lately", expires_at=days_ago(1))
    kept += await write(services, tenant, "to come", expires_at=days_ago(-1))
    kept += await write(services, tenant, "without an end")
    foreign = await write(services, other_tenant, "long ago", expires_at=days_ago(3))
    await sweep.run()
    assert await present(services, tenant) == {long_ago, *kept}, "without a setting nothing is removed"

    await keep_for(services, tenant, 2)
    await sweep.run()
    assert await present(services, tenant) == set(kept)
    assert await present(services, other_tenant) == set(foreign)
    with pytest.raises(EntryNotFound):
        await services.entries.get(tenant.id, long_ago)
    (record,) = [r for r in (await services.administration.audit(tenant.id)).items if r.actor == ACTOR]
    assert (record.action, record.subject_ids, record.detail) == ("entry.purge", [long_ago], {"entries": 1})
    foreign_trail = (await services.administration.audit(other_tenant.id)).items
    assert ACTOR not in {r.actor for r in foreign_trail}

    await keep_for(services, tenant, None)
    (again,) = await write(services, tenant, "long ago", expires_at=days_ago(1_000))
    await sweep.run()
    assert again in await present(services, tenant)


async def test_purge_keeps_an_entry_that_supersedes_another(services: Services, tenant: Tenant, sweep: Sweep) -> None:
    await keep_for(services, tenant, 0)
    (newer,) = await write(services, tenant, "newer", expires_at=days_ago(2))
    (older,) = await write(services, tenant, "older", superseded_by_id=newer)
    await sweep.purge_expired(tenant.id)
    assert await present(services, tenant) == {newer, older}
    assert (await services.entries.get(tenant.id, older)).superseded_by_id == newer
    await services.entries.change(tenant.id, older, EntryDraft(expires_at=days_ago(1)))
    assert await sweep.purge_expired(tenant.id) == 1
    assert await sweep.purge_expired(tenant.id) == 1
    assert await present(services, tenant) == set()


async def test_purge_removes_all_entries_in_batches(services: Services, tenant: Tenant, sweep: Sweep) -> None:
    number = PURGE_BATCH + 3
    await services.entries.create_many(
        tenant.id, [EntryDraft(content=f"entry {n}", expires_at=days_ago(n + 1)) for n in range(number)]
    )
    await keep_for(services, tenant, 0)
    async with services.database.tenant_session(tenant.id) as session:
        oldest = await db.purge_expired(session, 2)
    assert len(oldest) == 2
    assert await sweep.purge_expired(tenant.id) == number - 2
    assert await present(services, tenant) == set()
    trail = (await services.administration.audit(tenant.id)).items
    assert [r.detail["entries"] for r in trail if r.actor == ACTOR] == [1, PURGE_BATCH]
    assert (await services.administration.stats(tenant.id)).pending_embeddings == 0


async def test_a_failing_sweep_of_one_tenant_does_not_affect_others(
    services: Services, tenant: Tenant, other_tenant: Tenant
) -> None:
    class Failing(Sweep):
        async def purge_expired(self, tenant_id: UUID) -> int:
            if tenant_id == tenant.id:
                raise RuntimeError("told to")
            return await super().purge_expired(tenant_id)

    for each in (tenant, other_tenant):
        await keep_for(services, each, 2)
        await write(services, each, "long ago", expires_at=days_ago(3))
    runner = services.worker.runner
    trimmer = RecordTrimmer(services.database, services.tenants, services.versions)
    tuner = WeightTuner(services.database, services.tenants, services.ranker, services.search.defaults)
    await Failing(services.database, services.tenants, runner.upkeep, runner.deliveries, trimmer, tuner).run()
    assert len(await present(services, tenant)) == 1
    assert not await present(services, other_tenant)


async def test_a_sweep_is_of_active_tenants_and_a_share_of_the_others(
    services: Services, tenant: Tenant, other_tenant: Tenant, superuser_dsn: str
) -> None:
    """Another process has written: this one has no notes of it."""
    swept: list[UUID] = []

    class Noting(Sweep):
        async def purge_expired(self, tenant_id: UUID) -> int:
            swept.append(tenant_id)
            return await super().purge_expired(tenant_id)

    runner = services.worker.runner
    trimmer = RecordTrimmer(services.database, services.tenants, services.versions)
    tuner = WeightTuner(services.database, services.tenants, services.ranker, services.search.defaults)
    sweep = Noting(services.database, services.tenants, runner.upkeep, runner.deliveries, trimmer, tuner)
    own, other = tenant.id.int % SHARES, other_tenant.id.int % SHARES
    quiet = next(turn for turn in range(1, SHARES) if turn not in (own, other))

    async def run(turn: int) -> set[UUID]:
        swept.clear()
        await sweep.run(turn)
        return {tenant.id, other_tenant.id}.intersection(swept)

    with acting_as(SERVICE):
        draft = EntryDraft(content="for a few", readers=["group:few"])
        await services.entries.create(other_tenant.id, draft)
    async with connected(superuser_dsn) as superuser:
        await superuser.execute("update audit set at = now() - interval '1 hour'")
    assert await run(0) == {tenant.id, other_tenant.id}
    assert await run(quiet) == set()
    assert tenant.id in await run(own + SHARES)
    assert other_tenant.id in await run(other + SHARES)
    await write(services, tenant, "new")
    assert await run(quiet) == {tenant.id}
    await services.search.search(other_tenant.id, SearchQuery(query="new", mode="keyword"))
    await services.journal.flush()
    assert await run(quiet + SHARES) == {tenant.id, other_tenant.id}
    async with connected(superuser_dsn) as superuser:
        await superuser.execute("update audit set at = now() - interval '1 hour'")
        await superuser.execute("update searches set at = now() - interval '23 hours'")
        assert await run(quiet) == set()
        await superuser.execute("update searches set at = now() - interval '24 hours', result_count = 1")
        assert await run(quiet) == {other_tenant.id}
        assert not await superuser.fetchval("select exists (select from searches)")


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
    await execute(superuser_dsn, "update entries set quarantined = true where content like '%pier'")
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
        await run_due(services.worker)
    count = len(drafts)
    assert await read_counted(tenant, superuser_dsn) == {"*": {"harbour": count}, "group:east": {"harbour": count}}
