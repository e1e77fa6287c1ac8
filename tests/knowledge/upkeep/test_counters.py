"""Counters that ranking and planning rely on equal the stored rows after any writes."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.assets import Upload
from app.contract.entries import EntryDraft
from tests.fixtures.database.cluster import connected
from tests.knowledge.conftest import RunJobs

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
