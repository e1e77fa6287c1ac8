"""The centre of a model, measured on judged questions."""

from dataclasses import replace

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.search import SCORE_WEIGHTS
from app.db.schema.owner import store_centre
from app.embeddings.provider import E5, EmbeddingModel, resolve_model
from app.errors import InvalidInput
from app.evaluation.calibration import GRID, HEADINGS, Calibration, Measured, calibrate, choose_centre, rows_of
from app.evaluation.tuning import NothingToTuneBy
from tests.evaluation.samples import hide_progress, make_tiny_collection
from tests.fixtures.database.cluster import MODEL, TestDatabase
from tests.fixtures.providers.failing import FailingProvider

ENGLISH, MANY_LANGUAGES = resolve_model("local"), resolve_model("local", E5)


def measured(mean: float, best: float, loss: float = 0.5) -> Measured:
    """A collection whose nDCG@10 falls on both sides of its best keyword weight."""
    return Measured(f"best {best}", 100, mean, [0.9 - loss * abs(w.keyword - best) for w in GRID])


@pytest.mark.parametrize(
    ("model", "collections", "expected"),
    [
        (ENGLISH, [measured(0.65, 0.3)], 0.55),
        (ENGLISH, [measured(0.65, 0.3), measured(0.7, 0.2)], 0.55),
        (ENGLISH, [measured(0.65, 0.3), measured(0.7, 0.5)], 0.7),  # the second one must not lose
        (ENGLISH, [measured(0.65, 0.3, loss=0.0)], 0.65),  # nothing to gain
        (MANY_LANGUAGES, [measured(0.9, 0.3)], 0.9 - 0.1 / (0.7 / 0.22)),
    ],
)
def test_the_centre_gives_the_best_weights_without_a_loss(
    model: EmbeddingModel, collections: list[Measured], expected: float
) -> None:
    centre = choose_centre(model, collections)
    assert centre == pytest.approx(expected, abs=0.0035)
    found = Calibration(model, centre, collections)
    assert all(m.at(found.weights(m)) >= m.at(SCORE_WEIGHTS) - 0.005 for m in collections)


async def test_a_model_is_calibrated_on_a_collection_and_its_centre_is_stored(
    services: Services, tenant: Tenant, fresh_database: TestDatabase
) -> None:
    found = await calibrate(services, [make_tiny_collection()], (), hide_progress, reader="ada")
    (only,) = found.measured
    assert (only.name, only.queries, len(only.ndcg)) == ("tiny", 3, len(GRID))
    assert only.ndcg[0] != only.ndcg[-1], "one leg each"
    assert [len(row) for row in rows_of(found)] == [len(HEADINGS)]
    assert [t.slug for t in await services.tenants.list_tenants()] == [tenant.slug]
    assert (await services.tenants.context(tenant.id)).model.centre is None
    await store_centre(fresh_database.admin_dsn, found.model, found.centre, actor="ada")
    services.tenants.forget(tenant.id)
    assert (await services.tenants.context(tenant.id)).model.centre == found.centre


async def test_a_tenant_needs_feedback_and_the_model(services: Services, tenant: Tenant) -> None:
    with pytest.raises(NothingToTuneBy, match="has no feedback"):
        await calibrate(services, (), [tenant.slug], hide_progress, reader="ada")
    other = replace(services, provider=FailingProvider(replace(MODEL, name="another")))
    with pytest.raises(InvalidInput, match="run the command with that model"):
        await calibrate(other, (), [tenant.slug], hide_progress, reader="ada")
