"""The benchmarks, their texts, contenders, comparisons and measures of indexes."""

import asyncio
import itertools
import math
import os
import random
import re
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import numpy as np
import orjson
import pytest
from pydantic import SecretStr

from app.composition.database import DatabaseAddresses
from app.composition.services import Services
from app.settings import Settings
from app.settings.groups import DatabaseSettings, EmbeddingSettings
from benchmarks import serving
from benchmarks.contender import FLOOR, SERVICE, Absent, Contender, Question, Race
from benchmarks.contenders import find_contenders, langchain, pgvector
from benchmarks.corpus.construction import build_tenants
from benchmarks.corpus.copies import Copy
from benchmarks.corpus.dataset import MeasuredTenant
from benchmarks.corpus.made_up import make_texts
from benchmarks.corpus.population import Population
from benchmarks.corpus.stock import is_rare
from benchmarks.load import Timings, apply_load
from benchmarks.measures.indexes import measure_index
from benchmarks.measures.recall import Recall, Truth, measure_recall
from benchmarks.measures.words import ExactWords, WordsResult, measure_words, read_words
from benchmarks.place import ROOT
from benchmarks.report.comparison import list_targets
from benchmarks.report.readme import TABLES, insert_table, make_marks
from benchmarks.report.results import Measurement, Report
from benchmarks.report.tables import make_rows, write_report
from benchmarks.texts import find_kind, make_queries, read_library, vary_text
from tests.evaluation.samples import ORIGINALS, TEXTS, hide_progress, make_stock
from tests.fixtures.database.cluster import MODEL, TestDatabase, connected


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
    )


def test_results_are_compared_with_the_floor_under_the_same_load() -> None:
    alone, service, floor, peer = make_rows(make_report())
    assert service[:2] == ("1,000", "8")
    assert service[-4:] == ("0.995", "300 MB", "1.50", "0.62")
    assert floor[-2:] == ("1.00", "1.00")
    assert peer[-4:] == ("0.500", "+1 MB", "3.00", "0.31")
    assert alone[-2:] == ("", "")


def test_only_the_service_must_be_complete() -> None:
    assert make_report().service_missed() == 2


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


TENANT, OTHER = Population(1, 25), Population(2, 15)
OWN = ("bare_sql", "in_process", "over_http", "pgvector")
"""Contenders without other packages; a changed statement or interface of the service must not break them unnoticed."""

PEERS = {"bm25s", "chroma", "lancedb", "langchain", "qdrant", "tantivy"}
"""Contenders from the extra `bench`."""

QUERY = "pipes of steel"


@pytest.fixture
async def race(services: Services, fresh_database: TestDatabase, tmp_path: Path) -> AsyncIterator[Race]:
    """A race in a tenant that the benchmark's own construction filled, next to another one."""
    stock = make_stock()
    await build_tenants(services, fresh_database.admin_dsn, stock, [TENANT, OTHER], hide_progress)
    yield Race(
        dataset=MeasuredTenant(TENANT, stock.originals_of(TENANT)),
        settings=Settings(
            database=DatabaseSettings(url=SecretStr(fresh_database.service_dsn)),
            embedding=EmbeddingSettings(provider="mock", dimensions=MODEL.dimensions),
        ),
        addresses=DatabaseAddresses(fresh_database.service_dsn, fresh_database.admin_dsn),
        services=services,
        server=fresh_database.address,
        stock=stock,
        tenants=[TENANT, OTHER],
        measured=[TENANT],
        kept=tmp_path,
        progress=hide_progress,
    )
    async with connected(fresh_database.address.dsn(database="postgres")) as superuser:
        for name in (pgvector.DATABASE, langchain.DATABASE):
            await superuser.execute(f"drop database if exists {name} with (force)")


def test_every_contender_is_here() -> None:
    assert {name for name, _ in find_contenders()} == PEERS | set(OWN)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name == "over_http" else name for name in OWN]
)
async def test_a_contender_answers(name: str, race: Race, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "KEPT", tmp_path)
    await check_answers(name, race)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", sorted(PEERS))
async def test_a_peer_answers_if_it_is_installed(name: str, race: Race) -> None:
    try:
        await check_answers(name, race)
    except Absent as reason:
        pytest.skip(str(reason))


async def check_answers(name: str, race: Race) -> None:
    """Ten hits for a query, and the nearest entries of the tenant only, with and without the tag."""
    vector = await race.services.provider.embed_query(QUERY)
    question = Question(QUERY, vector)
    async with dict(find_contenders())[name](race) as contender:
        # Systems for keywords only find just the entries with the words.
        least = 1 if "keyword only" in contender.name else 10
        assert least <= await contender.search(question) <= 10
        if contender.nearest is None:
            return
        truth = Truth.of(race.stock.make_vectors(TENANT))
        found, expected = await contender.nearest(question, False), truth.nearest(vector, False)
        assert len(set(found) & set(expected)) >= len(expected) - 1
        assert set(truth.nearest(vector, True)) <= set(await contender.nearest(question, True))


def measurement(name: str, size: int, callers: int, p50: float, rate: float) -> Measurement:
    timings = Timings(p50, p50, p50, rate, 100)
    return Measurement(name, name == FLOOR, "cached", size, callers, timings, None, name.startswith("Lance"))


def make_full_report() -> Report:
    return Report(
        measurements=[
            measurement("LanceDB hybrid", 100_000, 1, 20, 40),
            measurement("LanceDB hybrid", 100_000, 8, 90, 100),
            measurement(SERVICE, 1_000, 1, 6, 100),
            measurement(SERVICE, 100_000, 1, 18, 50),
            measurement(SERVICE, 100_000, 8, 60, 140),
            measurement(FLOOR, 100_000, 1, 12, 80),
            measurement(FLOOR, 100_000, 8, 40, 175),
            measurement(f"{SERVICE}, prepared", 100_000, 1, 9, 90),
        ],
        processor=[15.84, 16.21],
        recalls=[
            Recall(SERVICE, 100_000, False, 0.991, 0, 100),
            Recall("LanceDB hybrid", 100_000, False, 0.858, 0, 100),
        ],
        words=[WordsResult(100_000, 0.94, 100, 2.5, 6)],
    )


def test_targets_are_ratios_with_their_bounds() -> None:
    targets = {t.name: (t.measured, t.met) for t in list_targets(make_full_report())}
    assert targets == {
        "p50 over HTTP, 1,000 entries, ms": (6, True),
        "p50 over HTTP, 100,000 entries, ms": (18, True),
        "p50 over HTTP / bare SQL, 100,000": (1.5, True),
        "p50 over HTTP, 100,000 / 1,000 entries": (3, False),
        "answers per second / bare SQL, 100,000": (0.8, True),
        "answers per second / LanceDB, 100,000": (pytest.approx(1.4), False),
        "recall@10, 100,000 entries": (0.991, True),
        "exact BM25's ten best, 100,000 entries": (0.94, False),
    }


def test_the_table_has_the_prepared_database_and_the_processor(tmp_path: Path) -> None:
    *_, comparison = write_report(make_full_report(), tmp_path)
    table, _, note = comparison.read_text().partition("\n\n")
    assert [line.split(" | ")[0] for line in table.splitlines()[2:]] == [
        f"| {FLOOR}",
        f"| {SERVICE}",
        f"| {SERVICE}, prepared",
        "| LanceDB hybrid",
    ]
    assert note == "A fixed loop of Python took 15.8 to 16.2 ms in the course of this run.\n"


def test_the_table_replaces_the_one_in_the_document() -> None:
    begin, end = make_marks("speed")
    once = insert_table(f"before\n{begin}\nold\n{end}\nafter\n", "speed", "| new |\n")
    assert once == f"before\n{begin}\n\n| new |\n\n{end}\nafter\n"
    assert insert_table(once, "speed", "| new |") == once
    with pytest.raises(ValueError, match="no <!-- quality"):
        insert_table(once, "quality", "| new |")


def test_every_document_has_a_place_for_its_table() -> None:
    for document, name, _, _ in TABLES:
        text = (ROOT / document).read_text()
        begin, end = make_marks(name)
        table = text.partition(begin)[2].partition(end)[0]
        assert table.strip().startswith("| ")
        assert insert_table(text, name, table) == text


SMALL, LARGE = Population(1, 15), Population(2, 25)
EXACT_LIMIT = 20


@pytest.mark.slow
async def test_a_tenant_with_an_index_and_one_without_are_measured_and_keep_their_entries(
    services: Services, admin_dsn: str, superuser_dsn: str
) -> None:
    stock = make_stock()
    await build_tenants(services, admin_dsn, stock, [SMALL, LARGE], hide_progress, exact_limit=EXACT_LIMIT)
    questions = [Question("pipes", await services.provider.embed_query("pipes"))]
    small, large = [
        await measure_index(services, stock, tenant, questions, rebuild=True, exact_limit=EXACT_LIMIT)
        for tenant in (SMALL, LARGE)
    ]
    assert (small.size, small.indexed, small.bytes, small.build) == (SMALL.size, False, 0, None)
    assert (large.size, large.indexed) == (LARGE.size, True)
    assert large.bytes > 0
    assert large.build is not None
    assert all(figure > 0 for figure in (small.p50, small.entry, small.vector, large.p50, large.vector))
    async with connected(superuser_dsn) as superuser:
        assert await superuser.fetchval("select count(*) from entries") == SMALL.size + LARGE.size
        assert await superuser.fetchval("select count(*) from embeddings where in_index") == LARGE.size


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


@pytest.mark.slow
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
