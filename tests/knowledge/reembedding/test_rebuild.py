"""Vectors are made again, also after a kill."""

import asyncio
import random
import sys
from typing import Any

import numpy as np
import pytest

from app.composition.services import build_services
from app.contract.administration import NewTenant
from app.contract.entries import EntryDraft
from app.contract.models import ModelChange, NewModelChange
from app.contract.settings import OwnLimits, SettingsPatch
from app.db.database import Database
from app.db.schema.owner import register_model
from app.errors import Conflict, ModelChangeNotFound
from app.knowledge.search.plan import SearchDefaults
from tests.fixtures.database.cluster import MODEL, TestDatabase
from tests.fixtures.embedded import PROJECT
from tests.fixtures.providers.failing import FailingProvider
from tests.knowledge.reembedding.moving import EXACT_LIMIT, NEW, OLD, WIDER, Move


async def rebuild(move: Move, **terms: Any) -> ModelChange:
    return await move.services.reembedding.start(move.tenant.id, NewModelChange(**terms), rebuild=True)


async def turn_around(move: Move, count: int) -> None:
    """Let the model in use give every entry the opposite of its vector, so that each entry keeps its neighbours."""
    for n in range(count):
        move.old.vectors[f"entry number {n}"] = -await move.old.embed_query(f"entry number {n}")


async def test_every_vector_is_replaced_and_the_rebuild_ends_by_itself(move: Move) -> None:
    await move.add(30)
    before = await move.vectors(OLD)
    await turn_around(move, 30)
    move.old.documents.clear()
    started = await rebuild(move)
    assert (started.state, started.rebuild, started.progress, started.waiting) == ("filling", True, 0.0, 30)
    change = await move.finish()
    assert (change.state, change.progress, change.waiting) == ("switched", 1.0, 0)
    assert (change.decision.switch, change.decision.basis, change.rests) == ("automatic", "same_model", True)
    after = await move.vectors(OLD)
    assert after.keys() == before.keys()
    assert all(after[text] != before[text] for text in before)
    assert len(move.old.documents) == 30
    assert (await move.search("entry number 7")).results[0].content == "entry number 7"
    assert await move.sql("select passages from vector_statistics") == 30


async def test_searches_are_complete_while_the_rebuild_runs(move: Move) -> None:
    await move.add(30)
    await rebuild(move, rate=120)
    assert await move.run_job()
    change = await move.status()
    assert (change.state, change.waiting) == ("filling", 20)
    for n in (0, 15, 29):
        result = await move.search(f"entry number {n}")
        assert result.results[0].content == f"entry number {n}"
        assert (result.metadata.exact, list(result.metadata.degraded)) == (True, [])
    assert (await move.services.administration.stats(move.tenant.id)).pending_embeddings == 0
    assert len(await move.vectors(OLD)) == 30


async def test_rebuild_goes_on_where_its_provider_failed(move: Move) -> None:
    await move.add(30)
    move.old.documents.clear()
    await rebuild(move, rate=120)
    assert await move.run_job()
    move.old.down = True
    assert await move.run_job()
    change = await move.status()
    assert (change.state, change.failure) == ("filling", "mock unavailable: told to fail")
    assert len(await move.vectors(OLD)) == 30
    move.old.down = False
    change = await move.finish()
    assert (change.state, change.failure) == ("switched", None)
    assert sorted(move.old.documents) == sorted(f"entry number {n}" for n in range(30))


async def test_entries_written_changed_and_deleted_during_the_rebuild_are_right(move: Move) -> None:
    await move.add(30)
    service, tenant_id = move.services.entries, move.tenant.id
    await rebuild(move, rate=120)
    assert await move.run_job()
    items = (await service.list_entries(tenant_id, limit=100)).items
    by_content = {entry.content: entry.id for entry in items}
    for n in (0, 29):
        await service.change(tenant_id, by_content[f"entry number {n}"], EntryDraft(content=f"changed {n}"))
    for n in (1, 28):
        await service.delete(tenant_id, by_content[f"entry number {n}"])
    await service.create(tenant_id, EntryDraft(content="written during the rebuild"))
    assert (await move.finish()).state == "switched"
    unchanged = {f"entry number {n}" for n in range(30) if n not in (0, 1, 28, 29)}
    expected = unchanged | {"changed 0", "changed 29", "written during the rebuild"}
    assert (await move.vectors(OLD)).keys() == expected
    assert await move.pending(OLD) == 0
    assert await move.sql("select passages from vector_statistics") == len(expected)


async def test_text_that_the_provider_refuses_keeps_its_vector(move: Move) -> None:
    await move.add(5)
    before = await move.vectors(OLD)
    await turn_around(move, 5)
    move.old.refused = {"entry number 3"}
    await rebuild(move)
    change = await move.finish()
    assert (change.state, change.refused, change.progress) == ("switched", 1, 1.0)
    after = await move.vectors(OLD)
    assert [text for text in before if before[text] == after[text]] == ["entry number 3"]


async def test_passages_that_an_entry_no_longer_has_are_removed(move: Move) -> None:
    await move.add(3)
    await move.sql(
        "insert into embeddings select tenant_id, entry_id, model_id, 1, text_hash, 0, 1, in_index, embedding"
        " from embeddings"
    )
    await rebuild(move)
    await move.run_jobs()
    assert await move.sql("select count(*) from embeddings") == 3
    assert await move.sql("select passages from vector_statistics") == 3


@pytest.mark.slow
async def test_vectors_of_a_large_tenant_stay_in_their_index(move: Move) -> None:
    await move.add(EXACT_LIMIT + 20)
    await turn_around(move, EXACT_LIMIT + 20)
    await rebuild(move)
    await move.run_jobs()
    assert await move.sql("select bool_and(in_index) from embeddings")
    assert await move.sql("select index_state from vector_statistics") == "ready"
    assert (await move.search("entry number 9")).results[0].content == "entry number 9"


async def test_end_of_a_rebuild_leaves_every_vector(move: Move) -> None:
    await move.add(30)
    await rebuild(move, rate=120)
    assert await move.run_job()
    with pytest.raises(Conflict, match="nothing to switch"):
        await move.services.reembedding.switch(move.tenant.id)
    with pytest.raises(Conflict, match="being rebuilt"):
        await move.start()
    assert (await rebuild(move, rate=60)).rate == 60
    await move.services.reembedding.end(move.tenant.id)
    with pytest.raises(ModelChangeNotFound):
        await move.status()
    await move.run_jobs()
    assert len(await move.vectors(OLD)) == 30


async def test_next_change_follows_a_complete_rebuild(move: Move) -> None:
    await move.add(3)
    await rebuild(move)
    await move.run_jobs()
    move.old.documents.clear()
    assert (await move.services.reembedding.start(move.tenant.id, NewModelChange(dimensions=16))).state == "filling"
    await move.run_jobs()
    assert len(move.old.documents) == 3
    assert (await move.move()).state == "switched"
    with pytest.raises(Conflict, match="former model are still kept"):
        await rebuild(move)
    assert len(await move.vectors(OLD)) == 3


async def test_used_up_quota_makes_the_rebuild_wait(move: Move) -> None:
    await move.add(5)
    limits = SettingsPatch(limits=OwnLimits(embedding_tokens_per_day=1))
    await move.services.tenants.change_settings(move.tenant.id, limits)
    await rebuild(move)
    assert await move.run_job()
    change = await move.status()
    assert change.failure is not None
    assert "embedding tokens of the day are used up" in change.failure
    assert len(await move.vectors(OLD)) == 5


@pytest.mark.slow
async def test_an_equal_vector_is_not_written_again(move: Move) -> None:
    await move.add(5)
    before = await move.sql("select array_agg(xmin::text order by entry_id) from embeddings")
    await rebuild(move)
    await move.run_jobs()
    assert await move.sql("select array_agg(xmin::text order by entry_id) from embeddings") == before
    move.old.vectors["entry number 3"] = np.full(16, 0.25, dtype=np.float32)
    await rebuild(move)
    await move.run_jobs()
    assert await move.sql("select array_agg(xmin::text order by entry_id) from embeddings") != before


@pytest.mark.slow
async def test_tenant_can_be_deleted_during_a_rebuild(move: Move) -> None:
    await move.add(30)
    await rebuild(move, rate=120)
    assert await move.run_job()
    await move.services.tenants.delete(move.tenant.id, actor="test")
    await move.run_jobs()
    assert await move.sql("select count(*) from model_changes") == 0


ENTRIES_A_KILL = 200


# A process takes seconds to start.
@pytest.mark.slow
@pytest.mark.parametrize("kills", [1, 8])
async def test_killed_workers_leave_the_vectors_of_an_undisturbed_change(
    database: Database, fresh_database: TestDatabase, kills: int
) -> None:
    entries = ENTRIES_A_KILL * kills
    await register_model(fresh_database.admin_dsn, WIDER)
    new = FailingProvider(WIDER)
    services = await build_services(
        database, FailingProvider(MODEL), next_provider=new, defaults=SearchDefaults(exact_limit=100)
    )
    tenant = await services.tenants.create(NewTenant("moving"), actor="test")
    move = Move(services, tenant, fresh_database, FailingProvider(MODEL), new)
    await move.add(entries)
    await move.start()
    chance = random.Random(7)  # noqa: S311
    made = 0
    for _ in range(kills):
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.knowledge.reembedding.reembedding_process",
            fresh_database.service_dsn,
            cwd=PROJECT,
        )
        try:
            async with asyncio.timeout(60):
                while await count(move) <= made:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
            await asyncio.sleep(chance.uniform(0, 0.15))
        finally:
            process.kill()
            await process.wait()
        made = await count(move)
        # Its lease expires at once.
        await move.sql("update jobs set lease_until = now() where state = 'running'")
    assert 0 < made < entries, "the workers were to be killed in the middle"

    change = await move.finish()
    assert (change.state, change.progress) == ("ready", 1.0)
    assert await move.pending(NEW) == 0
    vectors = await move.vectors(NEW)
    assert len(vectors) == entries
    assert len(new.documents) == entries - made, "what the killed ones had stored was not made again"
    for content in list(vectors)[::50]:
        number = next(iter(await new.embed_documents([content])))
        stored = [float(x) for x in vectors[content].strip("[]").split(",")]
        assert abs(number - stored).max() < 1e-3
    assert await move.sql("select bool_and(in_index) from embeddings where model_id = 2")
    await services.close()


async def count(move: Move) -> int:
    return int(await move.sql("select count(*) from embeddings where model_id = 2"))
