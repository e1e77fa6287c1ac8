"""The contenders of the speed benchmark that need no other package, in a tiny tenant."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
from pydantic import SecretStr

from app.composition.database import DatabaseAddresses
from app.composition.services import Services
from app.evaluation.collection import Document
from app.settings import Settings
from app.settings.groups import DatabaseSettings, EmbeddingSettings
from benchmarks.contender import Absent, Question, Race
from benchmarks.contenders import find_contenders, langchain, over_http, pgvector
from benchmarks.corpus.construction import build_tenants
from benchmarks.corpus.dataset import MeasuredTenant
from benchmarks.corpus.population import Population
from benchmarks.corpus.stock import Stock
from benchmarks.measures.recall import Truth
from benchmarks.texts import Library
from tests.evaluation.samples import TEXTS, hide_progress
from tests.fixtures.database.cluster import MODEL, TestDatabase, connected

TENANT, OTHER = Population(1, 25), Population(2, 15)
OWN = ("bare_sql", "in_process", "over_http", "pgvector")
"""Contenders without other packages; a changed statement or interface of the service must not break them unnoticed."""

PEERS = {"bm25s", "chroma", "lancedb", "langchain", "qdrant", "tantivy"}
"""Contenders from the extra `bench`."""

QUERY = "pipes of steel"


def make_stock() -> Stock:
    vectors = np.random.default_rng(1).standard_normal((len(TEXTS), MODEL.dimensions)).astype(np.float32)
    documents = [Document(str(number), None, text) for number, text in enumerate(TEXTS)]
    return Stock(Library(documents), vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


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


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name == "over_http" else name for name in OWN]
)
async def test_a_contender_answers(name: str, race: Race, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(over_http, "KEPT", tmp_path)
    await check_answers(name, race)


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
