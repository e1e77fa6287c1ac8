"""Which model a tenant can be moved to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.composition.services import Services
from app.contract.models import NewModelChange
from app.db.schema.owner import register_model
from app.errors import Conflict, InvalidInput, ModelChangeNotFound
from tests.fixtures.database.cluster import MODEL
from tests.knowledge.reembedding.moving import WIDER, Move


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"model": "unheard-of"}, "model: is not registered; the operator must run: knowledge model add"),
        ({"provider": "openai"}, "model: is not registered"),
        ({"dimensions": 25}, "model: is not registered"),
        ({"provider": "local"}, "model: is registered, but this service has no provider"),
        ({"provider": "mock"}, "model: several models match"),
        ({"dimensions": 24, "rate": 0}, "rate: must be"),
        ({"dimensions": 24, "switch_at_overlap": 1.5}, "switch_at_overlap: must be"),
    ],
)
async def test_model_that_cannot_be_moved_to_is_refused(move: Move, given: dict[str, Any], reason: str) -> None:
    await register_model(move.made.admin_dsn, replace(MODEL, provider="local", name="a model", dimensions=7))
    with pytest.raises(InvalidInput, match=f"^{reason}"):
        await move.services.reembedding.start(move.tenant.id, NewModelChange(**given))
    with pytest.raises(ModelChangeNotFound):
        await move.status()


async def test_the_only_other_model_needs_no_name(move: Move) -> None:
    change = await move.services.reembedding.start(move.tenant.id)
    assert change.new == WIDER.info


async def test_another_change_during_a_change_is_refused(move: Move, services: Services) -> None:
    await move.start()
    for request in (
        move.services.reembedding.start(move.tenant.id, NewModelChange(dimensions=16)),
        move.services.reembedding.rebuild(move.tenant.id),
    ):
        with pytest.raises(Conflict, match="moving to another model"):
            await request
    with pytest.raises(InvalidInput, match="or rebuild the vectors of the model in use"):
        await services.reembedding.start(move.tenant.id)


async def test_terms_that_are_omitted_stay_unchanged(move: Move) -> None:
    await move.start(switch_at_overlap=None, rate=60)
    change = await move.start(rate=120)
    assert (change.rate, change.switch_at_overlap) == (120, None)
    change = await move.start(switch_at_overlap=0.9)
    assert (change.rate, change.switch_at_overlap) == (120, 0.9)
