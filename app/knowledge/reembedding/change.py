"""A model change as shown to the tenant's admin."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from app.db.queries.work.reembedding import ChangeRow, Comparison, State
from app.embeddings.provider import EmbeddingModel
from app.knowledge.reembedding.gate import Decision, decide


@dataclass(frozen=True, slots=True)
class ModelChange:
    """A tenant's model change as shown to its admin. The "other" model is the one of the two that is not in use.

    Attributes:
        state: `filling`, then `ready`, then `switched` (`ready` again after switching back), finally `dropping`; a
            rebuild goes from `filling` to `switched`.
        old, new: the model in use when the change began, and the model it leads to.
        rebuild: whether both are the same, and its vectors are replaced.
        rate: entries to embed per minute; None: as many as the provider accepts.
        switch_at_overlap: minimum overlap of the semantic leg at which the service switches the tenant itself, where
            there is too little feedback; None: only on request.
        entries: number of the tenant's entries.
        waiting, refused: entries without (new) vectors of the other model: still pending; refused by its provider.
        progress: share of the entries that have vectors of the other model, 0 to 1.
        served: whether this service has a provider for the other model; if not, the job waits.
        failure: why the change waits, e.g. an unavailable provider; None while it advances.
        comparison: how searches with both models compare, once that is measured.
        decision: whether the service switches by itself, and why.
    """

    state: State
    old: EmbeddingModel
    new: EmbeddingModel
    rebuild: bool
    rate: int | None
    switch_at_overlap: float | None
    entries: int
    waiting: int
    refused: int
    progress: float
    served: bool
    failure: str | None
    comparison: Comparison | None
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


def show_change(change: ChangeRow, served: Collection[int]) -> ModelChange:
    """Convert the row of a change; `served` are the models with a provider in this service."""
    entries = change.entries
    visited = entries if change.visited_all else min(change.visited, entries)
    waiting, refused = change.waiting, change.refused
    if change.rebuilds:
        waiting, refused = entries - visited, min(change.rebuild_refused, visited)
        share = visited / entries if entries else 1.0
    else:
        share = (visited - waiting - refused) / entries if entries else 1.0
    return ModelChange(
        state=change.state,
        old=change.old,
        new=change.new,
        rebuild=change.rebuilds,
        rate=change.rate,
        switch_at_overlap=change.switch_at_overlap,
        entries=entries,
        waiting=waiting,
        refused=refused,
        progress=round(max(0.0, min(1.0, share)), 4),
        served=change.other in served,
        failure=change.failure,
        comparison=change.comparison,
        decision=decide(change),
        started_at=change.started_at,
        ready_at=change.ready_at,
        switched_at=change.switched_at,
    )


def switches_by_itself(change: ChangeRow) -> bool:
    """Whether a ready change is switched without its admin: after the first switch, only the admin switches."""
    return change.switched_at is None and decide(change).switch == "automatic"
