"""Choice of the model for a tenant's model change."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from app.db.queries.tenants.tenants import RegisteredModel
from app.embeddings.models import ALIASES
from app.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class WantedModel:
    """A caller's description of the model; None matches any value. `in_use` is the model that the tenant uses."""

    provider: str | None = None
    name: str | None = None
    dimensions: int | None = None
    in_use: bool = False


def choose_model(
    models: Sequence[RegisteredModel], wanted: WantedModel, served: Collection[int], in_use: int
) -> RegisteredModel:
    """Find the only registered model that matches; without any description, the one that is not in use.

    Raises InvalidInput.
    """
    if wanted.in_use:
        return _choose_in_use(models, served, in_use)
    name = wanted.name and ALIASES.get(wanted.name, wanted.name)
    fitting = [
        m
        for m in models
        if wanted.provider in (None, m.model.provider)
        and name in (None, m.model.name)
        and wanted.dimensions in (None, m.model.dimensions)
    ]
    found = [m for m in fitting if m.id in served]
    if wanted == WantedModel():
        found = [m for m in found if m.id != in_use]
        if not found:
            raise InvalidInput.of(
                "model",
                "this service has no second model; set EMBEDDING_NEXT_PROVIDER, or rebuild the vectors of the model"
                " in use",
            )
    if not fitting:
        raise InvalidInput.of("model", "is not registered; the operator must run: knowledge model add")
    if not found:
        raise InvalidInput.of(
            "model", "is registered, but this service has no provider for it; set EMBEDDING_NEXT_PROVIDER"
        )
    if len(found) > 1:
        raise InvalidInput.of("model", "several models match; name provider, model and dimensions")
    return found[0]


def _choose_in_use(
    models: Sequence[RegisteredModel], served: Collection[int], in_use: int
) -> RegisteredModel:
    if in_use not in served:
        raise InvalidInput.of("model", "this service has no provider for the tenant's model")
    return next(model for model in models if model.id == in_use)
