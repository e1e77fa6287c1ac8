"""The metrics compared with values computed by hand."""

from __future__ import annotations

import math

import pytest

from app.evaluation.metrics import METRICS, recall, reciprocal_rank, score_rankings
from app.knowledge.feedback import ndcg


def test_ndcg_of_one_relevant_document_is_its_discount() -> None:
    assert ndcg(["a"], {"a": 1}) == 1.0
    assert ndcg(["x", "a"], {"a": 1}) == pytest.approx(1 / math.log2(3))  # 0.6309
    assert ndcg(["x", "y", "a"], {"a": 1}) == pytest.approx(0.5)


def test_ndcg_weighs_grades_linearly() -> None:
    grades = {"a": 3, "b": 2, "c": 3, "d": 0, "e": 1, "f": 2}
    # The worked example of "Discounted cumulative gain" on Wikipedia: DCG 6.861, ideal over these six 7.141.
    assert ndcg(["a", "b", "c", "d", "e", "f"], grades, k=6) == pytest.approx(6.861 / 7.141, abs=2e-4)


def test_ndcg_ideal_counts_judged_documents_that_were_not_found() -> None:
    ideal = 1 + 1 / math.log2(3)
    assert ndcg(["a"], {"a": 1, "b": 1}) == pytest.approx(1 / ideal)


def test_ndcg_ideal_is_cut_at_k() -> None:
    grades = {str(n): 1.0 for n in range(50)}
    assert ndcg([str(n) for n in range(10)], grades) == pytest.approx(1.0)


def test_ndcg_ignores_ranks_after_k() -> None:
    assert ndcg(["x"] * 10 + ["a"], {"a": 1}) == 0.0


def test_ndcg_counts_negative_grades_as_irrelevant() -> None:
    assert ndcg(["bad", "a"], {"bad": -1, "a": 2}) == pytest.approx(1 / math.log2(3))
    assert ndcg(["bad"], {"bad": -1}) == 0.0


def test_ndcg_of_nothing_found_is_zero() -> None:
    assert ndcg([], {"a": 1}) == 0.0
    assert ndcg(["a"], {}) == 0.0


def test_recall_counts_relevant_documents_within_k() -> None:
    grades = {"a": 1, "b": 2, "c": 0, "d": -1}
    assert recall(["a", "c", "d"], grades) == 0.5
    assert recall(["x"] * 99 + ["a", "b"], grades) == 0.5
    assert recall(["b", "a"], grades) == 1.0
    assert recall(["c"], {"c": 0}) == 0.0


def test_reciprocal_rank_is_of_the_first_relevant_document_within_ten() -> None:
    assert reciprocal_rank(["x", "b", "a"], {"a": 1, "b": 1}) == 0.5
    assert reciprocal_rank(["x"] * 9 + ["a"], {"a": 1}) == pytest.approx(0.1)
    assert reciprocal_rank(["x"] * 10 + ["a"], {"a": 1}) == 0.0
    assert reciprocal_rank(["c", "a"], {"c": 0, "a": 1}) == 0.5


def test_means_include_queries_without_results() -> None:
    scores = score_rankings([["a"], []], [{"a": 1}, {"b": 1}])
    assert scores.means == dict.fromkeys(METRICS, 0.5)
    assert scores.select([0]).means == dict.fromkeys(METRICS, 1.0)


def test_recall_and_hits_of_memories_are_cut_at_five_and_ten() -> None:
    ranking = ["x", "a", "y", "z", "w", "b"]
    means = score_rankings([ranking], [{"a": 1, "b": 1, "c": 1, "x": 0}]).means
    assert [means["recall@5"], means["recall@10"]] == pytest.approx([1 / 3, 2 / 3])
    assert (means["hit@5"], means["hit@10"], means["answered"]) == (1.0, 1.0, 1.0)
    late = score_rankings([["x"] * 5 + ["a"]], [{"a": 1}]).means
    assert (late["hit@5"], late["hit@10"]) == (0.0, 1.0)


def test_scoring_needs_a_ranking_for_each_query() -> None:
    with pytest.raises(ValueError, match="longer"):
        score_rankings([["a"]], [{"a": 1}, {"b": 1}])
