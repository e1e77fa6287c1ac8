"""When a search has found a clear answer."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import pytest

from app.db.queries.search import LegHit
from app.embeddings.provider import EmbeddingModel, resolve_model
from app.knowledge.search.legs.findings import Legs
from app.knowledge.search.legs.keyword import KeywordHits, Replacements
from app.knowledge.search.legs.semantic import SemanticHits
from app.knowledge.search.ranking import Candidate, has_strong_match

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FULL = 10.0
"""The BM25 score of an entry that contains the whole query."""

MINILM = resolve_model("local")
E5 = resolve_model("local", "multilingual-e5-small")


def judge(
    cosine: float | None,
    bm25: float | None,
    *,
    model: EmbeddingModel = MINILM,
    semantic: bool = True,
    keyword: bool = True,
    whole: bool = False,
) -> bool:
    """Whether one hit with these scores is a strong match when these legs ran."""
    hit = LegHit(UUID(int=1), NOW, 1.0)
    legs = Legs(
        semantic=SemanticHits(hits=[hit], matches=1, pending=0, strategy="exact", compared=True, seconds=0.0)
        if semantic
        else None,
        keyword=KeywordHits(
            hits=[hit],
            total=1,
            complete=True,
            full_match=FULL,
            entries=1000,
            whole=whole,
            replacements=Replacements(),
            seconds=0.0,
        )
        if keyword
        else None,
    )
    one = Candidate(UUID(int=1), NOW, similarity=cosine, keyword_score=bm25, keyword_rank=None if bm25 is None else 1)
    return has_strong_match(legs, [one], model)


@pytest.mark.parametrize(
    ("cosine", "bm25", "strong"),
    [
        # 0.6 * cosine + 0.4 * sqrt(bm25 / full) from 0.5 on
        (0.84, None, True),
        (0.83, None, False),
        (0.5, 2.6, True),
        (0.5, 2.4, False),
        (None, 8.2, True),
        (None, 8.0, False),
        (0.0, 0.0, False),
        (None, None, False),
    ],
)
def test_both_legs_together_decide(cosine: float | None, bm25: float | None, strong: bool) -> None:
    assert judge(cosine, bm25) is strong


def test_one_leg_needs_a_higher_score_than_both_legs() -> None:
    assert judge(None, 4.2, semantic=False)
    assert not judge(None, 4.0, semantic=False)
    assert judge(0.41, None, keyword=False)
    assert not judge(0.39, None, keyword=False)


def test_a_completely_matched_identifier_is_a_strong_match() -> None:
    assert judge(None, 0.1, whole=True)
    assert not judge(None, 0.1)


def test_cosines_are_judged_relative_to_the_threshold_of_their_model() -> None:
    # E5 gives unrelated texts cosines near 0.78, which MiniLM gives to paraphrases.
    assert judge(0.78, 1.0, model=MINILM)
    assert not judge(0.78, 1.0, model=E5)
    assert judge(0.95, 1.0, model=E5)


def test_an_empty_result_has_no_strong_match() -> None:
    assert not has_strong_match(Legs(), [], MINILM)
