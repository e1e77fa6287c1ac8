"""Comparisons of the speed benchmark, and its measures of indexes."""

import pytest

from app.composition.services import Services
from benchmarks.contender import FLOOR, SERVICE, Question
from benchmarks.corpus.construction import build_tenants
from benchmarks.corpus.population import Population
from benchmarks.load import Timings
from benchmarks.measures.indexes import measure_index
from benchmarks.measures.recall import Recall
from benchmarks.measures.words import WordsResult
from benchmarks.place import ROOT
from benchmarks.report.comparison import list_targets
from benchmarks.report.readme import TABLES, insert_table, make_marks
from benchmarks.report.results import Measurement, Report
from tests.evaluation.samples import hide_progress, make_stock
from tests.fixtures.database.cluster import connected


def measurement(name: str, size: int, callers: int, p50: float, rate: float) -> Measurement:
    timings = Timings(p50, p50, p50, rate, 100)
    return Measurement(name, name == FLOOR, "cached", size, callers, timings, None, name.startswith("Lance"))


def make_report() -> Report:
    return Report(
        measurements=[
            measurement("LanceDB hybrid", 100_000, 1, 20, 40),
            measurement("LanceDB hybrid", 100_000, 8, 90, 100),
            measurement(SERVICE, 1_000, 1, 6, 100),
            measurement(SERVICE, 100_000, 1, 18, 50),
            measurement(SERVICE, 100_000, 8, 60, 140),
            measurement(FLOOR, 100_000, 1, 12, 80),
        ],
        recalls=[
            Recall(SERVICE, 100_000, False, 0.991, 0, 100),
            Recall("LanceDB hybrid", 100_000, False, 0.858, 0, 100),
        ],
        words=[WordsResult(100_000, 0.94, 100, 2.5, 6)],
    )


def test_targets_are_ratios_with_their_bounds() -> None:
    targets = {t.name: (t.measured, t.met) for t in list_targets(make_report())}
    assert targets == {
        "p50 over HTTP, 1,000 entries, ms": (6, True),
        "p50 over HTTP, 100,000 entries, ms": (18, True),
        "p50 over HTTP / bare SQL, 100,000": (1.5, True),
        "p50 over HTTP, 100,000 / 1,000 entries": (3, False),
        "answers per second / LanceDB, 100,000": (pytest.approx(1.4), False),
        "recall@10, 100,000 entries": (0.991, True),
        "exact BM25's ten best, 100,000 entries": (0.94, False),
    }


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
