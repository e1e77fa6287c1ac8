"""The advice that feedback gives on weights and fusion, for a tenant with known answers."""

import json
from collections.abc import AsyncIterator
from uuid import UUID

import numpy as np
import pytest

from app.cli.main import main
from app.composition.services import Services, build_services
from app.contract.administration import NewTenant, Tenant
from app.contract.entries import EntryDraft
from app.contract.search import RRF_WEIGHTS, SearchQuery
from app.contract.settings import SettingsPatch
from app.db.database import Database
from app.evaluation.tuning import GRID, NothingToTuneBy, rows_of, tune
from tests.evaluation.samples import hide_progress
from tests.fixtures.database.cluster import MODEL, TestDatabase, fetchval
from tests.fixtures.providers.failing import FailingProvider

UNIT = np.eye(16, dtype=np.float32)


async def fill(services: Services, tenant: Tenant, provider: FailingProvider, queries: int) -> None:
    """Queries whose right answer contains the word, while a wrong one has the nearest vector."""
    await services.tenants.change_settings(tenant.id, SettingsPatch(keep_query_text=True, fusion="rrf"))
    provider.default = UNIT[15]
    for n in range(queries):
        word = f"harbour{n:02}"
        provider.vectors |= {word: UNIT[n], f"right {word}": UNIT[14], f"wrong {n}": UNIT[n]}
        right, wrong = [
            (await services.entries.create(tenant.id, EntryDraft(content=content)))[0].id
            for content in (f"right {word}", f"wrong {n}")
        ]
        found = await services.search.search(tenant.id, SearchQuery(query=word), subject="anna")
        await services.journal.flush()
        for entry, relevant in ((right, True), (wrong, False)):
            await services.feedback.give(tenant.id, "anna", found.metadata.search_id, entry, relevant)


async def test_the_better_choice_is_found_and_nothing_is_recorded(
    services: Services, tenant: Tenant, failing_provider: FailingProvider, superuser_dsn: str
) -> None:
    await fill(services, tenant, failing_provider, 4)
    counts = "select (select count(*) from searches) + (select coalesce(sum(accesses), 0) from access_counts)"
    await services.accesses.flush()
    before = await fetchval(superuser_dsn, counts)
    tuning = await tune(services, "first", hide_progress, reader="ada")
    await services.journal.flush()
    await services.accesses.flush()
    assert await fetchval(superuser_dsn, counts) == before
    assert (tuning.tenant, tuning.queries, tuning.judgements) == ("first", 4, 8)
    assert len(tuning.choices) == len(GRID), "the current one is one of them"
    current, best = tuning.choices[:2]
    assert (current.current, current.fusion, current.weights) == (True, "rrf", RRF_WEIGHTS)
    assert current.ndcg == pytest.approx(0.6309, abs=1e-4), "the right answer is second"
    assert best.ndcg == 1.0
    assert best.weights.keyword >= 0.5
    assert best.against_current is not None
    assert best.against_current.low > 0
    assert [c.ndcg for c in tuning.choices[1:]] == sorted((c.ndcg for c in tuning.choices[1:]), reverse=True)
    assert "4 judged queries are few" in tuning.remark
    assert rows_of(tuning)[0][0] == "rrf 0.7/0.3 (current)"


async def test_without_feedback_the_command_names_what_is_missing(services: Services, tenant: Tenant) -> None:
    with pytest.raises(NothingToTuneBy, match="switch keep_query_text on"):
        await tune(services, "first", hide_progress, reader="ada")


@pytest.fixture
async def filled(fresh_database: TestDatabase, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[UUID]:
    """A tenant with feedback in the database that the environment names."""
    monkeypatch.setenv("DATABASE_URL", fresh_database.service_dsn)
    monkeypatch.setenv("EMBEDDING_PROVIDER", MODEL.provider)
    monkeypatch.setenv("EMBEDDING_DIMENSIONS", str(MODEL.dimensions))
    monkeypatch.delenv("EMBEDDING_MODEL", raising=False)
    database = Database(fresh_database.service_dsn, pool_size=2)
    provider = FailingProvider(MODEL)
    services = await build_services(database, provider)
    tenant = await services.tenants.create(NewTenant("first"), actor="test")
    await fill(services, tenant, provider, 2)
    yield tenant.id
    await services.close()
    await database.close()


@pytest.mark.usefixtures("filled")
def test_the_command_prints_a_table_or_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "--tenant", "first"]) == 0
    shown = capsys.readouterr()
    assert "rrf 0.7/0.3 (current)" in shown.out
    assert "2 queries, 4 judged hits" in shown.err
    assert main(["eval", "--tenant", "first", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["queries"], printed["choices"][0]["current"]) == (2, True)
    assert "harbour" not in json.dumps(printed)


def test_the_command_needs_either_folders_or_a_tenant(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval"]) == 2
    assert main(["eval", "somewhere", "--tenant", "first"]) == 2
    assert "give either folders or a tenant" in capsys.readouterr().err
