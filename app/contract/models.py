"""Embedding models, and a tenant's change from one to another."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from app.contract.fields import Fraction
from app.contract.validation import UNSET, Described, Unset, request

ChangeState = Literal["filling", "ready", "switched", "dropping"]
"""States of a change in progress. `app.knowledge.reembedding.machine` defines the transitions."""
IndexState = Literal["none", "building", "ready"]
QueryOrigin = Literal["queries", "titles", "both"]
"""Where compared queries come from: the tenant's own, titles of its entries, or both."""
Switching = Literal["undecided", "automatic", "by_hand"]
Basis = Literal["feedback", "semantic_overlap", "too_little_evidence", "refused_entries", "request", "same_model"]
"""What decides whether the service switches by itself."""


@dataclass(frozen=True, slots=True)
class ModelInfo(Described):
    """An embedding model."""

    provider: str
    name: str
    dimensions: int


@dataclass(frozen=True, slots=True)
class ModelUse(ModelInfo):
    """An embedding model for which the tenant has, or is getting, vectors."""

    is_current: Annotated[bool, Field(description="Whether searches use it.")]
    passages: int
    index_state: IndexState
    waiting: Annotated[int, Field(description="Entries that still need vectors of this model.")]
    refused: int
    """Entries that the provider refused five times; only keyword search finds them."""
    entries: Annotated[int, Field(description="Entries with vectors of this model.")]


@dataclass(frozen=True, slots=True)
class Quality(Described):
    """The quality of both models on queries with feedback, as nDCG@10."""

    old: float
    new: Annotated[float, Field(description="A lower bound: hits without feedback count as wrong.")]
    low: float
    """Lower end of the 95 % bootstrap interval of the mean difference, new - old."""
    high: Annotated[float, Field(description="Upper end of this interval.")]


@dataclass(frozen=True, slots=True)
class Comparison(Described):
    """A comparison of both models on a sample of the tenant's queries and of entry titles."""

    queries: Annotated[int, Field(description="Compared queries: those for which either model finds anything.")]
    source: QueryOrigin | None
    """Their origin: the tenant's own queries, entry titles, or both; null if nothing was compared."""
    depth: Annotated[int, Field(description="Number of first hits compared: 10, or a tenth of the entries if fewer.")]
    overlap: float | None
    """Mean fraction of these hits that both models find, in whole searches."""
    semantic_overlap: Annotated[float | None, Field(description="The same fraction for the semantic leg only.")]
    same: Annotated[int, Field(description="Queries for which the semantic leg finds the same hits in the same order.")]
    empty: Annotated[int, Field(description="Queries for which only the old model's semantic leg finds anything.")]
    judgements: int
    """Judged entries of queries with feedback; a majority decides on each."""
    judged: Annotated[int, Field(description="Queries with a relevant entry, used to measure both models.")]
    quality: Annotated[Quality | None, Field(description="Of whole searches; null without feedback.")]
    semantic_quality: Annotated[Quality | None, Field(description="Of the semantic leg; null without feedback.")]


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether the service switches by itself, and why."""

    switch: Annotated[Switching, Field(description="`undecided` until the models have been compared.")]
    basis: Annotated[Basis | None, Field(description="What decided.")]
    reason: Annotated[str, Field(description="The reason, with the figures that decided.")]


@dataclass(frozen=True, slots=True)
class ModelChange(Described):
    """A model change or rebuild, and its progress."""

    state: ChangeState
    old: ModelInfo
    new: ModelInfo
    rebuild: bool
    """Whether the model stays the same and its vectors are replaced; the last state is `switched`."""
    rate: int | None
    switch_at_overlap: float | None
    entries: int
    waiting: Annotated[int, Field(description="Entries that still need vectors of the model that is not in use.")]
    refused: int
    """Entries that the provider of that model refuses; in a rebuild, they keep their vectors."""
    progress: float
    served: bool
    """Whether this service has a provider for that model; if not, the change waits."""
    failure: str | None
    """Why the change waits at the moment, for example a failed provider."""
    comparison: Annotated[Comparison | None, Field(description="Null until every entry has its vectors.")]
    decision: Decision
    started_at: datetime
    ready_at: datetime | None
    switched_at: datetime | None

    @property
    def rests(self) -> bool:
        """Whether the change makes no progress until its admin acts."""
        if self.state == "switched":
            return not self.waiting
        return self.state == "ready" and (self.switched_at is not None or self.decision.switch == "by_hand")


DEFAULT_OVERLAP = 0.8
"""Least overlap of the semantic leg at which the service switches by default."""


@request(schema={"examples": [{"provider": "openai", "model": "text-embedding-3-small", "rate": 600}]})
class NewModelChange:
    """The new embedding model. Omitted fields are taken from the only registered model that matches. The model in use
    means: rebuild its vectors."""

    provider: Annotated[str, Field(min_length=1, max_length=50)] | Unset | None = UNSET
    model: Annotated[str, Field(min_length=1, max_length=200)] | Unset | None = UNSET
    """A model that the operator has registered (`knowledge model add`) and configured."""
    dimensions: Annotated[int, Field(strict=True, ge=1, le=4000)] | Unset | None = UNSET
    rate: Annotated[int, Field(strict=True, ge=1, le=10_000_000)] | Unset | None = UNSET
    """Entries to embed per minute; null means as many as the provider accepts."""
    switch_at_overlap: Annotated[
        Fraction | Unset | None,
        Field(
            description="Switch automatically when the semantic legs of both models share at least this fraction"
            f" of their first hits ({DEFAULT_OVERLAP} unless set). Feedback decides instead where there is enough;"
            " too little evidence never switches. Null means wait for a switch on request."
        ),
    ] = UNSET

    @property
    def names_model(self) -> bool:
        """Whether the model is described by any of its fields."""
        return not {self.provider, self.model, self.dimensions} <= {None, UNSET}
