"""The figures about the index of a large tenant."""

from __future__ import annotations

import numpy as np
import pytest

from app.composition.services import Services
from app.evaluation.collection import Document
from benchmarks.contender import Question
from benchmarks.corpus.construction import build_tenants
from benchmarks.corpus.population import Population
from benchmarks.corpus.stock import Stock
from benchmarks.measures.indexes import IndexFigures, make_rows, measure_index
from benchmarks.texts import Library
from tests.evaluation.samples import TEXTS, hide_progress
from tests.fixtures.database.cluster import MODEL, connected

SMALL, LARGE = Population(1, 15), Population(2, 25)
EXACT_LIMIT = 20


@pytest.mark.slow
async def test_a_tenant_with_an_index_and_one_without_are_measured_and_keep_their_entries(
    services: Services, admin_dsn: str, superuser_dsn: str
) -> None:
    vectors = np.random.default_rng(1).standard_normal((len(TEXTS), MODEL.dimensions)).astype(np.float32)
    documents = [Document(str(number), None, text) for number, text in enumerate(TEXTS)]
    stock = Stock(Library(documents), vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
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


def test_the_table_of_indexes_has_a_row_for_each_tenant() -> None:
    figures = [
        IndexFigures(1_000, False, 1.25, 2, 0, 0.5, 0.25, None),
        IndexFigures(100_000, True, 3, 4, 112 * 2**20, 0.5, 6, 900),
    ]
    assert make_rows(figures) == [
        ("1,000", "exactly", "1.2", "2.0", "", "0.50", "0.25", ""),
        ("100,000", "by its index", "3.0", "4.0", "112", "0.50", "6.00", "900"),
    ]
