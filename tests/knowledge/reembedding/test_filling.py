"""A change of the model: filling, and its evidence."""

import asyncio
from dataclasses import replace
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from app.cli.model import ChangeStalled, watch_change
from app.composition.services import Services
from app.contract.assets import Upload
from app.contract.entries import EntryDraft
from app.contract.models import NewModelChange
from app.contract.search import SearchQuery
from app.contract.settings import SettingsPatch
from app.db.queries import embeddings as vectors
from app.db.queries import entries
from app.db.queries.embeddings import PassageVector
from app.db.schema.owner import register_model
from app.errors import Conflict, EmbeddingUnavailable, InvalidInput, ModelChangeNotFound
from app.knowledge.entries.service import new_entry
from tests.fixtures.database.cluster import MODEL
from tests.fixtures.door import at_door
from tests.fixtures.searching import semantic_leg_of
from tests.knowledge.reembedding.moving import EXACT_LIMIT, NEW, OLD, WIDER, Move


async def test_entries_written_and_changed_during_the_change_get_vectors_of_both_models(move: Move) -> None:
    await move.add(3)
    await move.start(switch_at_overlap=None)
    await move.run_jobs()
    service = move.services.entries
    new, _ = await service.create(move.tenant.id, EntryDraft(content="written during the change"))
    changed = (await service.list_entries(move.tenant.id)).items[-1]
    assert changed.id != new.id
    await service.change(move.tenant.id, changed.id, EntryDraft(content="changed during the change"))
    await move.services.assets.upload(move.tenant.id, Upload("a.txt", b"uploaded during the change"))
    await move.run_jobs()
    expected = {"written during the change", "changed during the change", "uploaded during the change"}
    for model in (OLD, NEW):
        assert expected < (await move.vectors(model)).keys()
        assert await move.pending(model) == 0
    assert await move.vectors(OLD) != {}
    assert (await move.vectors(OLD)).keys() == (await move.vectors(NEW)).keys()


@pytest.mark.slow
async def test_change_includes_entries_of_writers_active_at_its_start(move: Move) -> None:
    """The change waits for writers that began before it; later writers know of the change."""
    stop = asyncio.Event()

    async def keep_writing(writer: int) -> int:
        count = 0
        while not stop.is_set():
            items = [EntryDraft(content=f"writer {writer} entry {count + n}", language="english") for n in range(20)]
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


async def test_change_waits_for_active_writers(move: Move) -> None:
    """The entry has the lowest id and is committed late, so later steps of the change would not find it."""
    await move.add(3)
    late = new_entry(UUID(int=1), EntryDraft(content="written by a slow transaction"))
    waits = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    async with move.services.database.tenant_session(move.tenant.id) as session:
        await entries.insert_entries(session, [late])
        starting = asyncio.create_task(move.start(switch_at_overlap=None))
        async with asyncio.timeout(60):
            while not await move.sql(waits):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert not starting.done()
    await starting
    await move.run_jobs()
    assert "written by a slow transaction" in await move.vectors(NEW)


@pytest.mark.slow
async def test_vectors_of_the_former_model_are_not_stored_after_the_change(move: Move) -> None:
    """As from a worker that began a file before the switch and ends after the old vectors were dropped."""
    await move.add(2)
    await move.move()
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


@pytest.mark.slow
async def test_rate_limits_the_entries_per_minute(move: Move) -> None:
    await move.add(30)
    await move.start(rate=120)
    assert await move.run_job()
    assert len(await move.vectors(NEW)) == 10
    wait = await move.sql(
        "select extract(epoch from run_at - clock_timestamp())::float from jobs where kind = 'reembed'"
    )
    assert 3.0 < wait <= 5.0
    assert not await move.services.worker.run_once(), "no worker waits for the next minute"
    change = await move.start(rate=None)
    assert change.rate is None
    assert (await move.finish()).state == "ready"
    assert len(move.new.documents) == 30


@pytest.mark.slow
async def test_equal_and_known_texts_are_embedded_once(move: Move) -> None:
    await move.add(4)
    await move.services.assets.upload(move.tenant.id, Upload("a.txt", b"The same text"))
    await move.services.assets.upload(move.tenant.id, Upload("b.txt", b"The same text", external_id="b"))
    await move.run_jobs()
    await move.start(switch_at_overlap=None)
    await move.run_jobs()
    assert sorted(move.new.documents) == ["The same text", *(f"entry number {n}" for n in range(4))]
    assert await move.sql("select count(*) from embeddings where model_id = 2") == 6


@pytest.mark.slow
async def test_unavailable_provider_only_delays_the_work(move: Move) -> None:
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
    assert (await move.search("entry number 1")).metadata.fallback_mode is False
    assert (await move.status()).failure == "mock unavailable: told to fail"
    move.new.down = False
    change = await move.finish()
    assert (change.state, change.failure) == ("ready", None)


async def test_vectors_without_meaning_in_common_wait_for_the_admin_by_default(move: Move) -> None:
    await move.add(50)
    await move.judge(8)
    await move.lose_meaning([f"entry number {n}" for n in range(50)] + [*move.old.vectors])
    await move.start()
    change = await move.finish()
    assert (change.state, change.decision.switch, change.decision.basis) == ("ready", "by_hand", "semantic_overlap")
    found = change.comparison
    assert found is not None
    assert found.semantic_overlap is not None
    assert found.semantic_overlap < 0.25
    assert (found.judgements, found.judged, found.source, found.depth) == (8, 8, "both", 5)
    assert await move.sql("select model_id from tenants") == OLD


@pytest.mark.slow
async def test_comparison_and_decision_are_part_of_every_state(move: Move) -> None:
    await move.add(50)
    started = await move.start()
    assert (started.comparison, started.decision.switch) == (None, "undecided")
    await move.run_jobs()
    ready = await move.status()
    service, tenant_id = move.services.reembedding, move.tenant.id
    switched = await service.switch(tenant_id)
    back = await service.switch(tenant_id, back=True)
    ended = await service.end(tenant_id)
    dropping = await move.status()
    assert [c.state for c in (ready, switched, back, ended, dropping)] == [
        *("ready", "switched", "ready", "dropping", "dropping")
    ]
    assert ready.comparison is not None
    assert {c.comparison for c in (switched, back, ended, dropping)} == {ready.comparison}
    assert {c.decision for c in (switched, back, ended, dropping)} == {ready.decision}
    await move.run_jobs()
    with pytest.raises(ModelChangeNotFound):
        await move.status()


@pytest.mark.slow
async def test_model_with_the_same_neighbours_is_switched_to(move: Move) -> None:
    await move.add(50)
    await move.keep_meaning(f"entry number {n}" for n in range(50))
    await move.start()
    change = await move.finish()
    assert (change.state, change.decision.basis) == ("switched", "semantic_overlap")
    assert change.comparison is not None
    assert (change.comparison.semantic_overlap, change.comparison.queries) == (1.0, 50)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("entries", [3, 15])
async def test_few_entries_are_too_little_evidence_at_any_threshold(move: Move, entries: int) -> None:
    await move.add(entries)
    await move.keep_meaning(f"entry number {n}" for n in range(entries))
    await move.start(switch_at_overlap=0.0)
    change = await move.finish()
    assert (change.state, change.decision.basis) == ("ready", "too_little_evidence")


@pytest.mark.slow
async def test_queries_that_neither_model_answers_do_not_count(move: Move) -> None:
    await move.services.tenants.change_settings(move.tenant.id, SettingsPatch(similarity_threshold=0.999))
    await move.add(50)
    await move.start(switch_at_overlap=0.0)
    change = await move.finish()
    assert change.comparison is not None
    assert (change.comparison.queries, change.comparison.semantic_overlap) == (0, None)
    assert change.decision.basis == "too_little_evidence"


@pytest.mark.slow
async def test_enough_feedback_decides_against_a_worse_model_at_any_threshold(move: Move) -> None:
    await move.add(50)
    await move.judge(20)
    await move.lose_meaning([f"entry number {n}" for n in range(50)] + [*move.old.vectors])
    await move.start(switch_at_overlap=0.0)
    change = await move.finish()
    assert (change.state, change.decision.switch, change.decision.basis) == ("ready", "by_hand", "feedback")
    assert change.comparison is not None
    quality = change.comparison.semantic_quality
    assert quality is not None
    assert (change.comparison.judgements, quality.old) == (20, 1.0)
    assert quality.low <= quality.new - quality.old <= quality.high < -0.1


@pytest.mark.slow
async def test_enough_feedback_decides_for_a_model_that_is_not_worse(move: Move) -> None:
    await move.add(50)
    await move.judge(20)
    await move.keep_meaning([f"entry number {n}" for n in range(50)] + [*move.old.vectors])
    await move.start(switch_at_overlap=1.0)
    change = await move.finish()
    assert (change.state, change.decision.basis) == ("switched", "feedback")


@pytest.mark.slow
async def test_by_hand_is_by_hand_with_any_evidence(move: Move) -> None:
    await move.add(50)
    await move.keep_meaning(f"entry number {n}" for n in range(50))
    await move.start(switch_at_overlap=None)
    change = await move.finish()
    assert (change.state, change.decision.basis, change.rests) == ("ready", "request", True)
    assert change.comparison is not None
    assert (await move.start(switch_at_overlap=0.9)).decision.switch == "automatic"
    assert (await move.finish()).state == "switched"


async def test_a_wait_for_a_failing_provider_ends_and_names_the_reason(move: Move) -> None:
    await move.add(3)
    move.new.down = True
    await move.start()
    assert await move.run_job()
    async with asyncio.timeout(30):
        with pytest.raises(
            ChangeStalled, match=r"^mock unavailable: told to fail; the change is at 0% and continues in the"
        ):
            await at_door(move.services, move.tenant.slug, lambda door: watch_change(door, stalled=0.0))
    move.new.down = False
    await move.run_jobs()
    change = await at_door(move.services, move.tenant.slug, lambda door: watch_change(door, stalled=0.0))
    assert change is not None
    assert (change.state, change.failure) == ("ready", None)


async def test_a_wait_ends_when_the_change_waits_for_its_admin_again(move: Move) -> None:
    await move.add(3)
    await move.move()
    await move.services.reembedding.switch(move.tenant.id, back=True)
    change = await at_door(move.services, move.tenant.slug, watch_change)
    assert change is not None
    assert change.state == "ready"


async def test_tenant_moves_to_a_model_of_other_dimensions(move: Move) -> None:
    await move.add(30)
    started = await move.start()
    assert (started.state, started.progress, started.entries) == ("filling", 0.0, 30)
    assert (started.old, started.new) == (MODEL.info, WIDER.info)
    await move.run_jobs()
    change = await move.services.reembedding.switch(move.tenant.id)
    assert (change.state, change.progress, change.waiting, change.refused) == ("switched", 1.0, 0, 0)
    assert change.comparison is not None
    assert await move.vectors(OLD) != {}
    made = await move.vectors(NEW)
    assert made.keys() == {f"entry number {n}" for n in range(30)}
    assert all(len(vector.split(",")) == 24 for vector in made.values())
    move.old.down = True
    (first, *_) = await move.search("entry number 7")
    assert first.content == "entry number 7"
    assert (await move.services.administration.stats(move.tenant.id)).model.dimensions == 24


async def test_switching_back_keeps_entries_written_after_the_switch(move: Move) -> None:
    await move.add(5)
    await move.move()
    await move.services.entries.create(move.tenant.id, EntryDraft(content="written after the switch"))
    change = await move.services.reembedding.switch(move.tenant.id, back=True)
    assert change.state == "ready"
    move.new.down = True
    assert (await move.search("written after the switch")).results[0].content == "written after the switch"
    # Only its admin switches it again.
    assert (await move.finish()).state == "ready"
    move.new.down = False
    assert (await move.services.reembedding.switch(move.tenant.id)).state == "switched"


@pytest.mark.slow
async def test_end_of_the_change_removes_the_vectors_of_the_unused_model(move: Move) -> None:
    await move.add(5)
    await move.move()
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
    # The tenant can move to the former model again, without any vectors.
    await move.services.reembedding.start(move.tenant.id, NewModelChange(dimensions=16))
    await move.run_jobs()
    assert len(await move.vectors(OLD)) == 6


@pytest.mark.slow
async def test_change_cancelled_before_the_switch_leaves_nothing(move: Move) -> None:
    await move.add(5)
    await move.start(switch_at_overlap=None)
    await move.run_jobs()
    await move.services.reembedding.end(move.tenant.id)
    await move.run_jobs()
    assert await move.vectors(NEW) == {}
    assert len(await move.vectors(OLD)) == 5
    assert await move.sql("select model_id from tenants") == OLD


async def test_upkeep_queues_a_lost_job_again(move: Move) -> None:
    await move.add(3)
    await move.start()
    await move.sql("delete from jobs")
    await move.services.worker.sweep.run()
    assert (await move.finish()).state == "ready"


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


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"model": "unheard-of"}, "model: is not registered; the operator must run: knowledge model add"),
        ({"provider": "openai"}, "model: is not registered"),
        ({"dimensions": 25}, "model: is not registered"),
        ({"provider": "local"}, "model: is registered, but this service has no provider"),
        ({"provider": "mock"}, "model: several models match"),
        ({"dimensions": 24, "rate": 0}, "rate: must be"),
        ({"dimensions": 24, "switch_at_overlap": 1.5}, "switch_at_overlap: must be"),
    ],
)
async def test_model_that_cannot_be_moved_to_is_refused(move: Move, given: dict[str, Any], reason: str) -> None:
    await register_model(move.made.admin_dsn, replace(MODEL, provider="local", name="a model", dimensions=7))
    with pytest.raises(InvalidInput, match=f"^{reason}"):
        await move.services.reembedding.start(move.tenant.id, NewModelChange(**given))
    with pytest.raises(ModelChangeNotFound):
        await move.status()


async def test_the_only_other_model_needs_no_name(move: Move) -> None:
    change = await move.services.reembedding.start(move.tenant.id)
    assert change.new == WIDER.info


async def test_another_change_during_a_change_is_refused(move: Move, services: Services) -> None:
    await move.start()
    for request in (
        move.services.reembedding.start(move.tenant.id, NewModelChange(dimensions=16)),
        move.services.reembedding.start(move.tenant.id, rebuild=True),
    ):
        with pytest.raises(Conflict, match="moving to another model"):
            await request
    with pytest.raises(InvalidInput, match="or rebuild the vectors of the model in use"):
        await services.reembedding.start(move.tenant.id)


async def test_terms_that_are_omitted_stay_unchanged(move: Move) -> None:
    await move.start(switch_at_overlap=None, rate=60)
    change = await move.start(rate=120)
    assert (change.rate, change.switch_at_overlap) == (120, None)
    change = await move.start(switch_at_overlap=0.9)
    assert (change.rate, change.switch_at_overlap) == (120, 0.9)


async def test_search_uses_the_old_model_until_the_switch(move: Move) -> None:
    await move.add(10)
    await move.start(switch_at_overlap=None)
    assert (await move.finish()).state == "ready"
    move.new.queries.clear()
    move.new.down = True
    result = await move.search("entry number 3")
    assert result.results[0].content == "entry number 3"
    assert result.metadata.fallback_mode is False
    assert move.new.queries == []


async def test_searches_during_the_switch_find_every_entry(move: Move) -> None:
    await move.add(25)
    await move.start(switch_at_overlap=None)
    await move.run_jobs()
    found: list[str] = []
    stop = asyncio.Event()

    async def keep_searching() -> None:
        while not stop.is_set():
            result = await move.search("entry number 11")
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


async def test_switch_waits_for_entries_written_a_moment_ago(move: Move) -> None:
    await move.add(3)
    await move.start(switch_at_overlap=None)
    await move.run_jobs()
    await move.services.entries.create(move.tenant.id, EntryDraft(content="written just now"))
    assert await move.pending(NEW) == 1
    await move.services.reembedding.switch(move.tenant.id)
    assert "written just now" in await move.vectors(NEW)
    move.old.down = True
    assert (await move.search("written just now")).results[0].content == "written just now"


@pytest.mark.slow
async def test_switch_is_refused_while_its_provider_is_unavailable(move: Move) -> None:
    await move.add(1)
    await move.start(switch_at_overlap=None)
    await move.run_jobs()
    await move.services.entries.create(move.tenant.id, EntryDraft(content="written just now"))
    move.new.down = True
    with pytest.raises(EmbeddingUnavailable):
        await move.services.reembedding.switch(move.tenant.id)
    assert await move.sql("select model_id from tenants") == OLD


@pytest.mark.slow
async def test_new_vectors_of_a_large_tenant_are_in_their_index_before_the_switch(move: Move) -> None:
    await move.add(EXACT_LIMIT + 20)
    assert (await move.services.administration.stats(move.tenant.id)).indexed is True
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
    assert semantic_leg_of(result).strategy == "indexed"
    assert result.results[0].content == "entry number 9"


@pytest.mark.slow
async def test_text_that_the_new_provider_refuses_prevents_the_automatic_switch(move: Move) -> None:
    await move.add(3)
    move.new.refused = {"entry number 1"}
    await move.start()
    change = await move.finish()
    assert (change.state, change.refused, change.waiting) == ("ready", 1, 0)
    assert change.progress == pytest.approx(2 / 3, abs=1e-4)
    assert (await move.services.reembedding.switch(move.tenant.id)).state == "switched"
