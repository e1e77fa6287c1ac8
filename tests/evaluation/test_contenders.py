"""The contenders of the speed benchmark that need no other package, in a tiny tenant."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pydantic import SecretStr

from app.composition.database import DatabaseAddresses
from app.composition.services import Services
from app.evaluation.collection import Document
from app.settings import Settings
from app.settings.groups import DatabaseSettings, EmbeddingSettings
from benchmarks.construction import build_tenants
from benchmarks.contender import Question, Race
from benchmarks.contenders import find_contenders, over_http
from benchmarks.dataset import MeasuredTenant
from benchmarks.population import Population
from benchmarks.stock import Stock
from benchmarks.texts import Library
from tests.evaluation.samples import TEXTS, hide_progress
from tests.fixtures.database.cluster import MODEL, TestDatabase

TENANT = Population(1, 25)
OWN = ("bare_sql", "in_process", "over_http")
"""Contenders that run the service's code; a changed statement must not break them unnoticed."""


def make_stock() -> Stock:
    vectors = np.random.default_rng(1).standard_normal((len(TEXTS), MODEL.dimensions)).astype(np.float32)
    documents = [Document(str(number), None, text) for number, text in enumerate(TEXTS)]
    return Stock(Library(documents), vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


@pytest.fixture
async def race(services: Services, fresh_database: TestDatabase) -> Race:
    """A race in a tenant that the benchmark's own construction filled."""
    stock = make_stock()
    await build_tenants(services, fresh_database.admin_dsn, stock, [TENANT], hide_progress)
    return Race(
        MeasuredTenant(TENANT, stock.originals_of(TENANT)),
        Settings(
            database=DatabaseSettings(url=SecretStr(fresh_database.service_dsn)),
            embedding=EmbeddingSettings(provider="mock", dimensions=MODEL.dimensions),
        ),
        DatabaseAddresses(fresh_database.service_dsn, fresh_database.admin_dsn),
        services,
        stock,
        hide_progress,
    )


@pytest.mark.parametrize("name", OWN)
async def test_a_contender_answers(
    name: str, race: Race, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(over_http, "KEPT", tmp_path)
    vector = await race.services.provider.embed_query("pipes of steel")
    async with dict(find_contenders())[name](race) as contender:
        assert await contender.search(Question("pipes of steel", vector)) == 10
        if contender.nearest is not None:
            found = await contender.nearest(Question("pipes of steel", vector), False)
            assert 0 < len(found) <= 10
