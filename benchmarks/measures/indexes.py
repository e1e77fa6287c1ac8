"""The index that a large tenant has of its own: the time of searches and writes, its size, how long its build takes."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from app.composition.services import Services
from app.contract.search import SearchQuery
from app.db.queries import embeddings
from app.db.queries.entries import insert_entries
from app.db.statements import parse_statement
from app.evaluation.evaluation import ShowProgress
from app.knowledge.search.legs.semantic import search_vectors, session_setup
from app.knowledge.search.plan import EXACT_LIMIT, SearchDefaults, make_plan
from app.knowledge.upkeep import Upkeep
from benchmarks.contender import Question
from benchmarks.corpus.construction import passage_vector, written_entry
from benchmarks.corpus.dataset import Dataset
from benchmarks.corpus.population import Population
from benchmarks.corpus.stock import BATCH, Stock
from benchmarks.report.tables import print_table, write_table

WRITTEN = 100
"""Entries of one measured write, which is rolled back."""

ROUNDS = 5
SIZE = parse_statement("bench.index_size", "select pg_relation_size(to_regclass(:name::text))")
HEADINGS = (
    "entries", "searched", "leg p50 ms", "leg p95 ms", "index MB", "entry, ms a write", "vector, ms a write", "build s",
)  # fmt: skip


class _Undo(Exception):
    """Rolls a measured write back."""


@dataclass(frozen=True, slots=True)
class IndexFigures:
    """One tenant: milliseconds of the semantic leg and of writing one entry and its vector; bytes of the index;
    seconds that the service took to build it, if that was measured.
    """

    size: int
    indexed: bool
    p50: float
    p95: float
    bytes: int
    entry: float
    vector: float
    build: float | None


async def measure_index(
    services: Services,
    stock: Stock,
    tenant: Population,
    questions: Sequence[Question],
    *,
    rebuild: bool,
    exact_limit: int = EXACT_LIMIT,
) -> IndexFigures:
    """Measure one tenant; with `rebuild`, its index is dropped and built as the service's worker builds it."""
    build = await _rebuild(services, tenant, exact_limit) if rebuild and tenant.size > exact_limit else None
    context = await services.tenants.context(tenant.tenant_id)
    took: list[float] = []
    for round_number in range(ROUNDS):
        for question in questions:
            assert question.vector is not None
            plan = make_plan(SearchQuery(query=question.text, mode="semantic"), context, SearchDefaults())
            setup = session_setup(None, context.passages)
            async with services.database.tenant_session(tenant.tenant_id, setup=setup) as session:
                started = time.perf_counter()
                await search_vectors(session, plan, [question.vector])
                ended = time.perf_counter()
            if round_number:
                took.append(ended - started)
    name = f"embeddings_hnsw_{context.space.model_id}_{tenant.tenant_id.hex}"
    async with services.database.tenant_session(tenant.tenant_id) as session:
        stored = await session.fetch_value(SIZE, name=name)
    entry, vector = await _time_writes(services, stock, tenant, context.space.model_id)
    p50, p95 = np.quantile(took, (0.5, 0.95)) * 1000
    return IndexFigures(tenant.size, context.indexed, float(p50), float(p95), stored or 0, entry, vector, build)


async def _time_writes(services: Services, stock: Stock, tenant: Population, model_id: int) -> tuple[float, float]:
    """Milliseconds to write an entry, and its vector: the median of several transactions."""
    grown = Population(tenant.number, tenant.size + WRITTEN)
    batch = stock.make_batch(grown, tenant.size - tenant.size % BATCH)[-WRITTEN:]
    entries, passages = [written_entry(e) for e in batch], [passage_vector(e) for e in batch]
    took: list[tuple[float, float]] = []
    for _ in range(ROUNDS):
        try:
            async with services.database.tenant_session(tenant.tenant_id) as session:
                started = time.perf_counter()
                await insert_entries(session, entries)
                between = time.perf_counter()
                await embeddings.store_vectors(session, model_id, passages)
                took.append((between - started, time.perf_counter() - between))
                raise _Undo
        except _Undo:
            continue
    entry, vector = np.median(took, axis=0) * 1000 / WRITTEN
    return float(entry), float(vector)


async def _rebuild(services: Services, tenant: Population, exact_limit: int) -> float:
    context = await services.tenants.context(tenant.tenant_id)
    async with services.database.tenant_session(tenant.tenant_id) as session:
        await embeddings.give_up_index(session, context.space.model_id)
    services.tenants.forget(tenant.tenant_id)
    upkeep = Upkeep(services.database, services.tenants, services.jobs, exact_limit=exact_limit)
    started = time.perf_counter()
    while await upkeep.index_vectors(tenant.tenant_id) is not None:
        pass
    return time.perf_counter() - started


def make_rows(figures: Sequence[IndexFigures]) -> list[tuple[str, ...]]:
    """The rows of the table."""
    return [
        (
            f"{f.size:,}",
            "by its index" if f.indexed else "exactly",
            f"{f.p50:.1f}",
            f"{f.p95:.1f}",
            f"{f.bytes / 2**20:.0f}" if f.bytes else "",
            f"{f.entry:.2f}",
            f"{f.vector:.2f}",
            f"{f.build:.0f}" if f.build is not None else "",
        )
        for f in figures
    ]


async def measure_indexes(
    data: Dataset, sizes: Sequence[int], progress: ShowProgress, folder: Path, *, rebuild: bool
) -> None:
    """Measure the tenants of these sizes, print the table and write `indexes.md`."""
    figures: list[IndexFigures] = []
    with progress("indexes", len(sizes)) as report:
        for number, size in enumerate(sizes):
            tenant = data.tenant(size).population
            questions = await _ask(data, size)
            figures.append(await measure_index(data.services, data.stock, tenant, questions, rebuild=rebuild))
            report(number + 1)
    rows = make_rows(figures)
    print_table(HEADINGS, rows, frozenset({"searched"}))
    lines = ["# Indexes of large tenants", "", *write_table(HEADINGS, rows, frozenset({"searched"}))]
    (folder / "indexes.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


async def _ask(data: Dataset, size: int) -> list[Question]:
    queries = data.tenant(size).make_queries(seed=0)
    texts = [next(queries) for _ in range(40)]
    return [Question(text, await data.services.provider.embed_query(text)) for text in texts]
