"""Moving a tenant to another model: filling, switching, going back, ending."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from uuid import UUID

import numpy as np
import pytest

from app.composition.services import Services, build_services
from app.db.database import Database
from app.db.queries.knowledge import embeddings as vectors
from app.db.queries.knowledge import entries
from app.db.queries.knowledge.embeddings import PassageVector
from app.db.schema.registration import register_model
from app.errors import Conflict, EmbeddingUnavailable, InvalidInput, ModelChangeNotFound
from app.knowledge.entries.entry import new_entry_values
from app.knowledge.ingestion.assets import Upload
from app.knowledge.search.plan import SearchDefaults
from app.knowledge.search.query import SearchQuery
from app.knowledge.search.results import SearchResult
from tests.fixtures.database.cluster import MODEL, TestDatabase
from tests.fixtures.providers.failing import FailingProvider
from tests.knowledge.reembedding.moving import NEW, OLD, WIDER, Move

EXACT_LIMIT = 60


@pytest.fixture
async def move(database: Database, fresh_database: TestDatabase) -> AsyncIterator[Move]:
    await register_model(fresh_database.admin_dsn, WIDER)
    old, new = FailingProvider(MODEL), FailingProvider(WIDER)
    services = await build_services(
        database, old, next_provider=new, defaults=SearchDefaults(exact_limit=EXACT_LIMIT)
    )
    tenant = await services.tenants.create("moving", actor="test")
    yield Move(services, tenant, fresh_database, old, new)
    await services.close()


async def search(move: Move, query: str, mode: str = "semantic") -> SearchResult:
    wanted = SearchQuery(query=query, mode=mode, similarity_threshold=0)  # type: ignore[arg-type]
    return await move.services.search.search(move.tenant.id, wanted)


async def test_tenant_moves_to_a_model_of_other_dimensions(move: Move) -> None:
    await move.add(30)
    started = await move.start()
    assert (started.state, started.progress, started.entries) == ("filling", 0.0, 30)
    assert (started.old, started.new) == (MODEL, WIDER)
    await move.run_jobs()
    change = await move.status()
    assert (change.state, change.progress, change.waiting, change.refused) == ("switched", 1.0, 0, 0)
    assert change.comparison is not None
    assert await move.vectors(OLD) != {}
    made = await move.vectors(NEW)
    assert made.keys() == {f"entry number {n}" for n in range(30)}
    assert all(len(vector.split(",")) == 24 for vector in made.values())
    move.old.down = True
    (first, *_) = await search(move, "entry number 7")
    assert first.content == "entry number 7"
    assert (await move.services.administration.stats(move.tenant.id))["model"]["dimensions"] == 24


async def test_search_uses_the_old_model_until_the_switch(move: Move) -> None:
    await move.add(10)
    await move.start(switch_at_overlap=None)
    await move.run_jobs()
    assert (await move.status()).state == "ready"
    move.new.queries.clear()
    move.new.down = True
    result = await search(move, "entry number 3")
    assert result.results[0].content == "entry number 3"
    assert result.metadata.fallback_mode is False
    assert move.new.queries == []


async def test_entries_written_and_changed_during_the_change_get_vectors_of_both_models(move: Move) -> None:
    await move.add(3)
    await move.start(switch_at_overlap=None)
    await move.run_jobs()
    service = move.services.entries
    new, _ = await service.create(move.tenant.id, {"content": "written meanwhile"})
    changed = (await service.list_entries(move.tenant.id)).items[-1]
    assert changed.id != new.id
    await service.change(move.tenant.id, changed.id, {"content": "changed meanwhile"})
    await move.services.assets.upload(move.tenant.id, Upload("a.txt", b"uploaded meanwhile"))
    await move.run_jobs()
    expected = {"written meanwhile", "changed meanwhile", "uploaded meanwhile"}
    for model in (OLD, NEW):
        assert expected < (await move.vectors(model)).keys()
        assert await move.pending(model) == 0
    assert await move.vectors(OLD) != {}
    assert (await move.vectors(OLD)).keys() == (await move.vectors(NEW)).keys()


async def test_tenant_can_go_back_with_what_was_written_after_the_switch(move: Move) -> None:
    await move.add(5)
    await move.start()
    await move.run_jobs()
    await move.services.entries.create(move.tenant.id, {"content": "written after the switch"})
    change = await move.services.reembedding.switch(move.tenant.id, back=True)
    assert change.state == "ready"
    move.new.down = True
    assert (await search(move, "written after the switch")).results[0].content == "written after the switch"
    # Only its admin switches it again.
    await move.run_jobs()
    assert (await move.status()).state == "ready"
    move.new.down = False
    assert (await move.services.reembedding.switch(move.tenant.id)).state == "switched"


@pytest.mark.slow
async def test_end_of_the_change_removes_the_vectors_of_the_model_not_in_use(move: Move) -> None:
    await move.add(5)
    await move.start()
    await move.run_jobs()
    await move.services.reembedding.end(move.tenant.id)
    assert (await move.status()).state == "dropping"
    with pytest.raises(Conflict, match="being removed"):
        await move.services.reembedding.switch(move.tenant.id, back=True)
    with pytest.raises(Conflict, match="being removed"):
        await move.start()
    await move.run_jobs()
    with pytest.raises(ModelChangeNotFound):
        await move.status()
    assert await move.vectors(OLD) == {}
    assert len(await move.vectors(NEW)) == 5
    assert await move.sql("select array_agg(model_id) from vector_statistics") == [NEW]
    await move.add(1, 100)
    assert await move.pending(OLD) == 0
    # And on to the former model again, from nothing.
    await move.services.reembedding.start(move.tenant.id, dimensions=16)
    await move.run_jobs()
    assert len(await move.vectors(OLD)) == 6


@pytest.mark.slow
async def test_change_given_up_before_the_switch_leaves_nothing(move: Move) -> None:
    await move.add(5)
    await move.start(switch_at_overlap=None)
    await move.run_jobs()
    await move.services.reembedding.end(move.tenant.id)
    await move.run_jobs()
    assert await move.vectors(NEW) == {}
    assert len(await move.vectors(OLD)) == 5
    assert await move.sql("select model_id from tenants") == OLD


@pytest.mark.slow
async def test_rate_limits_the_entries_of_a_minute(move: Move) -> None:
    await move.add(30)
    await move.start(rate=120)
    assert await move.run_job()
    assert len(await move.vectors(NEW)) == 10
    wait = await move.sql(
        "select extract(epoch from run_at - clock_timestamp())::float from jobs where kind = 'reembed'"
    )
    assert 3.0 < wait <= 5.0
    assert not await move.services.worker.run_once(), "no worker is held meanwhile"
    change = await move.start(rate=None)
    assert change.rate is None
    await move.run_jobs()
    assert (await move.status()).state == "switched"
    assert len(move.new.documents) == 30


@pytest.mark.slow
async def test_equal_texts_and_known_ones_are_embedded_once(move: Move) -> None:
    await move.add(4)
    await move.services.assets.upload(move.tenant.id, Upload("a.txt", b"The same text"))
    await move.services.assets.upload(move.tenant.id, Upload("b.txt", b"The same text", external_id="b"))
    await move.run_jobs()
    await move.start(switch_at_overlap=None)
    await move.run_jobs()
    assert sorted(move.new.documents) == ["The same text", *(f"entry number {n}" for n in range(4))]
    assert await move.sql("select count(*) from embeddings where model_id = 2") == 6


@pytest.mark.slow
async def test_provider_that_is_away_makes_the_work_wait_and_nothing_else(move: Move) -> None:
    await move.add(3)
    move.new.down = True
    await move.start()
    assert await move.run_job()
    waiting = await move.sql(
        "select extract(epoch from run_at - clock_timestamp())::float from jobs where kind = 'reembed'"
    )
    assert waiting > 10
    assert await move.sql("select max(paused_until) from embedding_models") is None
    with pytest.raises(Conflict, match="not complete"):
        await move.services.reembedding.switch(move.tenant.id)
    assert (await search(move, "entry number 1")).metadata.fallback_mode is False
    move.new.down = False
    await move.run_jobs()
    assert (await move.status()).state == "switched"


@pytest.mark.slow
async def test_text_that_the_new_provider_refuses_stops_the_switch_by_itself(move: Move) -> None:
    await move.add(3)
    move.new.refused = {"entry number 1"}
    await move.start()
    await move.run_jobs()
    change = await move.status()
    assert (change.state, change.refused, change.waiting) == ("ready", 1, 0)
    assert change.progress == pytest.approx(2 / 3, abs=1e-4)
    assert (await move.services.reembedding.switch(move.tenant.id)).state == "switched"


@pytest.mark.slow
async def test_overlap_below_the_wanted_one_leaves_the_switch_to_the_admin(move: Move) -> None:
    await move.add(40)
    await move.start(switch_at_overlap=1.0)
    await move.run_jobs()
    change = await move.status()
    assert change.state == "ready"
    assert change.comparison is not None
    # Two models without meaning agree on the entry itself, and on the others by chance.
    assert change.comparison.overlap < 0.9
    assert change.comparison.semantic_overlap < 0.9


@pytest.mark.slow
async def test_models_are_compared_on_the_tenants_own_queries_where_it_keeps_them(move: Move) -> None:
    await move.services.tenants.change_settings(move.tenant.id, {"keep_query_text": True})
    await move.add(5)
    for query in ("a first question", "a second question", "a second question"):
        await search(move, query, "hybrid")
    await move.services.journal.flush()
    move.new.queries.clear()
    await move.start(switch_at_overlap=None)
    await move.run_jobs()
    change = await move.status()
    assert change.comparison is not None
    assert (change.comparison.source, change.comparison.queries) == ("queries", 2)
    assert set(move.new.queries) == {"a first question", "a second question"}
    assert await move.sql("select comparison::text ~ 'question' from model_changes") is False
    await move.services.journal.flush()
    assert await move.sql("select count(*) from searches") == 3, "comparing leaves no receipts"


@pytest.mark.slow
async def test_models_are_compared_on_titles_where_no_query_is_kept(move: Move) -> None:
    await move.services.entries.create_many(
        move.tenant.id, [{"content": f"text {n}", "title": f"Title {n}"} for n in range(5)]
    )
    await move.services.embedder.embed_all(move.tenant.id)
    await search(move, "not kept")
    await move.services.journal.flush()
    move.new.vectors = {f"Title {n}": move.new.direction(1.0) for n in range(5)}
    await move.start(switch_at_overlap=None)
    await move.run_jobs()
    change = await move.status()
    assert change.comparison is not None
    assert (change.comparison.source, change.comparison.queries) == ("titles", 5)
    assert {f"Title {n}" for n in range(5)} == set(move.new.queries)


@pytest.mark.slow
async def test_new_vectors_of_a_large_tenant_are_in_their_index_before_the_switch(move: Move) -> None:
    await move.add(EXACT_LIMIT + 20)
    assert (await move.services.administration.stats(move.tenant.id))["indexed"] is True
    await move.start(switch_at_overlap=None)
    await move.run_jobs()
    assert await move.sql("select bool_and(in_index) from embeddings where model_id = 2")
    assert await move.sql("select index_state from vector_statistics where model_id = 2") == "ready"
    await move.sql("update vector_statistics set index_state = 'building' where model_id = 2")
    with pytest.raises(Conflict, match="index"):
        await move.services.reembedding.switch(move.tenant.id)
    await move.run_jobs()
    assert (await move.services.reembedding.switch(move.tenant.id)).state == "switched"
    wanted = SearchQuery(query="entry number 9", mode="semantic", similarity_threshold=0, explain=True)
    result = await move.services.search.search(move.tenant.id, wanted)
    assert result.debug_info is not None
    assert result.debug_info["legs"]["semantic"]["strategy"] == "indexed"
    assert result.results[0].content == "entry number 9"


async def test_switch_waits_for_entries_written_a_moment_ago(move: Move) -> None:
    await move.add(3)
    await move.start(switch_at_overlap=None)
    await move.run_jobs()
    await move.services.entries.create(move.tenant.id, {"content": "written just now"})
    assert await move.pending(NEW) == 1
    await move.services.reembedding.switch(move.tenant.id)
    assert "written just now" in await move.vectors(NEW)
    move.old.down = True
    assert (await search(move, "written just now")).results[0].content == "written just now"


@pytest.mark.slow
async def test_switch_is_refused_while_its_provider_is_away(move: Move) -> None:
    await move.add(1)
    await move.start(switch_at_overlap=None)
    await move.run_jobs()
    await move.services.entries.create(move.tenant.id, {"content": "written just now"})
    move.new.down = True
    with pytest.raises(EmbeddingUnavailable):
        await move.services.reembedding.switch(move.tenant.id)
    assert await move.sql("select model_id from tenants") == OLD


async def test_searches_during_the_switch_miss_nothing(move: Move) -> None:
    await move.add(25)
    await move.start(switch_at_overlap=None)
    await move.run_jobs()
    found: list[str] = []
    stop = asyncio.Event()

    async def keep_searching() -> None:
        while not stop.is_set():
            result = await search(move, "entry number 11")
            assert result.metadata.fallback_mode is False
            found.append(result.results[0].content)

    async def answered_again() -> None:
        before = len(found)
        async with asyncio.timeout(30):
            while len(found) == before:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    async with asyncio.TaskGroup() as group:
        group.create_task(keep_searching())
        for _ in range(3):
            await move.services.reembedding.switch(move.tenant.id)
            await answered_again()
            await move.services.reembedding.switch(move.tenant.id, back=True)
            await answered_again()
        stop.set()
    assert len(found) > 5
    assert set(found) == {"entry number 11"}


@pytest.mark.slow
async def test_change_sees_every_entry_of_those_who_write_while_it_begins(move: Move) -> None:
    """Writers that began before, and commit after, are waited for; those after it see it."""
    stop = asyncio.Event()

    async def keep_writing(writer: int) -> int:
        count = 0
        while not stop.is_set():
            items = [
                {"content": f"writer {writer} entry {count + n}", "language": "english"} for n in range(20)
            ]
            await move.services.entries.create_many(move.tenant.id, items)
            count += 20
        return count

    async with asyncio.TaskGroup() as group:
        writers = [group.create_task(keep_writing(n)) for n in range(3)]
        await asyncio.sleep(0.2)
        await move.start(switch_at_overlap=None)
        await asyncio.sleep(0.2)
        stop.set()
    await move.run_jobs()
    written = sum(writer.result() for writer in writers)
    assert len(await move.vectors(OLD)) == len(await move.vectors(NEW)) == written


async def test_change_waits_for_those_who_are_writing(move: Move) -> None:
    """An entry that none of the change's later looks would find: it has the lowest id, and is committed late."""
    await move.add(3)
    values = new_entry_values({"content": "written by a slow transaction"})
    waits = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    async with move.services.database.tenant_session(move.tenant.id) as session:
        await entries.insert_entries(session, [{"id": UUID(int=1), **values}])
        starting = asyncio.create_task(move.start(switch_at_overlap=None))
        async with asyncio.timeout(20):
            while not await move.sql(waits):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert not starting.done()
    await starting
    await move.run_jobs()
    assert "written by a slow transaction" in await move.vectors(NEW)


@pytest.mark.slow
async def test_vectors_that_come_after_their_model_was_left_are_not_kept(move: Move) -> None:
    """As from a worker that began with a file before the switch and ends after the old vectors were dropped."""
    await move.add(2)
    await move.start()
    await move.run_jobs()
    await move.services.reembedding.end(move.tenant.id)
    await move.run_jobs()
    (entry, _) = (await move.services.entries.list_entries(move.tenant.id)).items
    await move.sql("delete from embeddings where entry_id = $1", entry.id)
    text_hash = await move.sql("select text_hash from entries where id = $1", entry.id)
    late = PassageVector(entry.id, 0, text_hash, 0, 5, np.ones(16, dtype=np.float32))
    async with move.services.database.tenant_session(move.tenant.id) as session:
        await vectors.store_vectors(session, OLD, [late])
    assert await move.vectors(OLD) == {}
    assert await move.pending(NEW) == 1
    assert await move.sql("select sum(passages) from vector_statistics") == 1
    await move.services.embedder.embed_all(move.tenant.id)
    assert len(await move.vectors(NEW)) == 2


async def test_lost_job_is_queued_again_by_the_upkeep(move: Move) -> None:
    await move.add(3)
    await move.start()
    await move.sql("delete from jobs")
    await move.services.worker.runner.upkeep.sweep()
    await move.run_jobs()
    assert (await move.status()).state == "switched"


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"name": "unheard-of"}, "model: is not registered; the operator runs: knowledge model add"),
        ({"provider": "openai"}, "model: is not registered"),
        ({"dimensions": 25}, "model: is not registered"),
        ({"provider": "local"}, "model: is registered, but this service has no provider"),
        ({"provider": "mock"}, "model: several models fit"),
        ({"dimensions": 24, "rate": 0}, "rate: must be"),
        ({"dimensions": 24, "switch_at_overlap": 1.5}, "switch_at_overlap: must be"),
    ],
)
async def test_model_that_cannot_be_moved_to_is_refused(
    move: Move, given: dict[str, object], reason: str
) -> None:
    await register_model(move.made.admin_dsn, replace(MODEL, provider="local", name="a model", dimensions=7))
    with pytest.raises(InvalidInput, match=f"^{reason}"):
        await move.services.reembedding.start(move.tenant.id, **given)  # type: ignore[arg-type]
    with pytest.raises(ModelChangeNotFound):
        await move.status()


async def test_the_only_other_model_needs_no_name(move: Move) -> None:
    change = await move.services.reembedding.start(move.tenant.id)
    assert change.new == WIDER


async def test_change_to_the_model_in_use_or_beside_another_is_refused(
    move: Move, services: Services
) -> None:
    with pytest.raises(Conflict, match="on this model already"):
        await move.services.reembedding.start(move.tenant.id, dimensions=16)
    await move.start()
    with pytest.raises(Conflict, match="moved to another model"):
        await move.services.reembedding.start(move.tenant.id, dimensions=16)
    with pytest.raises(InvalidInput, match="serves no other model"):
        await services.reembedding.start(move.tenant.id)


async def test_every_step_is_in_the_audit(move: Move) -> None:
    await move.start(switch_at_overlap=None, actor="ada")
    await move.run_jobs()
    await move.services.reembedding.switch(move.tenant.id, actor="ada")
    await move.services.reembedding.switch(move.tenant.id, back=True, actor="bob")
    await move.services.reembedding.end(move.tenant.id, actor="bob")
    items = (await move.services.administration.audit(move.tenant.id)).items
    assert [(i.actor, i.action, i.detail["dimensions"]) for i in items] == [
        ("bob", "model.drop", 24),
        ("bob", "model.switch", 16),
        ("ada", "model.switch", 24),
        ("ada", "model.reembed", 24),
    ]
