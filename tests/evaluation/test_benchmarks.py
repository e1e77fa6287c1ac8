"""The parts of the speed benchmark."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from app.evaluation.collection import Document
from benchmarks.contender import Contender, Question
from benchmarks.contenders import find_contenders
from benchmarks.corpus.copies import Copy
from benchmarks.corpus.stock import is_rare
from benchmarks.load import Timings, apply_load
from benchmarks.measures.recall import Recall, Truth, measure_recall
from benchmarks.report.plots import draw_plots
from benchmarks.report.results import Measurement, Report
from benchmarks.report.tables import make_recall_rows, make_rows, write_report
from benchmarks.texts import make_queries, vary_text

ORIGINALS = [
    Document("a", "First", "One sentence here. Another sentence there. And a third one at last."),
    Document("b", None, "Water boils at a hundred degrees. Ice melts at none. Steam rises."),
]


def test_a_variation_has_sentences_of_both_texts() -> None:
    varied, again = (vary_text(ORIGINALS[0], ORIGINALS[1], random.Random(1)) for _ in range(2))  # noqa: S311
    own, foreign = (set(original.text.split(". ")) for original in ORIGINALS)
    parts = {part.rstrip(".") for part in varied.split(". ")}
    assert parts & {part.rstrip(".") for part in own}
    assert parts & {part.rstrip(".") for part in foreign}
    assert varied == again


def test_questions_are_words_from_a_text() -> None:
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


async def test_a_slow_first_call_is_not_part_of_the_rate() -> None:
    first = True

    async def ask() -> None:
        nonlocal first
        slow, first = first, False
        await asyncio.sleep(1.0 if slow else 0.01)

    timings = await apply_load(ask, callers=4, seconds=0.2)
    assert timings.answers / timings.throughput < 1.0, "seconds that were measured"
    assert timings.p99 < 1000


async def test_a_question_longer_than_the_measurement_is_measured() -> None:
    timings = await apply_load(lambda: asyncio.sleep(0.2), callers=3, seconds=0.05)
    assert timings.answers == 3
    assert timings.p50 >= 200


async def test_a_failing_question_ends_the_measurement() -> None:
    async def ask() -> None:
        raise RuntimeError("no answer")

    with pytest.raises(RuntimeError, match="no answer"):
        await apply_load(ask, callers=2, seconds=0.1)


def test_every_contender_is_found_by_its_file() -> None:
    names = [
        "bare_sql", "bm25s", "chroma", "in_process", "lancedb", "langchain", "over_http", "pgvector", "qdrant",
        "tantivy",
    ]  # fmt: skip
    assert [name for name, _ in find_contenders()] == names


def make_report() -> Report:
    return Report(
        measurements=[
            Measurement("service", False, "cached", 1_000, 8, Timings(6, 9, 12, 500, 2_500), 300 * 2**20),
            Measurement("floor", True, "cached", 1_000, 8, Timings(4, 5, 6, 800, 4_000), None),
            Measurement("Peer hybrid", False, "cached", 1_000, 8, Timings(12, 15, 16, 250, 9), 2**20, True),
            Measurement("service", False, "cached", 1_000, 1, Timings(3, 4, 5, 200, 1_000), None),
        ],
        recalls=[
            Recall("service", 1_000, False, 0.995, 0, 100),
            Recall("service", 1_000, True, 1.0, 2, 100),
            Recall("Peer hybrid", 1_000, False, 0.5, 7, 100),
        ],
        absent={"other": "it is not installed"},
    )


def test_results_are_compared_with_the_floor_under_the_same_load() -> None:
    alone, service, floor, peer = make_rows(make_report())
    assert service[:2] == ("1,000", "8")
    assert service[-4:] == ("0.995", "300 MB", "1.50", "0.62")
    assert floor[-2:] == ("1.00", "1.00")
    assert peer[-4:] == ("0.500", "+1 MB", "3.00", "0.31")
    assert alone[-2:] == ("", "")


def test_recall_has_its_own_table_and_only_the_service_must_be_complete() -> None:
    report = make_report()
    assert make_recall_rows(report) == [
        ("1,000", "service", "0.9950", "1.0000", "2"),
        ("1,000", "Peer hybrid", "0.5000", "", "7"),
    ]
    assert report.service_missed() == 2


def test_results_are_written_as_markdown_and_json(tmp_path: Path) -> None:
    markdown, data, comparison = write_report(make_report(), tmp_path)
    assert "| Peer hybrid | –; 250 (0.500) |" in comparison.read_text()
    row = "| 1,000 | 8 | service | cached | 6.0 | 9.0 | 12.0 | 500 | 0.995 | 300 MB | 1.50 | 0.62 |"
    assert row in markdown.read_text()
    assert "other did not take part: it is not installed" in markdown.read_text()
    assert json.loads(data.read_text())["measurements"][0]["timings"]["p95"] == 9
    assert json.loads(data.read_text())["recall"][1]["missing"] == 2


def test_the_truth_is_the_largest_cosines_above_zero() -> None:
    angles = np.linspace(0, 2, 300)
    truth = Truth.of(np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32))
    query = np.array([1, 0], dtype=np.float32)
    assert truth.nearest(query, rare=False) == list(range(10))
    assert truth.nearest(query, rare=True) == [n for n in range(300) if is_rare(n) and np.cos(angles[n]) > 0.001]
    assert truth.nearest(-query, rare=False)[0] == 299
    assert truth.nearest(np.array([0, -1], dtype=np.float32), rare=False) == []


async def test_recall_counts_found_and_missing_entries() -> None:
    truth = Truth.of(np.eye(20, dtype=np.float32)[:, :12] + 0.1)
    question = Question("?", np.full(12, 1, dtype=np.float32))
    nearest = truth.nearest(question.vector, False) if question.vector is not None else []

    async def search(_: Question) -> int:
        return 0

    def contender(found: Sequence[int]) -> Contender:
        async def answer(_question: Question, _rare: bool) -> Sequence[int]:
            return found

        return Contender("it", search, nearest=answer)

    complete = await measure_recall(contender(nearest), [question, question], truth, False)
    assert complete == Recall("it", 20, False, 1.0, 0, 2)
    wrong = [*nearest[:7], 17, 18, 19]
    assert await measure_recall(contender(wrong), [question], truth, False) == Recall("it", 20, False, 0.7, 0, 1)
    short = await measure_recall(contender(nearest[:6]), [question], truth, False)
    assert short == Recall("it", 20, False, 0.6, 4, 1)
    assert await measure_recall(Contender("it", search), [question], truth, False) is None


async def test_a_copy_is_complete_when_it_ended_successfully(tmp_path: Path) -> None:
    copy = Copy("peer", 1, tmp_path)
    states = [copy.complete]

    async def fail(folder: Path) -> None:
        await asyncio.to_thread((folder / "half").touch)
        raise RuntimeError("half way")

    async def succeed(folder: Path) -> None:
        assert await asyncio.to_thread(os.listdir, folder) == []

    with pytest.raises(RuntimeError, match="half way"):
        await copy.ensure(fail)
    states.append(copy.complete)
    await copy.ensure(succeed)
    assert [*states, copy.complete] == [False, False, True]
    await copy.ensure(fail)
    assert not Copy("peer", 2, tmp_path).complete


def test_plots_are_drawn_where_there_is_something_to_compare(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    sizes, callers = (10, 100), (1, 8)
    found = [
        Measurement(name, False, "cached", size, count, Timings(size, size, size, 100 / size, 9), None)
        for name, size, count in itertools.product(("service", "peer"), sizes, callers)
    ]
    made = draw_plots(Report(measurements=found), tmp_path, print)
    assert [path.name for path in made] == ["speed-latency.png", "speed-throughput.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in made)
    assert draw_plots(Report(measurements=found[:1]), tmp_path, print) == []
