"""Refresh word statistics and build a vector index when a tenant has grown enough."""

from __future__ import annotations

import math
from datetime import timedelta
from uuid import UUID

from app.db.database import Database
from app.db.queries import statistics
from app.knowledge.queue import JobQueue
from app.knowledge.search.plan import EXACT_LIMIT
from app.knowledge.tenants.directory import TenantDirectory
from app.knowledge.upkeep.indexes import VectorIndexes

LEAST_ENTRIES = 1_000
"""Number of changed entries below which it is cheap enough to count words at search time."""

HEAVY = timedelta(minutes=15)
HEAVY_SETUP = "set local work_mem='64MB';"


class Upkeep:
    """Finds out which upkeep is due for a tenant, queues it as jobs, and runs it."""

    def __init__(
        self,
        database: Database,
        tenants: TenantDirectory,
        jobs: JobQueue,
        *,
        exact_limit: int = EXACT_LIMIT,
    ) -> None:
        self._database = database
        self._tenants = tenants
        self._jobs = jobs
        self._exact_limit = exact_limit
        self.indexes = VectorIndexes(database, tenants, exact_limit=exact_limit)

    async def check(self, tenant_id: UUID, *, delay: float = 0.0) -> None:
        """Queue the upkeep that is due for one tenant, word statistics with a delay of `delay` seconds."""
        async with self._database.tenant_session(tenant_id) as session:
            due = await statistics.due_work(session, least_entries=LEAST_ENTRIES, exact_limit=self._exact_limit)
            if due.lexemes:
                await self._jobs.enqueue(session, "refresh_statistics", "lexemes", delay=delay)
            if due.vectors:
                await self._jobs.enqueue(session, "index_vectors", "model")
            if due.embeddings:
                await self._jobs.enqueue(session, "embed_entries", "entries", delay=30)
            if due.model_change:
                await self._jobs.enqueue(session, "reembed", "model")
        if due.lexemes or due.vectors or due.model_change:
            self._jobs.wake()

    async def refresh_statistics(self, tenant_id: UUID) -> None:
        """Recount the tenant's frequent words."""
        async with self._database.tenant_session(tenant_id, setup=HEAVY_SETUP, background=HEAVY) as session:
            await statistics.refresh_lexemes(session)

    async def index_vectors(
        self, tenant_id: UUID, *, model_id: int | None = None, seconds: float = math.inf
    ) -> float | None:
        """Build or drop the tenant's own index of the vectors of its model, or of `model_id`; stops after `seconds`.

        Returns None when there is nothing left to do, else the seconds to wait before the next call.
        """
        if model_id is None:
            model_id = (await self._tenants.context(tenant_id)).space.model_id
            await self.indexes.drop_strays(tenant_id)
        return await self.indexes.build_or_drop(tenant_id, model_id, seconds=seconds)
