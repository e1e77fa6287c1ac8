"""When the evidence is good enough for the service to switch a tenant itself."""

from __future__ import annotations

import pytest

from app.contract.settings import SettingsPatch
from app.errors import ModelChangeNotFound
from tests.knowledge.reembedding.moving import OLD, Move


async def test_vectors_without_meaning_in_common_wait_for_the_admin_by_default(move: Move) -> None:
    await move.add(50)
    await move.judge(8)
    await move.lose_meaning([f"entry number {n}" for n in range(50)] + [*move.old.vectors])
    await move.start()
    await move.run_jobs()
    change = await move.status()
    assert (change.state, change.decision.switch, change.decision.basis) == (
        "ready",
        "by_hand",
        "semantic_overlap",
    )
    found = change.comparison
    assert found is not None
    assert found.semantic_overlap is not None
    assert found.semantic_overlap < 0.25
    assert (found.judgements, found.judged, found.source, found.depth) == (8, 8, "both", 5)
    assert await move.sql("select model_id from tenants") == OLD


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


async def test_model_with_the_same_neighbours_is_switched_to(move: Move) -> None:
    await move.add(50)
    await move.keep_meaning(f"entry number {n}" for n in range(50))
    await move.start()
    await move.run_jobs()
    change = await move.status()
    assert (change.state, change.decision.basis) == ("switched", "semantic_overlap")
    assert change.comparison is not None
    assert (change.comparison.semantic_overlap, change.comparison.queries) == (1.0, 50)


@pytest.mark.parametrize("entries", [3, 15])
async def test_few_entries_are_too_little_evidence_at_any_threshold(move: Move, entries: int) -> None:
    await move.add(entries)
    await move.keep_meaning(f"entry number {n}" for n in range(entries))
    await move.start(switch_at_overlap=0.0)
    await move.run_jobs()
    change = await move.status()
    assert (change.state, change.decision.basis) == ("ready", "too_little_evidence")


@pytest.mark.slow
async def test_queries_that_neither_model_answers_do_not_count(move: Move) -> None:
    await move.services.tenants.change_settings(move.tenant.id, SettingsPatch(similarity_threshold=0.999))
    await move.add(50)
    await move.start(switch_at_overlap=0.0)
    await move.run_jobs()
    change = await move.status()
    assert change.comparison is not None
    assert (change.comparison.queries, change.comparison.semantic_overlap) == (0, None)
    assert change.decision.basis == "too_little_evidence"


@pytest.mark.slow
async def test_enough_feedback_decides_against_a_worse_model_at_any_threshold(move: Move) -> None:
    await move.add(50)
    await move.judge(20)
    await move.lose_meaning([f"entry number {n}" for n in range(50)] + [*move.old.vectors])
    await move.start(switch_at_overlap=0.0)
    await move.run_jobs()
    change = await move.status()
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
    await move.run_jobs()
    change = await move.status()
    assert (change.state, change.decision.basis) == ("switched", "feedback")


@pytest.mark.slow
async def test_by_hand_is_by_hand_with_any_evidence(move: Move) -> None:
    await move.add(50)
    await move.keep_meaning(f"entry number {n}" for n in range(50))
    await move.start(switch_at_overlap=None)
    await move.run_jobs()
    change = await move.status()
    assert (change.state, change.decision.basis, change.rests) == ("ready", "request", True)
    assert change.comparison is not None
    assert (await move.start(switch_at_overlap=0.9)).decision.switch == "automatic"
    await move.run_jobs()
    assert (await move.status()).state == "switched"
