"""Metrics, their intervals, and the baseline."""

import math

import numpy as np
import pytest

from app.evaluation.collection import Collection, Document, Query
from app.evaluation.metrics import (
    K1,
    METRICS,
    B,
    compare_paired,
    estimate_means,
    find_language,
    rank_by_bm25,
    recall,
    reciprocal_rank,
    score_rankings,
)
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


def test_interval_is_the_same_each_time() -> None:
    generator = np.random.default_rng(1)
    ours, theirs = list(generator.uniform(size=50)), list(generator.uniform(size=50))
    assert compare_paired(ours, theirs) == compare_paired(ours, theirs)
    assert compare_paired(ours, theirs, seed=1) != compare_paired(ours, theirs, seed=2)


def test_interval_of_a_constant_difference_is_a_point() -> None:
    interval = compare_paired([0.5, 0.75, 1.0], [0.25, 0.5, 0.75])
    assert (interval.difference, interval.low, interval.high) == (0.25, 0.25, 0.25)


def test_interval_agrees_with_the_normal_one_for_many_queries() -> None:
    generator = np.random.default_rng(7)
    ours, theirs = generator.normal(0.6, 0.2, 2_000), generator.normal(0.5, 0.2, 2_000)
    interval = compare_paired(list(ours), list(theirs))
    spread = (ours - theirs).std() / np.sqrt(2_000)
    assert interval.difference == pytest.approx((ours - theirs).mean())
    assert interval.low == pytest.approx(interval.difference - 1.96 * spread, abs=0.1 * spread)
    assert interval.high == pytest.approx(interval.difference + 1.96 * spread, abs=0.1 * spread)


def test_interval_uses_the_pairing() -> None:
    generator = np.random.default_rng(3)
    hardness = generator.uniform(0, 1, 300)
    interval = compare_paired(list(hardness + 0.01), list(hardness))
    assert interval.low == pytest.approx(0.01)


def test_interval_of_swapped_systems_is_mirrored() -> None:
    ours, theirs = [0.1, 0.9, 0.4, 0.6], [0.3, 0.2, 0.5, 0.1]
    there, back = compare_paired(ours, theirs), compare_paired(theirs, ours)
    assert (there.difference, there.low, there.high) == pytest.approx((-back.difference, -back.high, -back.low))


def test_wrong_input_is_refused() -> None:
    with pytest.raises(ValueError, match="value for each query"):
        compare_paired([0.1], [])
    with pytest.raises(ValueError, match="at least one"):
        compare_paired([], [])


def test_columns_share_their_draws() -> None:
    generator = np.random.default_rng(5)
    table = generator.uniform(size=(40, 3))
    table[:, 2] = table[:, 0] - table[:, 1]
    first, second, difference = estimate_means(table)
    paired = compare_paired(list(table[:, 0]), list(table[:, 1]))
    assert (paired.difference, paired.low, paired.high) == pytest.approx(
        (difference.mean, difference.low, difference.high)
    )
    assert first.mean == pytest.approx(table[:, 0].mean())
    assert first.low < first.mean < first.high
    assert first != second


def test_interval_of_a_mean_agrees_with_the_normal_one() -> None:
    values = np.random.default_rng(9).normal(0.6, 0.2, 2_000)
    (found,) = estimate_means(values[:, np.newaxis])
    spread = values.std() / np.sqrt(2_000)
    assert found.mean == pytest.approx(values.mean())
    assert found.low == pytest.approx(found.mean - 1.96 * spread, abs=0.1 * spread)
    assert found.high == pytest.approx(found.mean + 1.96 * spread, abs=0.1 * spread)


def make_collection(texts: list[str], queries: list[str]) -> Collection:
    documents = [Document(f"d{n}", None, text) for n, text in enumerate(texts)]
    return Collection("c", "q", documents, [Query(str(n), q, {"d0": 1}) for n, q in enumerate(queries)], 0, 1)


ENGLISH = [
    "The engineers were measuring how the pressure waves travel through long pipes.",
    "A cook explains why the bread needs to rest before it goes into the oven.",
    "The measurements of the engineer are about pipes, pipes and nothing but pipes.",
]


def test_baseline_stems_and_drops_stop_words() -> None:
    (found, none) = rank_by_bm25(make_collection(ENGLISH, ["the engineers measured", "why the and of"]))[1]
    assert set(found) == {"d0", "d2"}
    assert none == []


def test_baseline_ranks_by_the_formula() -> None:
    (ranking,) = rank_by_bm25(make_collection(ENGLISH, ["pipe"]))[1]
    # One word: idf is the same for both, so tf / (tf + k1 (1 - b + b len/avg)) decides: 3 of 6 against 1 of 7.
    mean = (7 + 5 + 6) / 3
    three = 3 / (3 + K1 * (1 - B + B * 6 / mean))
    one = 1 / (1 + K1 * (1 - B + B * 7 / mean))
    assert three > one > 0 < math.log(1 + (3 - 2 + 0.5) / (2 + 0.5))
    assert ranking == ["d2", "d0"]


def test_baseline_uses_the_language_of_most_documents() -> None:
    german = [
        "Die Ingenieure maßen, wie sich die Druckwellen durch die langen Leitungen ausbreiten.",
        "Der Koch erklärt, warum das Brot vor dem Backen noch eine Weile ruhen soll.",
        "An English sentence among the others, which are all of them in another language.",
    ]
    collection = make_collection(german, ["Leitung der Ingenieurin"])
    assert find_language(collection) == "german"
    assert rank_by_bm25(collection)[1] == [["d0"]]
