"""Requests and responses for the change of a tenant's embedding model."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal, cast

from pydantic import BaseModel, ConfigDict, Field

from app.db.queries.work.reembedding import Source
from app.knowledge.reembedding.comparison import DEFAULT_OVERLAP, Basis, Switching
from app.knowledge.reembedding.machine import Terms
from app.web.models.administration import ModelInfo
from app.web.models.requests import RequestBody


class NewModelChange(RequestBody):
    """The new embedding model. Omitted fields are taken from the only registered model that matches. The model in use
    means: rebuild its vectors."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"provider": "openai", "model": "text-embedding-3-small", "rate": 600}]
        },
    )

    provider: Annotated[str, Field(min_length=1, max_length=50)] | None = None
    model: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        None, description="A model that the operator has registered (`knowledge model add`) and configured."
    )
    dimensions: Annotated[int, Field(strict=True, ge=1, le=4000)] | None = None
    rate: Annotated[int, Field(strict=True, ge=1, le=10_000_000)] | None = Field(
        None,
        description="Entries to embed per minute; null means as many as the provider accepts.",
    )
    switch_at_overlap: Annotated[float, Field(strict=True, ge=0, le=1)] | None = Field(
        DEFAULT_OVERLAP,
        description="Switch automatically when the semantic legs of both models share at least this fraction of their"
        f" first hits ({DEFAULT_OVERLAP} unless set). Feedback decides instead where there is enough; too little"
        " evidence never switches. Null means wait for a switch on request.",
    )

    def terms(self) -> Terms:
        """The terms that the caller set."""
        given = self.model_dump(include={"rate", "switch_at_overlap"}, exclude_unset=True)
        return cast(Terms, given)


class QualityModel(BaseModel):
    """The quality of both models on queries with feedback, as nDCG@10."""

    old: float
    new: float = Field(description="A lower bound: hits without feedback count as wrong.")
    low: float = Field(
        description="Lower end of the 95 % bootstrap interval of the mean difference, new - old."
    )
    high: float = Field(description="Upper end of this interval.")


class ComparisonModel(BaseModel):
    """A comparison of both models on a sample of the tenant's queries and of entry titles."""

    queries: int = Field(description="Compared queries: those for which either model finds anything.")
    source: Source | None = Field(
        description="Their origin: the tenant's own queries, entry titles, or both; null if nothing was compared."
    )
    depth: int = Field(description="Number of first hits compared: 10, or a tenth of the entries if fewer.")
    overlap: float | None = Field(
        description="Mean fraction of these hits that both models find, in whole searches."
    )
    semantic_overlap: float | None = Field(description="The same fraction for the semantic leg only.")
    same: int = Field(description="Queries for which the semantic leg finds the same hits in the same order.")
    empty: int = Field(description="Queries for which only the old model's semantic leg finds anything.")
    judgements: int = Field(
        description="Judged entries of queries with feedback; a majority decides on each."
    )
    judged: int = Field(description="Queries with a relevant entry, used to measure both models.")
    quality: QualityModel | None = Field(description="Of whole searches; null without feedback.")
    semantic_quality: QualityModel | None = Field(description="Of the semantic leg; null without feedback.")


class DecisionModel(BaseModel):
    """Whether the service switches by itself, and why."""

    switch: Switching = Field(description="`undecided` until the models have been compared.")
    basis: Basis | None = Field(description="What decided.")
    reason: str = Field(description="The reason, with the figures that decided.")


class ModelChangeModel(BaseModel):
    """A model change or rebuild, and its progress."""

    state: Literal["filling", "ready", "switched", "dropping"]
    old: ModelInfo
    new: ModelInfo
    rebuild: bool = Field(
        description="Whether the model stays the same and its vectors are replaced; the last state is `switched`."
    )
    rate: int | None
    switch_at_overlap: float | None
    entries: int
    waiting: int = Field(description="Entries that still need vectors of the model that is not in use.")
    refused: int = Field(
        description="Entries that the provider of that model refuses; in a rebuild, they keep their vectors."
    )
    progress: float
    served: bool = Field(
        description="Whether this service has a provider for that model; if not, the change waits."
    )
    failure: str | None = Field(
        description="Why the change waits at the moment, for example a failed provider."
    )
    comparison: ComparisonModel | None = Field(description="Null until every entry has its vectors.")
    decision: DecisionModel
    started_at: datetime
    ready_at: datetime | None
    switched_at: datetime | None
