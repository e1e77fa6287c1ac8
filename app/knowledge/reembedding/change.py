"""A change of model as its admin sees it, and what it still waits for."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from app.db.queries.work.reembedding import ChangeRow, Comparison, State
from app.embeddings.provider import EmbeddingModel


@dataclass(frozen=True, slots=True)
class ModelChange:
    """A tenant's change of model, as its admin sees it.

    Attributes:
        state: `filling`, then `ready`, then `switched` (and `ready` again once switched back), at its end `dropping`.
        old, new: the model that the change began with, and the one that it leads to.
        rate: entries to embed a minute; None: as many as the provider takes.
        switch_at_overlap: least overlap at which the tenant is switched by itself; None: by hand only.
        entries: how many the tenant has.
        waiting, refused: those without vectors of the model that is not in use: to be made; refused by its provider.
        progress: share of the entries that have theirs, 0 to 1.
        served: whether this service has a provider of the model that is not in use; if not, the work waits.
        comparison: what the searches of both models have in common, once that is known.
    """

    state: State
    old: EmbeddingModel
    new: EmbeddingModel
    rate: int | None
    switch_at_overlap: float | None
    entries: int
    waiting: int
    refused: int
    progress: float
    served: bool
    comparison: Comparison | None
    started_at: datetime
    ready_at: datetime | None
    switched_at: datetime | None

    @property
    def rests(self) -> bool:
        """Whether it comes no further until its admin does something."""
        if self.state == "switched":
            return not self.waiting
        return self.state == "ready" and not switches_by_itself(self)


def show_change(change: ChangeRow, served: Collection[int]) -> ModelChange:
    """The change without what only the work needs to know; `served` are the models with a provider here."""
    entries = change.entries
    visited = entries if change.visited_all else min(change.visited, entries)
    share = (visited - change.waiting - change.refused) / entries if entries else 1.0
    return ModelChange(
        state=change.state,
        old=change.old,
        new=change.new,
        rate=change.rate,
        switch_at_overlap=change.switch_at_overlap,
        entries=entries,
        waiting=change.waiting,
        refused=change.refused,
        progress=round(max(0.0, min(1.0, share)), 4),
        served=change.other in served,
        comparison=change.comparison,
        started_at=change.started_at,
        ready_at=change.ready_at,
        switched_at=change.switched_at,
    )


def switches_by_itself(change: ChangeRow | ModelChange) -> bool:
    """Whether a change that is ready is switched without its admin.

    Once switched, going back or not is the admin's business; so is giving up what a provider refuses.
    """
    return (
        change.switched_at is None
        and not change.refused
        and change.comparison is not None
        and change.switch_at_overlap is not None
        and change.comparison.overlap >= change.switch_at_overlap
    )
