"""The state of a tenant's model change."""

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from app.contract.models import ChangeState, Comparison, IndexState, Quality
from app.db.queries.embeddings import PendingText
from app.db.session import TenantSession
from app.db.statements import load_statements
from app.embeddings.provider import EmbeddingModel

SQL = load_statements(__name__)


@dataclass(frozen=True, slots=True)
class OtherVectors:
    """The vectors of the model that is not in use, of all `entries`; `waiting` ones have none, `refused` get none."""

    entries: int
    waiting: int
    refused: int
    passages: int
    index_state: IndexState


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """A change of model, and the progress of the model that is not in use; in a rebuild, all are the model in use.

    Attributes:
        rate: texts to embed per minute; None: as many as the provider accepts.
        switch_at_overlap: minimum overlap of the semantic leg at which the tenant is switched automatically; None:
            manually.
        visited: entries that have been queued for vectors of the new model, or have new vectors in a rebuild.
        current, other: numbers of the model in use, and of the other model.
        vectors: of `other`.
        rebuild_refused: entries of a rebuild that kept what they had because the provider refused their text.
        failure: why the job waits; None while it advances.
        workers: number of workers that hold the tenant's job.
    """

    from_model: int
    to_model: int
    old: EmbeddingModel
    new: EmbeddingModel
    state: ChangeState
    rate: int | None
    switch_at_overlap: float | None
    visited: int
    visited_all: bool
    comparison: Comparison | None
    started_at: datetime
    ready_at: datetime | None
    switched_at: datetime | None
    rebuild_refused: int
    failure: str | None
    current: int
    other: int
    vectors: OtherVectors
    workers: int

    @property
    def rebuilds(self) -> bool:
        """Whether the vectors of the model in use are replaced, and the model stays."""
        return self.from_model == self.to_model

    def model(self, model_id: int) -> EmbeddingModel:
        """The model with this number, of the two."""
        return self.new if model_id == self.to_model else self.old


@dataclass(frozen=True, slots=True)
class SampledQuery:
    """A query for comparing two models; `entry_id` is the entry whose title it is, None for a query of the tenant."""

    text: str
    entry_id: UUID | None


async def lock_tenant(session: TenantSession) -> int | None:
    """Block writes of entries until the transaction ends; returns the number of the tenant's model."""
    return await session.fetch_value_as(int, SQL["lock_tenant"])


async def fetch_change(session: TenantSession) -> ChangeRow | None:
    """The tenant's change, if one is in progress."""
    row = await session.fetch_row(SQL["fetch"])
    if row is None:
        return None
    values = dict(row)
    for name in ("old", "new"):
        values[name] = EmbeddingModel(**{f.name: values.pop(f"{name}_{f.name}") for f in fields(EmbeddingModel)})
    values["vectors"] = OtherVectors(**{f.name: values.pop(f.name) for f in fields(OtherVectors)})
    values["comparison"] = None if row["comparison"] is None else _read_comparison(row["comparison"])
    return ChangeRow(**values)


def _read_comparison(stored: dict[str, Any]) -> Comparison:
    for name in ("quality", "semantic_quality"):
        stored[name] = None if stored[name] is None else Quality(**stored[name])
    return Comparison(**stored)


async def start_change(
    session: TenantSession, from_model: int, to_model: int, *, rate: int | None, switch_at_overlap: float | None
) -> None:
    """Begin a change; the tenant must be locked and have no change."""
    await session.execute(
        SQL["start"], from_model=from_model, to_model=to_model, rate=rate, switch_at_overlap=switch_at_overlap
    )


async def adjust_change(session: TenantSession, *, rate: int | None, switch_at_overlap: float | None) -> None:
    """Set the rate of a change, and when it switches."""
    await session.execute(SQL["adjust"], rate=rate, switch_at_overlap=switch_at_overlap)


async def visit_entries(session: TenantSession, model_id: int, limit: int) -> None:
    """Queue the next `limit` entries for vectors of the model, if they have none."""
    await session.execute(SQL["visit"], model_id=model_id, limit=limit)


async def declare_ready(session: TenantSession, model_id: int, comparison: Comparison) -> None:
    """Record that the new model can take over, and how it compares with the old one."""
    await session.execute(SQL["declare_ready"], model_id=model_id, comparison=orjson.dumps(comparison).decode())


async def count_lagging(session: TenantSession, model_id: int) -> int:
    """Count entries that the model in use finds and this one does not, although their vectors can be computed."""
    return int(await session.fetch_value(SQL["lags"], model_id=model_id))


async def use_model(session: TenantSession, model_id: int) -> None:
    """Switch the tenant's searches and writes to this model."""
    await session.execute(SQL["use_model"], model_id=model_id)
    await session.execute(SQL["note_switch"])


async def list_next_texts(session: TenantSession, limit: int) -> list[PendingText]:
    """Texts of the next entries of a rebuild, by id."""
    return await session.fetch_as(PendingText, SQL["next_texts"], limit=limit)


async def advance_rebuild(session: TenantSession, place: UUID, visited: int, refused: int) -> None:
    """Record that the entries up to `place` are done, unless another worker has recorded it."""
    await session.execute(SQL["advance"], place=place, visited=visited, refused=refused)


async def finish_rebuild(session: TenantSession) -> None:
    """Record that every entry has been visited."""
    await session.execute(SQL["finish_rebuild"])


async def end_rebuild(session: TenantSession) -> None:
    """Delete the record of a rebuild; every vector belongs to the model in use and stays."""
    await session.execute(SQL["end_rebuild"])


async def note_failure(session: TenantSession, failure: str | None) -> None:
    """Record why the job waits, or that it advances."""
    await session.execute(SQL["note_failure"], failure=failure)


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


async def sample_queries(session: TenantSession, limit: int) -> list[SampledQuery]:
    """Queries of the tenant, as far as any are kept, and titles up to `limit`."""
    queries = await session.fetch_as(SampledQuery, SQL["recent_queries"], limit=limit)
    if len(queries) < limit:
        queries += await session.fetch_as(SampledQuery, SQL["sampled_titles"], limit=limit - len(queries))
    return queries


async def count_visible(session: TenantSession, limit: int) -> int:
    """How many entries searches can find, counted up to `limit`."""
    return int(await session.fetch_value(SQL["count_visible"], limit=limit))
