"""The model that a tenant is to move to."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from app.db.session import Row
from app.embeddings.models import ALIASES
from app.embeddings.provider import EmbeddingModel
from app.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class WantedModel:
    """What a caller says of the model; None: as the only registered model that fits has it."""

    provider: str | None = None
    name: str | None = None
    dimensions: int | None = None

    def fits(self, model: EmbeddingModel) -> bool:
        """Whether the model is as the caller says."""
        name = self.name and ALIASES.get(self.name, self.name)
        return (
            self.provider in (None, model.provider)
            and name in (None, model.name)
            and self.dimensions in (None, model.dimensions)
        )


def choose_model(
    models: Sequence[Row], wanted: WantedModel, served: Collection[int], in_use: int
) -> tuple[int, EmbeddingModel]:
    """The one registered model that fits, with its number; where nothing is said of it, the one that is not in use.

    Raises InvalidInput.
    """
    fitting = [(row["id"], read_model(row)) for row in models if wanted.fits(read_model(row))]
    found = [(model_id, model) for model_id, model in fitting if model_id in served]
    if wanted == WantedModel():
        found = [(model_id, model) for model_id, model in found if model_id != in_use]
        if not found:
            raise InvalidInput.of("model", "this service serves no other model; set EMBEDDING_NEXT_PROVIDER")
    if not fitting:
        raise InvalidInput.of("model", "is not registered; the operator runs: knowledge model add")
    if not found:
        raise InvalidInput.of(
            "model", "is registered, but this service has no provider of it; set EMBEDDING_NEXT_PROVIDER"
        )
    if len(found) > 1:
        raise InvalidInput.of("model", "several models fit; name provider, model and dimensions")
    return found[0]


def read_model(row: Row) -> EmbeddingModel:
    """The model of a row that `list_models` read."""
    return EmbeddingModel(
        row["provider"], row["name"], row["dimensions"], row["max_tokens"], row["similarity_threshold"]
    )
