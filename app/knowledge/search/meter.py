"""Count how sure the semantic leg is of each tenant's searches, in batches and in the background."""

import asyncio
import contextlib
import logging
from collections import defaultdict
from typing import NamedTuple
from uuid import UUID

from app.concurrency.background import start_background
from app.db.database import Database
from app.db.principals import SERVICE, act_as
from app.db.queries import tenants
from app.embeddings.provider import EmbeddingModel
from app.errors import DatabaseUnavailable, TenantNotFound
from app.knowledge.search.legs.findings import Legs
from app.knowledge.search.plan import Plan

log = logging.getLogger("app.knowledge.search")

LINGER = 5.0
"""Seconds that counts wait for others of the tenant, so that a search costs no write of its own."""

MEMORY = 300
"""Searches that the mean remembers: their order then moves a weight by about 0.01."""

MOST_WAITING = 10_000
"""Searches that wait; further ones are not counted."""

SETUP = "set local synchronous_commit=off;"


class Counted(NamedTuple):
    """The tenant and the model whose mean a search belongs to."""

    tenant_id: UUID
    model_id: int
    model: EmbeddingModel


class SimilarityMeter:
    """Adds the cosine of each search's best hit to the mean of its tenant and model.

    Only a search whose best hit everyone in the tenant may read counts, so that no weight depends on another entry. The
    searches of the last seconds are lost when the process is killed, or the database refuses them.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: dict[Counted, list[tuple[UUID, float]]] = defaultdict(list)
        self._count = 0
        self._writer: asyncio.Task[None] | None = None
        self._wanted = asyncio.Event()

    def count(self, plan: Plan, legs: Legs) -> None:
        """Count a search, if its best semantic hit is the best one that the model finds; returns at once."""
        if legs.semantic is None or not legs.semantic.hits or not _is_typical(plan) or self._count >= MOST_WAITING:
            return
        best, tenant = legs.semantic.hits[0], plan.tenant
        counted = Counted(tenant.tenant_id, tenant.space.model_id, tenant.model)
        self._waiting[counted].append((best.entry_id, best.value))
        self._count += 1
        if self._writer is None or self._writer.done():
            self._wanted.clear()
            self._writer = start_background(self._write())

    async def flush(self) -> None:
        """Wait until the searches before this call are counted."""
        while self._writer is not None and not self._writer.done():
            self._wanted.set()
            await asyncio.wait([self._writer])

    async def close(self) -> None:
        """Count the waiting searches, within a few seconds."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.flush(), 5)

    async def _write(self) -> None:
        act_as(SERVICE)
        while self._waiting:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wanted.wait(), LINGER)
            waiting, self._waiting, self._count = self._waiting, defaultdict(list), 0
            for counted, best in waiting.items():
                await self._add(counted, best)

    async def _add(self, counted: Counted, best: list[tuple[UUID, float]]) -> None:
        try:
            async with self._database.tenant_session(counted.tenant_id, setup=SETUP, aside=True) as session:
                await tenants.add_similarities(session, counted.model_id, counted.model, best, MEMORY)
        except TenantNotFound:
            return
        except Exception as error:  # lost counts must not stop the writer
            log.warning(
                "searches were not counted",
                extra={"tenant_id": str(counted.tenant_id), "searches": len(best)},
                # An unavailable database has already been logged.
                exc_info=None if isinstance(error, DatabaseUnavailable) else error,
            )


def _is_typical(plan: Plan) -> bool:
    """Whether the semantic leg compared a text with all that the caller may read now, as far as the model goes.

    Otherwise a filter, a threshold or a vector of the caller's own decides what the best hit is.
    """
    query, tenant = plan.query, plan.tenant
    return (
        query.query_embedding is None
        and query.as_of is None
        and plan.entry_filter.is_open
        and plan.threshold <= tenant.model.similarity_threshold
    )
