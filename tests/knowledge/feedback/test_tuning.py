"""Weights that feedback shows to be better apply by themselves, and one call undoes them."""

from __future__ import annotations

from uuid import UUID

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.entries import EntryDraft
from app.contract.search import SearchQuery, Weights
from app.contract.settings import SettingsPatch
from app.errors import InvalidInput
from app.knowledge.feedback import WeightTuner
from tests.fixtures.providers.failing import FailingProvider
from tests.fixtures.searching import explanation_of

pytestmark = pytest.mark.own_tenants

QUERIES = 6


@pytest.fixture
async def right(services: Services, tenant: Tenant, failing_provider: FailingProvider) -> list[UUID]:
    """The right answers to queries whose word leads to a wrong entry, first with the default weights."""
    await services.tenants.change_settings(tenant.id, SettingsPatch(keep_query_text=True))
    d, found = failing_provider.direction, []
    for n in range(QUERIES):
        word = f"harbour{n}"
        base = [0.0] * n
        failing_provider.vectors |= {
            word: d(*base, 1),
            f"Answer {n}": d(*base, 0.55, *([0.0] * (12 - n)), 0.835),
            f"The {word}": d(*([0.0] * 15), 1),
        }
        answer, wrong = [
            (await services.entries.create(tenant.id, EntryDraft(content=content)))[0].id
            for content in (f"Answer {n}", f"The {word}")
        ]
        first = await services.search.search(tenant.id, SearchQuery(query=word), subject="anna")
        assert [hit.id for hit in first][:2] == [wrong, answer]
        await services.journal.flush()
        for entry, relevant in ((answer, True), (wrong, False)):
            await services.feedback.give(tenant.id, "anna", first.metadata.search_id, entry, relevant)
        found.append(answer)
    return found


def make_tuner(services: Services, fewest: int = QUERIES) -> WeightTuner:
    return WeightTuner(services.database, services.tenants, services.ranker, services.search.defaults, fewest=fewest)


async def first_hit(services: Services, tenant: Tenant, n: int) -> tuple[UUID, Weights]:
    found = await services.search.search(tenant.id, SearchQuery(query=f"harbour{n}", explain=True))
    return found[0].id, explanation_of(found).weights


async def test_better_weights_apply_are_recorded_and_undone_by_one_setting(
    services: Services, tenant: Tenant, right: list[UUID]
) -> None:
    tuner = make_tuner(services)
    tuned = await tuner.tune(tenant.id)
    assert tuned is not None
    assert (tuned.fusion, tuned.queries, tuned.former) == ("score", QUERIES, Weights(0.5, 0.5))
    assert 0 < tuned.low <= tuned.gain <= tuned.high
    assert await first_hit(services, tenant, 2) == (right[2], tuned.weights)
    assert (await services.tenants.read_settings(tenant.id)).tuned == tuned
    record = next(r for r in (await services.administration.audit(tenant.id)).items if r.action == "settings.tune")
    assert record.actor == "tuning"
    assert record.detail["former"] == {"semantic": 0.5, "keyword": 0.5}
    assert (record.detail["low"], record.detail["high"]) == (tuned.low, tuned.high)
    assert "harbour" not in str(record.detail)
    assert await tuner.tune(tenant.id) is None, "nothing is better than what applies"
    await services.tenants.change_settings(tenant.id, SettingsPatch(auto_tune=False))
    answer, weights = await first_hit(services, tenant, 2)
    assert answer != right[2]
    assert weights == Weights(0.5, 0.5)
    assert await make_tuner(services).tune(tenant.id) is None


@pytest.mark.usefixtures("right")
async def test_weights_of_the_admin_and_of_the_caller_are_never_touched(services: Services, tenant: Tenant) -> None:
    own = SettingsPatch(weights=Weights(0.3, 0.7))
    await services.tenants.change_settings(tenant.id, own)
    assert await make_tuner(services).tune(tenant.id) is None
    await services.tenants.change_settings(tenant.id, SettingsPatch(weights=None))
    assert await make_tuner(services).tune(tenant.id) is not None
    await services.tenants.change_settings(tenant.id, own)
    assert (await first_hit(services, tenant, 0))[1] == Weights(0.3, 0.7)
    await services.tenants.change_settings(tenant.id, SettingsPatch(weights=None))
    other = SearchQuery(query="harbour0", fusion="rrf", explain=True)
    debug = explanation_of(await services.search.search(tenant.id, other))
    assert debug.weights == Weights(0.7, 0.3), "they are for the other fusion"
    with pytest.raises(InvalidInput, match="tuned: unknown field"):
        SettingsPatch(tuned={"fusion": "score"})  # type: ignore[call-arg]


@pytest.mark.usefixtures("right")
async def test_nothing_is_tuned_by_few_queries_without_texts_or_without_the_provider(
    services: Services, tenant: Tenant, failing_provider: FailingProvider
) -> None:
    assert await make_tuner(services, QUERIES + 1).tune(tenant.id) is None
    failing_provider.down = True
    assert await make_tuner(services).tune(tenant.id) is None
    failing_provider.down = False
    await services.tenants.change_settings(tenant.id, SettingsPatch(keep_query_text=False))
    assert await make_tuner(services).tune(tenant.id) is None
    await services.tenants.change_settings(tenant.id, SettingsPatch(keep_query_text=True))
    assert await make_tuner(services).tune(tenant.id) is None, "the texts were erased"
    assert (await services.tenants.read_settings(tenant.id)).tuned is None


@pytest.mark.usefixtures("right")
async def test_the_sweep_tunes(services: Services, tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = services.worker.sweep
    monkeypatch.setattr(sweep, "tuner", make_tuner(services))
    await sweep.run()
    assert (await services.tenants.read_settings(tenant.id)).tuned is not None
