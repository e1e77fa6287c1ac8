"""The gate of a switch, and the comparison behind it."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from app.contract.entries import EntryDraft
from app.contract.models import DEFAULT_OVERLAP, Comparison, Quality
from app.contract.settings import SettingsPatch
from app.db.queries.reembedding import ChangeRow, OtherVectors
from app.knowledge.feedback import difference_interval
from app.knowledge.reembedding.comparison import decide
from tests.fixtures.database.cluster import MODEL
from tests.knowledge.reembedding.moving import WIDER, Move

EQUAL = Quality(old=0.8, new=0.8, low=-0.04, high=0.04)
WORSE = Quality(old=0.8, new=0.7, low=-0.15, high=-0.05)
UNCERTAIN = Quality(old=0.8, new=0.8, low=-0.041, high=0.06)
ALIKE = Comparison(
    queries=50,
    source="queries",
    depth=10,
    overlap=0.9,
    semantic_overlap=DEFAULT_OVERLAP,
    same=3,
    empty=0,
    judgements=0,
    judged=0,
    quality=None,
    semantic_quality=None,
)
READY = ChangeRow(
    from_model=1,
    to_model=2,
    old=MODEL,
    new=WIDER,
    state="ready",
    rate=None,
    switch_at_overlap=DEFAULT_OVERLAP,
    visited=100,
    visited_all=True,
    comparison=ALIKE,
    started_at=datetime.now(UTC),
    ready_at=None,
    switched_at=None,
    rebuild_refused=0,
    failure=None,
    current=1,
    other=2,
    vectors=OtherVectors(entries=100, waiting=0, refused=0, passages=100, index_state="none"),
    workers=0,
)


def judged(queries: int, judgements: int, quality: Quality, semantic: Quality | None = None) -> dict[str, Any]:
    return {"judged": queries, "judgements": judgements, "quality": quality, "semantic_quality": semantic or quality}


@pytest.mark.parametrize(
    ("found", "switch", "basis"),
    [
        ({}, "automatic", "semantic_overlap"),
        ({"semantic_overlap": DEFAULT_OVERLAP - 0.001}, "by_hand", "semantic_overlap"),
        ({"semantic_overlap": 0.1, "overlap": 1.0}, "by_hand", "semantic_overlap"),
        ({"queries": 20}, "automatic", "semantic_overlap"),
        ({"queries": 19}, "by_hand", "too_little_evidence"),
        ({"queries": 0, "semantic_overlap": None}, "by_hand", "too_little_evidence"),
        # Enough feedback decides, whatever the overlap is.
        ({"semantic_overlap": 0.1, **judged(10, 20, EQUAL)}, "automatic", "feedback"),
        ({"queries": 0, "semantic_overlap": None, **judged(10, 20, EQUAL)}, "automatic", "feedback"),
        (judged(10, 20, WORSE), "by_hand", "feedback"),
        (judged(10, 20, UNCERTAIN), "by_hand", "feedback"),
        # The words of a query must not hide vectors that find nothing.
        (judged(10, 20, EQUAL, WORSE), "by_hand", "feedback"),
        (judged(10, 20, WORSE, EQUAL), "by_hand", "feedback"),
        # Little feedback does not cause a switch, but prevents one.
        ({"semantic_overlap": 0.1, **judged(9, 30, EQUAL)}, "by_hand", "semantic_overlap"),
        ({"semantic_overlap": 0.1, **judged(19, 19, EQUAL)}, "by_hand", "semantic_overlap"),
        (judged(5, 8, EQUAL), "automatic", "semantic_overlap"),
        (judged(5, 8, WORSE), "by_hand", "feedback"),
        (judged(5, 8, EQUAL, WORSE), "by_hand", "feedback"),
    ],
)
def test_a_comparison_leads_to_a_decision(found: dict[str, Any], switch: str, basis: str) -> None:
    decision = decide(replace(READY, comparison=replace(ALIKE, **found)))
    assert (decision.switch, decision.basis) == (switch, basis)
    assert decision.reason


def test_refused_entries_leave_a_first_switch_to_the_admin() -> None:
    assert decide(replace(READY, vectors=replace(READY.vectors, refused=1))).basis == "refused_entries"


def test_the_interval_contains_the_mean_difference_and_narrows_with_more_queries() -> None:
    old, new = [0.5, 0.7, 0.9, 0.3] * 5, [0.6, 0.6, 1.0, 0.4] * 5
    low, high = difference_interval(old, new)
    assert low < 0.05 < high
    narrow = difference_interval(old * 10, new * 10)
    assert low < narrow[0] < 0.05 < narrow[1] < high
    assert difference_interval(old, new) == (low, high)
    assert difference_interval(old, old) == (0.0, 0.0)


@pytest.mark.slow
async def test_models_are_compared_on_the_queries_that_the_tenant_keeps(move: Move) -> None:
    await move.services.tenants.change_settings(move.tenant.id, SettingsPatch(keep_query_text=True))
    await move.add(50)
    for query in ("a first question", "a second question", "a second question"):
        await move.search(query, "hybrid")
    await move.services.journal.flush()
    move.new.queries.clear()
    await move.start(switch_at_overlap=None)
    change = await move.finish()
    assert change.comparison is not None
    assert (change.comparison.source, change.comparison.queries) == ("both", 50)
    assert {"a first question", "a second question"} < set(move.new.queries)
    assert len(set(move.new.queries)) == 50
    assert await move.sql("select comparison::text ~ 'question' from model_changes") is False
    await move.services.journal.flush()
    assert await move.sql("select count(*) from searches") == 3, "comparing leaves no receipts"


@pytest.mark.slow
async def test_models_are_compared_on_titles_without_kept_queries(move: Move) -> None:
    await move.services.tenants.change_settings(move.tenant.id, SettingsPatch(similarity_threshold=0.0))
    await move.services.entries.create_many(
        move.tenant.id, [EntryDraft(content=f"text {n}", title=f"Title {n}") for n in range(20)]
    )
    await move.services.embedder.embed_all(move.tenant.id)
    await move.search("not kept")
    await move.services.journal.flush()
    await move.start(switch_at_overlap=None)
    change = await move.finish()
    assert change.comparison is not None
    assert (change.comparison.source, change.comparison.queries) == ("titles", 20)
    assert {f"Title {n}" for n in range(20)} == set(move.new.queries)
