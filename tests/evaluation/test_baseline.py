"""BM25 by bm25s, the baseline."""

from __future__ import annotations

import math

from app.evaluation.collection import Collection, Document, Query
from app.evaluation.metrics import K1, B, find_language, rank_by_bm25


def make_collection(texts: list[str], queries: list[str]) -> Collection:
    documents = [Document(f"d{n}", None, text) for n, text in enumerate(texts)]
    return Collection("c", "q", documents, [Query(str(n), q, {"d0": 1}) for n, q in enumerate(queries)], 0, 1)


ENGLISH = [
    "The engineers were measuring how the pressure waves travel through long pipes.",
    "A cook explains why the bread needs to rest before it goes into the oven.",
    "The measurements of the engineer are about pipes, pipes and nothing but pipes.",
]


def test_baseline_stems_and_drops_stop_words() -> None:
    (found, none) = rank_by_bm25(make_collection(ENGLISH, ["the engineers measured", "why the and of"])).rankings
    assert set(found) == {"d0", "d2"}
    assert none == []


def test_baseline_ranks_by_the_formula() -> None:
    (ranking,) = rank_by_bm25(make_collection(ENGLISH, ["pipe"])).rankings
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
    assert rank_by_bm25(collection).rankings == [["d0"]]
