"""The parts that the speed benchmark is made of."""

from __future__ import annotations

import asyncio
import itertools
import json
from pathlib import Path

import pytest

from app.evaluation.collection import Document
from benchmarks.contenders import find_contenders
from benchmarks.load import Timings, apply_load
from benchmarks.results import Measurement, make_rows, write_results
from benchmarks.texts import make_queries, vary_texts

ORIGINALS = [
    Document("a", "First", "One sentence here. Another sentence there. And a third one at last."),
    Document("b", None, "Water boils at a hundred degrees. Ice melts at none. Steam rises."),
]


def test_variations_are_distinct_and_begin_with_the_originals() -> None:
    pairs = list(vary_texts(ORIGINALS, 8))
    assert [document for document, _ in pairs[:2]] == ORIGINALS
    assert len({document.id for document, _ in pairs}) == 8
    assert all(original in ORIGINALS and document.text for document, original in pairs)
    assert pairs == list(vary_texts(ORIGINALS, 8))


def test_questions_are_words_of_a_text() -> None:
    texts = list(itertools.islice(make_queries(ORIGINALS, seed=1), 50))
    assert all(any(text in original.text for original in ORIGINALS) for text in texts)
    assert all(3 <= len(text.split()) <= 6 for text in texts)
    assert texts != list(itertools.islice(make_queries(ORIGINALS, seed=2), 50))


async def test_load_keeps_all_callers_busy_and_counts_after_the_warm_up() -> None:
    running, most = 0, 0

    async def ask() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1

    timings = await apply_load(ask, callers=4, seconds=0.2)
    assert most == 4
    assert 10 <= timings.p50 <= timings.p95 <= timings.p99
    assert 4 <= timings.answers <= 80


async def test_a_failing_question_ends_the_measurement() -> None:
    async def ask() -> None:
        raise RuntimeError("no answer")

    with pytest.raises(RuntimeError, match="no answer"):
        await apply_load(ask, callers=2, seconds=0.1)


def test_every_contender_is_found_by_its_file() -> None:
    assert [name for name, _ in find_contenders()] == ["bare_sql", "in_process", "over_http"]


def test_results_compare_with_the_floor_of_the_same_load(tmp_path: Path) -> None:
    found = [
        Measurement("service", False, "cached", 1_000, 8, Timings(6, 9, 12, 500, 2_500), 300 * 2**20),
        Measurement("floor", True, "cached", 1_000, 8, Timings(4, 5, 6, 800, 4_000), None),
        Measurement("service", False, "cached", 1_000, 1, Timings(3, 4, 5, 200, 1_000), None),
    ]
    alone, service, floor = make_rows(found)
    assert service[:2] == ("1,000", "8")
    assert service[-3:] == ("300 MB", "1.50", "0.62")
    assert floor[-2:] == ("1.00", "1.00")
    assert alone[-2:] == ("", "")

    markdown, data = write_results(found, tmp_path)
    assert (
        "| 1,000 | 8 | service | cached | 6.0 | 9.0 | 12.0 | 500 | 300 MB | 1.50 | 0.62 |"
        in markdown.read_text()
    )
    assert json.loads(data.read_text())["measurements"][0]["timings"]["p95"] == 9
