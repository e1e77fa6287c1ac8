"""Fusion, with results calculated by hand."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from app.contract.search import RRF_WEIGHTS, SCORE_WEIGHTS, Weights
from app.db.queries.search import LegHit
from app.knowledge.search.legs.keyword import KeywordHits, Replacements
from app.knowledge.search.ranking import (
    Candidate,
    apply_boosts,
    cosine_stretch,
    join_legs,
    rank,
    reciprocal_rank_fusion,
    score_fusion,
    stretch_cosine,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def entry(number: int) -> UUID:
    return UUID(int=number)


def candidate(number: int, semantic: int | None = None, keyword: int | None = None) -> Candidate:
    return Candidate(entry(number), NOW, semantic_rank=semantic, keyword_rank=keyword)


def keyword_hits(best: float | None, full_match: float, entries: int = 1_000_000) -> KeywordHits:
    hits = [] if best is None else [LegHit(entry(1), NOW, best)]
    return KeywordHits(
        hits=hits,
        total=len(hits),
        complete=True,
        full_match=full_match,
        entries=entries,
        whole=False,
        replacements=Replacements(),
        seconds=0.0,
    )


@pytest.mark.parametrize(("semantic", "keyword", "score"), [(1, 5, 0.0161), (3, None, 0.0111), (None, 1, 0.0049)])
def test_reciprocal_ranks_are_added_as_in_the_contract(semantic: int | None, keyword: int | None, score: float) -> None:
    one = candidate(1, semantic, keyword)
    reciprocal_rank_fusion([one], Weights(0.7, 0.3))
    assert round(one.score, 4) == score
    assert one.score == one.semantic_term + one.keyword_term
    assert one.sources == [leg for leg, place in (("semantic", semantic), ("keyword", keyword)) if place is not None]


def test_reciprocal_ranks_depend_on_weights_and_k() -> None:
    one = candidate(1, semantic=2, keyword=4)
    reciprocal_rank_fusion([one], Weights(0.25, 0.75), k=10)
    assert one.score == pytest.approx(0.25 / 12 + 0.75 / 14)


def test_weights_are_not_renormalised_for_an_absent_leg() -> None:
    only = candidate(1, keyword=1)
    reciprocal_rank_fusion([only], Weights(0.7, 0.3))
    assert only.score == 0.3 / 61


def test_equal_scores_are_ordered_by_newest_change_then_by_id() -> None:
    older, newer, newer_too = candidate(3, 1), candidate(2, 1), candidate(1, 1)
    newer.updated_at = newer_too.updated_at = NOW + timedelta(microseconds=1)
    reciprocal_rank_fusion([older, newer, newer_too], RRF_WEIGHTS)
    assert [c.entry_id for c in rank([older, newer, newer_too])] == [entry(1), entry(2), entry(3)]


def test_joined_legs_have_ranks_from_one_and_each_entry_once() -> None:
    semantic = [LegHit(entry(1), NOW, 0.9), LegHit(entry(2), NOW, 0.8)]
    keyword = [LegHit(entry(2), NOW, 7.0), LegHit(entry(3), NOW, 5.0)]
    joined = {c.entry_id: c for c in join_legs(semantic, keyword)}
    assert {i.int: (c.semantic_rank, c.keyword_rank) for i, c in joined.items()} == {
        1: (1, None),
        2: (2, 1),
        3: (None, 2),
    }
    assert joined[entry(2)].similarity == 0.8
    assert joined[entry(2)].keyword_score == 7.0
    assert joined[entry(3)].similarity is None
    assert joined[entry(1)].keyword_score is None


def test_scores_are_the_cosine_and_a_power_of_the_share_of_a_full_match() -> None:
    both, words, meaning = candidate(1), candidate(2), candidate(3)
    both.similarity, both.keyword_score = 0.8, 5.0
    words.keyword_score, words.cosine = 10.0, 0.2
    meaning.similarity = 0.6
    score_fusion([both, words, meaning], Weights(0.6, 0.4), 40.0)
    assert both.score == pytest.approx(0.6 * 0.8 + 0.4 * 0.125**1.5)
    assert words.score == pytest.approx(0.6 * 0.2 + 0.4 * 0.25**1.5)
    assert meaning.score == pytest.approx(0.36)


def test_a_score_does_not_depend_on_the_other_candidates() -> None:
    def score(*others: float) -> float:
        one = candidate(1)
        one.similarity, one.keyword_score = 0.5, 5.0
        pool = [one, *(candidate(n) for n in range(2, 2 + len(others)))]
        for other, words in zip(pool[1:], others, strict=True):
            other.keyword_score = words
        score_fusion(pool, Weights(0.4, 0.6), 20.0)
        return one.score

    assert score() == score(19.0) == score(1.0, 20.0)


def test_a_few_words_of_a_question_do_not_outweigh_a_near_vector_but_all_of_them_do() -> None:
    """A fifth of the words is what unrelated entries share with a question."""
    near, few, full = candidate(1), candidate(2), candidate(3)
    near.similarity = 0.4
    few.cosine, few.keyword_score = 0.25, 2.0
    full.cosine, full.keyword_score = 0.25, 7.5
    score_fusion([near, few, full], SCORE_WEIGHTS, 10.0)
    assert [c.entry_id.int for c in rank([near, few, full])] == [3, 1, 2]


def test_a_short_query_is_measured_against_a_full_match_or_what_exceeds_it() -> None:
    assert keyword_hits(best=5.0, full_match=12.0).scale == pytest.approx(12.0)
    assert keyword_hits(best=14.0, full_match=12.0).scale == pytest.approx(14.0)
    assert keyword_hits(best=None, full_match=12.0).scale == 0.0


def test_a_long_query_is_measured_against_three_words_that_one_entry_has() -> None:
    """A term is then BM25 * sqrt(BM25 / full match) / the score of three such words."""
    rare = 2.2 * 2 / (2 + 1.2) * math.log(1 + 999.5 / 1.5)
    found = keyword_hits(best=30.0, full_match=90.0, entries=1000)
    one = candidate(1)
    one.keyword_score = 30.0
    score_fusion([one], Weights(0.0, 1.0), found.scale)
    assert one.score == pytest.approx(30.0 * math.sqrt(30.0 / 90.0) / (3 * rare))
    assert keyword_hits(best=20.0, full_match=3 * rare, entries=1000).scale == pytest.approx(3 * rare)


def test_score_fusion_counts_a_negative_cosine_as_zero() -> None:
    opposite = candidate(1)
    opposite.keyword_score, opposite.cosine = 2.0, -0.5
    score_fusion([opposite], Weights(0.5, 0.5), 2.0)
    assert opposite.score == 0.5


def test_score_fusion_without_keyword_hits_does_not_divide_by_zero() -> None:
    one = candidate(1)
    one.similarity = 0.5
    score_fusion([one], Weights(0.5, 0.5), 0.0)
    assert one.score == 0.25
    score_fusion([], RRF_WEIGHTS, 0.0)


def test_boosts_multiply_and_are_kept_by_name() -> None:
    lifted, left = candidate(1, 1), candidate(2, 1)
    reciprocal_rank_fusion([lifted, left], RRF_WEIGHTS)
    before = left.score
    apply_boosts([lifted, left], {entry(1): {"type": 2.0, "verified": 1.5}})
    assert lifted.score == pytest.approx(before * 3)
    assert lifted.boosts == {"type": 2.0, "verified": 1.5}
    assert left.score == before
    assert left.boosts == {}


def test_cosines_of_a_model_with_close_texts_are_stretched_to_those_of_the_measured_one() -> None:
    assert stretch_cosine(0.78, cosine_stretch(0.78)) == pytest.approx(0.3)
    assert stretch_cosine(0.89, cosine_stretch(0.78)) == pytest.approx(0.65)
    assert stretch_cosine(1.0, cosine_stretch(0.78)) == pytest.approx(1.0)
    assert [stretch_cosine(0.37, cosine_stretch(threshold)) for threshold in (0.1, 0.3)] == [0.37, 0.37]


def test_a_near_vector_outranks_a_few_words_with_such_a_model_too() -> None:
    near, words = candidate(1), candidate(2)
    near.similarity, words.similarity, words.keyword_score = 0.9, 0.8, 2.5
    score_fusion([near, words], SCORE_WEIGHTS, 10.0, threshold=0.78)
    assert near.score > words.score
    score_fusion([near, words], SCORE_WEIGHTS, 10.0)
    assert near.score < words.score, "unscaled, a quarter of the words counts more"
