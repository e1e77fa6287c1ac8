"""A tenant's change from one embedding model to another, as stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Literal

import orjson

from app.db.session import Row, TenantSession
from app.db.statements import load_statements

SQL = load_statements(__name__)


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """A change of model, and how far the model that is not in use has come.

    Attributes:
        state: `filling` until every entry was visited, indexed and compared; `dropping` at its end.
        rate: texts to embed a minute; None: as many as the provider takes.
        switch_at: least overlap at which the tenant is switched by itself; None: by hand.
        visited: entries that have been given the work of getting vectors of the new model.
        current, other: numbers of the model in use, and of the one that is not.
        entries: how many the tenant has.
        waiting, refused: entries without a vector of `other`: still to be made, and refused by its provider.
        passages, index_state: of `other`.
    """

    from_model: int
    to_model: int
    state: Literal["filling", "ready", "dropping"]
    rate: int | None
    switch_at: float | None
    visited: int
    visited_all: bool
    comparison: Mapping[str, Any] | None
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

    @classmethod
    def from_row(cls, row: Row) -> ChangeRow:
        """The change of a row that `fetch_change` read."""
        return cls(**{f.name: row[f.name] for f in fields(cls)})


async def lock_tenant(session: TenantSession) -> int | None:
    """Keep everybody from writing entries until the transaction ends; returns the number of the tenant's model."""
    model_id: int | None = await session.fetch_value(SQL["lock_tenant"])
    return model_id


async def fetch_change(session: TenantSession) -> ChangeRow | None:
    """The tenant's change, if one is under way."""
    row = await session.fetch_row(SQL["fetch"])
    return None if row is None else ChangeRow.from_row(row)


async def start_change(
    session: TenantSession, from_model: int, to_model: int, rate: int | None, switch_at: float | None
) -> None:
    """Begin a change; the tenant is locked and has none."""
    await session.execute(
        SQL["start"],
        from_model=from_model,
        to_model=to_model,
        rate=rate,
        switch_at=switch_at,
    )


async def adjust_change(session: TenantSession, rate: int | None, switch_at: float | None) -> None:
    """Set the pace of a change, and when it switches."""
    await session.execute(SQL["adjust"], rate=rate, switch_at=switch_at)


async def visit_entries(session: TenantSession, model_id: int, limit: int) -> None:
    """Let the next `limit` entries wait for vectors of the model, as far as they have none."""
    await session.execute(SQL["visit"], model_id=model_id, limit=limit)


async def declare_ready(session: TenantSession, model_id: int, comparison: Mapping[str, Any]) -> None:
    """Note that the new model can take over, and how it compares with the old one."""
    await session.execute(
        SQL["declare_ready"],
        model_id=model_id,
        comparison=orjson.dumps(dict(comparison)).decode(),
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


async def count_workers(session: TenantSession) -> int:
    """How many workers are at the tenant's change now."""
    return int(await session.fetch_value(SQL["others_at_work"]))


async def sample_queries(session: TenantSession, limit: int) -> tuple[Sequence[str], str]:
    """Queries to compare two models on, and where they are from: `queries` of the tenant, else `titles`."""
    for statement, source in (("recent_queries", "queries"), ("sampled_titles", "titles")):
        rows = await session.fetch(SQL[statement], limit=limit)
        if rows:
            return [row["query"] for row in rows], source
    return [], "titles"
