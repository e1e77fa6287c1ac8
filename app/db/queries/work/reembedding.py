"""A tenant's change from one embedding model to another, as stored."""

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
"""Of a change that is under way. `app.knowledge.reembedding.machine` says what leads from one to the next."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What searches with the old and the new model have in common.

    Attributes:
        queries: how many were compared, and from `source`: the tenant's own, or titles of its entries.
        overlap: mean share of the first ten hits that both models bring, as the tenant searches (0 to 1).
        semantic_overlap: the same of the semantic leg alone.
        same: queries whose first ten hits are the same entries.
        empty: queries for which the new model's semantic leg brings nothing, although the old one's does.
        judged: queries that callers have given feedback on; None for both figures where there are none.
        ndcg_old, ndcg_new: mean nDCG@10 of their hits with the old and the new model. Hits that nobody judged count
            as wrong, and those judged were found by the old one: the new one does no worse than this says.
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
    """A change of model, and how far the model that is not in use has come.

    Attributes:
        rate: texts to embed a minute; None: as many as the provider takes.
        switch_at_overlap: least overlap at which the tenant is switched by itself; None: by hand.
        visited: entries that have been given the work of getting vectors of the new model.
        current, other: numbers of the model in use, and of the one that is not.
        entries: how many the tenant has.
        waiting, refused: entries without a vector of `other`: still to be made, and refused by its provider.
        passages, index_state: of `other`.
        workers: how many have the tenant's job now.
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
        """The one of the two models that has this number."""
        return self.new if model_id == self.to_model else self.old


@dataclass(frozen=True, slots=True)
class SampledQueries:
    """Queries to compare two models on: the tenant's own, or titles of its entries."""

    texts: Sequence[str]
    source: Literal["queries", "titles"]


async def lock_tenant(session: TenantSession) -> int | None:
    """Keep everybody from writing entries until the transaction ends; returns the number of the tenant's model."""
    model_id: int | None = await session.fetch_value(SQL["lock_tenant"])
    return model_id


async def fetch_change(session: TenantSession) -> ChangeRow | None:
    """The tenant's change, if one is under way."""
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
    """Begin a change; the tenant is locked and has none."""
    await session.execute(
        SQL["start"],
        from_model=from_model,
        to_model=to_model,
        rate=rate,
        switch_at_overlap=switch_at_overlap,
    )


async def adjust_change(session: TenantSession, rate: int | None, switch_at_overlap: float | None) -> None:
    """Set the pace of a change, and when it switches."""
    await session.execute(SQL["adjust"], rate=rate, switch_at_overlap=switch_at_overlap)


async def visit_entries(session: TenantSession, model_id: int, limit: int) -> None:
    """Let the next `limit` entries wait for vectors of the model, as far as they have none."""
    await session.execute(SQL["visit"], model_id=model_id, limit=limit)


async def declare_ready(session: TenantSession, model_id: int, comparison: Comparison) -> None:
    """Note that the new model can take over, and how it compares with the old one."""
    await session.execute(
        SQL["declare_ready"], model_id=model_id, comparison=orjson.dumps(comparison).decode()
    )


async def count_lagging(session: TenantSession, model_id: int) -> int:
    """How many entries the model in use finds and this one does not, although its vectors can be made."""
    return int(await session.fetch_value(SQL["lags"], model_id=model_id))


async def use_model(session: TenantSession, model_id: int) -> None:
    """Let the tenant search and write with this model from now on."""
    await session.execute(SQL["use_model"], model_id=model_id)
    await session.execute(SQL["note_switch"])


async def begin_drop(session: TenantSession) -> None:
    """End the time in which entries get vectors of both models."""
    await session.execute(SQL["begin_drop"])


async def drop_vectors(session: TenantSession, model_id: int, limit: int) -> int:
    """Remove up to `limit` vectors of a model that is not in use; returns how many."""
    return await session.execute(SQL["drop_batch"], model_id=model_id, limit=limit)


async def finish_change(session: TenantSession, model_id: int) -> None:
    """Forget the change and what waits for the model that was given up."""
    await session.execute(SQL["drop_pending"], model_id=model_id)
    await session.execute(SQL["drop_statistics"], model_id=model_id)
    await session.execute(SQL["finish"])


async def sample_queries(session: TenantSession, limit: int) -> SampledQueries:
    """Queries of the tenant where some are kept, else titles."""
    if rows := await session.fetch(SQL["recent_queries"], limit=limit):
        return SampledQueries([row["query"] for row in rows], "queries")
    rows = await session.fetch(SQL["sampled_titles"], limit=limit)
    return SampledQueries([row["query"] for row in rows], "titles")
