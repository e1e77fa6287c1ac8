"""The stored state of a tenant's change from one embedding model to another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Literal

import orjson

from app.db.session import TenantSession
from app.db.statements import load_statements
from app.embeddings.provider import EmbeddingModel

SQL = load_statements(__name__)


State = Literal["filling", "ready", "switched", "dropping"]
"""States of a change in progress. `app.knowledge.reembedding.machine` defines the transitions."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """How similar the results of the old and the new model are.

    Attributes:
        queries: number of compared queries; `source` is their origin: the tenant's queries, or titles of its entries.
        overlap: mean share of the first ten hits that both models find, with the tenant's settings (0 to 1).
        semantic_overlap: the same for the semantic leg only.
        same: queries whose first ten hits are the same entries.
        empty: queries for which the semantic leg finds nothing with the new model, but does with the old one.
        judged: queries with feedback from callers; without any, the next two figures are None.
        ndcg_old, ndcg_new: mean nDCG@10 of their hits with the old and the new model. Hits without feedback count as
            wrong, and hits with feedback were found by the old model, so `ndcg_new` is a lower bound.
    """

    queries: int
    source: str
    overlap: float
    semantic_overlap: float
    same: int
    empty: int
    judged: int = 0
    ndcg_old: float | None = None
    ndcg_new: float | None = None


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """A change of model, and the progress of the model that is not in use.

    Attributes:
        rate: texts to embed per minute; None: as many as the provider accepts.
        switch_at_overlap: minimum overlap at which the tenant is switched automatically; None: manually.
        visited: entries that have been queued for vectors of the new model.
        current, other: numbers of the model in use, and of the other model.
        entries: number of the tenant's entries.
        waiting, refused: entries without a vector of `other`: still to be computed, and refused by its provider.
        passages, index_state: of `other`.
        workers: number of workers that hold the tenant's job.
    """

    from_model: int
    to_model: int
    old: EmbeddingModel
    new: EmbeddingModel
    state: State
    rate: int | None
    switch_at_overlap: float | None
    visited: int
    visited_all: bool
    comparison: Comparison | None
    started_at: datetime
    ready_at: datetime | None
    switched_at: datetime | None
    current: int
    other: int
    entries: int
    waiting: int
    refused: int
    passages: int
    index_state: str
    workers: int

    def model(self, model_id: int) -> EmbeddingModel:
        """The model with this number, of the two."""
        return self.new if model_id == self.to_model else self.old


@dataclass(frozen=True, slots=True)
class SampledQueries:
    """Queries for comparing two models: the tenant's queries, or titles of its entries."""

    texts: Sequence[str]
    source: Literal["queries", "titles"]


async def lock_tenant(session: TenantSession) -> int | None:
    """Block writes of entries until the transaction ends; returns the number of the tenant's model."""
    model_id: int | None = await session.fetch_value(SQL["lock_tenant"])
    return model_id


async def fetch_change(session: TenantSession) -> ChangeRow | None:
    """The tenant's change, if one is in progress."""
    row = await session.fetch_row(SQL["fetch"])
    if row is None:
        return None
    values = dict(row)
    for name in ("old", "new"):
        values[name] = EmbeddingModel(
            **{f.name: values.pop(f"{name}_{f.name}") for f in fields(EmbeddingModel)}
        )
    values["comparison"] = None if row["comparison"] is None else Comparison(**row["comparison"])
    return ChangeRow(**values)


async def start_change(
    session: TenantSession, from_model: int, to_model: int, rate: int | None, switch_at_overlap: float | None
) -> None:
    """Begin a change; the tenant must be locked and have no change."""
    await session.execute(
        SQL["start"],
        from_model=from_model,
        to_model=to_model,
        rate=rate,
        switch_at_overlap=switch_at_overlap,
    )


async def adjust_change(session: TenantSession, rate: int | None, switch_at_overlap: float | None) -> None:
    """Set the rate of a change, and when it switches."""
    await session.execute(SQL["adjust"], rate=rate, switch_at_overlap=switch_at_overlap)


async def visit_entries(session: TenantSession, model_id: int, limit: int) -> None:
    """Queue the next `limit` entries for vectors of the model, if they have none."""
    await session.execute(SQL["visit"], model_id=model_id, limit=limit)


async def declare_ready(session: TenantSession, model_id: int, comparison: Comparison) -> None:
    """Record that the new model can take over, and how it compares with the old one."""
    await session.execute(
        SQL["declare_ready"], model_id=model_id, comparison=orjson.dumps(comparison).decode()
    )


async def count_lagging(session: TenantSession, model_id: int) -> int:
    """How many entries the model in use finds and this one does not, although its vectors can be computed."""
    return int(await session.fetch_value(SQL["lags"], model_id=model_id))


async def use_model(session: TenantSession, model_id: int) -> None:
    """Switch the tenant's searches and writes to this model."""
    await session.execute(SQL["use_model"], model_id=model_id)
    await session.execute(SQL["note_switch"])


async def begin_drop(session: TenantSession) -> None:
    """End the period in which entries get vectors of both models."""
    await session.execute(SQL["begin_drop"])


async def drop_vectors(session: TenantSession, model_id: int, limit: int) -> int:
    """Remove up to `limit` vectors of a model that is not in use; returns how many."""
    return await session.execute(SQL["drop_batch"], model_id=model_id, limit=limit)


async def finish_change(session: TenantSession, model_id: int) -> None:
    """Delete the change, and the pending entries of the abandoned model."""
    await session.execute(SQL["drop_pending"], model_id=model_id)
    await session.execute(SQL["drop_statistics"], model_id=model_id)
    await session.execute(SQL["finish"])


async def sample_queries(session: TenantSession, limit: int) -> SampledQueries:
    """Queries of the tenant if any are kept, otherwise titles."""
    if rows := await session.fetch(SQL["recent_queries"], limit=limit):
        return SampledQueries([row["query"] for row in rows], "queries")
    rows = await session.fetch(SQL["sampled_titles"], limit=limit)
    return SampledQueries([row["query"] for row in rows], "titles")
