"""Exact BM25, with which the benchmark compares the keyword leg."""

from __future__ import annotations

import math

import numpy as np
import pytest

from app.composition.services import Services
from app.evaluation.collection import Document
from benchmarks.corpus.construction import build_tenants
from benchmarks.corpus.population import Population
from benchmarks.corpus.stock import Stock
from benchmarks.measures.words import ExactWords, measure_words, read_words
from benchmarks.texts import Library
from tests.evaluation.samples import TEXTS, hide_progress
from tests.fixtures.database.cluster import MODEL


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
    vectors = np.eye(len(TEXTS), MODEL.dimensions, dtype=np.float32)
    documents = [Document(str(number), None, text) for number, text in enumerate(TEXTS)]
    await build_tenants(services, admin_dsn, Stock(Library(documents), vectors), [tenant], hide_progress)
    queries = ["pipes of steel", "night desert", '"quoted phrase"']
    exact = await read_words(services, tenant.tenant_id, queries)
    starts = tenant.number % len(TEXTS)
    best = [int(np.argmax(exact.score(question))) for question in range(2)]
    assert [
        "pipe" in TEXTS[(starts + best[0]) % len(TEXTS)],
        "desert" in TEXTS[(starts + best[1]) % len(TEXTS)],
    ]
    measured = await measure_words(services, tenant, queries)
    assert (measured.size, measured.recall, measured.questions) == (len(TEXTS), 1.0, 2)
    assert 0 < measured.p50 <= measured.p95
