"""Texts and words of the benchmarks."""

import itertools
import math
import re
from collections import Counter
from pathlib import Path

import numpy as np
import orjson
import pytest

from app.composition.services import Services
from benchmarks.corpus.construction import build_tenants
from benchmarks.corpus.made_up import make_texts
from benchmarks.corpus.population import Population
from benchmarks.measures.words import ExactWords, measure_words, read_words
from benchmarks.texts import find_kind, make_queries, read_library
from tests.evaluation.samples import TEXTS, hide_progress, make_stock


def write_collection(folder: Path) -> None:
    """A collection of two texts and one judged query in the layout that `read_library` reads."""
    (folder / "scifact").mkdir()
    documents = [
        {"_id": "1", "title": "Cells", "text": "Cells divide. They grow again."},
        {"_id": "2", "title": "", "text": "Water boils when it is hot. Ice melts."},
    ]
    queries = [{"_id": "q", "text": "Why do cells divide?"}]
    for name, rows in (("corpus", documents), ("queries", queries)):
        lines = [orjson.dumps(row).decode() for row in rows]
        (folder / "scifact" / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for name in ("qrels.tsv", "qrels.train.tsv"):
        (folder / "scifact" / name).write_text("query-id\tcorpus-id\tscore\nq\t1\t1\n", encoding="utf-8")


def test_texts_come_from_the_collections_with_the_questions_about_them(tmp_path: Path) -> None:
    write_collection(tmp_path)
    library = read_library(folder=tmp_path)
    assert (find_kind(tmp_path), library.kind) == ("scifact", "scifact")
    assert {document.id for document in library.documents} == {"scifact 1", "scifact 2"}
    assert library.count_words() == 13
    asked = [d for d in library.documents if d.id == "scifact 1"]
    assert library.ask_about(asked) == [["Why do cells divide?"]]
    assert library.ask_about([d for d in library.documents if d.id == "scifact 2"]) == [[]]


def test_each_question_is_asked_once_in_turn_with_words(tmp_path: Path) -> None:
    write_collection(tmp_path)
    library = read_library(folder=tmp_path)
    questions = library.ask_about(library.documents)
    asked = list(itertools.islice(make_queries(library.documents, 1, questions), 6))
    assert asked[1] == "Why do cells divide?"
    assert asked.count("Why do cells divide?") == 1
    assert all(any(text in document.text for document in library.documents) for text in [asked[0], *asked[2:]])


def test_texts_are_made_up_without_the_collections(tmp_path: Path) -> None:
    library = read_library(20, folder=tmp_path)
    assert (len(library.documents), library.questions, library.kind) == (20, (), "made-up words")


@pytest.mark.slow
def test_made_up_texts_are_as_long_and_as_varied_as_real_ones() -> None:
    texts = make_texts(1_000)
    assert texts == make_texts(1_000)
    words = [re.findall(r"\w+", document.text.lower()) for document in texts]
    counts = Counter(itertools.chain.from_iterable(words))
    total = counts.total()
    # Measured on the collections: 181 words a text, 61 % of them distinct, and Heaps' law with 27.4 and 0.529.
    assert 170 < total / len(texts) < 195
    assert 0.57 < sum(len(set(text)) / len(text) for text in words) / len(texts) < 0.65
    assert 0.85 < len(counts) / (27.4 * total**0.529) < 1.15
    assert 0.045 < counts["the"] / total < 0.06


def postings(*entries: int) -> tuple[np.ndarray, np.ndarray]:
    return np.array(entries), np.ones(len(entries))


def test_a_score_is_computed_from_exact_statistics() -> None:
    lengths = np.array([100.0, 300.0])
    words = ExactWords([["pipe", "unknown"]], {"pipe": (np.array([1]), np.array([2.0]))}, lengths)
    idf = math.log(1 + (2 - 1 + 0.5) / 1.5)
    assert words.score(0).tolist() == pytest.approx([0, idf * 2.2 * 2 / (2 + 0.3 + 0.9 * 300 / 200)])


def test_an_entry_with_the_score_of_the_tenth_counts_as_found() -> None:
    words = ExactWords([["pipe"]], {"pipe": postings(*range(12))}, np.full(20, 100.0))
    assert words.count_found(0, list(range(2, 12))) == (10, 10)
    assert words.count_found(0, [0, 0, 1, 15]) == (2, 10)
    assert ExactWords([[]], {}, np.full(3, 1.0)).count_found(0, [1]) == (0, 0)


async def test_the_keyword_leg_finds_the_best_of_a_small_tenant(services: Services, admin_dsn: str) -> None:
    tenant = Population(1, len(TEXTS))
    await build_tenants(services, admin_dsn, make_stock(), [tenant], hide_progress)
    queries = ["pipes of steel", "night desert", '"quoted phrase"']
    exact = await read_words(services, tenant.tenant_id, queries)
    starts = tenant.number % len(TEXTS)
    best = [int(np.argmax(exact.score(question))) for question in range(2)]
    assert "pipe" in TEXTS[(starts + best[0]) % len(TEXTS)]
    assert "desert" in TEXTS[(starts + best[1]) % len(TEXTS)]
    measured = await measure_words(services, tenant, queries)
    assert (measured.size, measured.recall, measured.questions) == (len(TEXTS), 1.0, 2)
    assert 0 < measured.p50 <= measured.p95
