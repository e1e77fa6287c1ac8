"""A model change from its start to its end, and how it can be cancelled."""

from __future__ import annotations

import pytest

from app.contract.entries import EntryDraft
from app.contract.models import NewModelChange
from app.errors import Conflict, ModelChangeNotFound
from tests.fixtures.database.cluster import MODEL
from tests.knowledge.reembedding.moving import NEW, OLD, WIDER, Move


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
    await move.run_jobs()
    assert (await move.status()).state == "ready"
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
    await move.run_jobs()
    assert (await move.status()).state == "ready"


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
