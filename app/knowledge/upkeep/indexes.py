"""Build and drop the HNSW indexes that large tenants have of their own.

States of `vector_statistics.index_state`, and what happens to the index:

    none → building → ready    the tenant has more passages than the exact limit: an empty index is created, then the
                               vectors are moved into it; new ones go there at once
    ready → none               the tenant has at most half of that, or the index is missing or invalid: searches are
                               exact from then on, and the index is dropped

Each step is a short transaction, so an interrupted build continues where it stopped.
"""

from __future__ import annotations

import logging
import math
import time
from uuid import UUID

import asyncpg

from app.db.database import Database
from app.db.queries import embeddings as db
from app.errors import DatabaseUnavailable
from app.knowledge.tenants.directory import TenantDirectory
from app.telemetry.tracing import span

log = logging.getLogger("app.knowledge.upkeep")

BATCH = 500
"""Vectors to move in one transaction; each takes some milliseconds."""

BUSY_SECONDS = 5.0
"""Pause while another tenant's index is built, or other transactions hold the partition."""


class VectorIndexes:
    """Builds and drops the indexes of tenants."""

    def __init__(self, database: Database, tenants: TenantDirectory, *, exact_limit: int) -> None:
        self._database = database
        self._tenants = tenants
        self._exact_limit = exact_limit

    async def build_or_drop(self, tenant_id: UUID, model_id: int, *, seconds: float = math.inf) -> float | None:
        """Build the tenant's index for a model, or drop it, as its size requires; stops after `seconds`.

        Returns None when there is nothing left to do, else the seconds to wait before the next call.
        """
        end = time.monotonic() + seconds
        try:
            with span("vector_index", tenant_id=str(tenant_id), model_id=model_id):
                return await self._build_or_drop(tenant_id, model_id, end)
        except DatabaseUnavailable as error:
            if not isinstance(error.__cause__, asyncpg.LockNotAvailableError):
                raise
            return BUSY_SECONDS
        finally:
            self._tenants.forget(tenant_id)

    async def drop_strays(self, tenant_id: UUID) -> None:
        """Drop the tenant's indexes for models without vectors, unless the model is in use."""
        await db.drop_strays(self._database, tenant_id)

    async def drop_of_deleted(self) -> None:
        """Drop the indexes that were in use when their tenant was deleted. Raises DatabaseUnavailable."""
        owners: list[UUID] = []
        for node in await self._database.holders():
            async with node.platform_session() as session:
                owners += await db.list_owners(session)
        async with self._database.platform_session() as session:
            owners = await db.find_deleted(session, owners)
        for tenant_id in owners:
            await db.drop_strays(self._database, tenant_id)

    async def _build_or_drop(self, tenant_id: UUID, model_id: int, end: float) -> float | None:
        async with self._database.tenant_session(tenant_id) as session:
            found = await db.find_index(session, model_id)
        needed = found.passages > (self._exact_limit if found.state == "none" else self._exact_limit // 2)
        if found.state != "none" and not (needed and found.valid):
            async with self._database.tenant_session(tenant_id) as session:
                await db.give_up_index(session, model_id)
            self._tenants.forget(tenant_id)
            found = db.FoundIndex(found.passages, "none", found.valid)
            log.info("vector index given up", extra={"tenant_id": str(tenant_id), "model_id": model_id})
        if found.state == "none":
            if not await self._clear(tenant_id, model_id, end, exists=found.valid is not None):
                return 0.0
            if not needed or found.passages <= self._exact_limit:
                return None
            # Two transactions: a writer may hold the counter's row and wait for the lock of the first.
            async with self._database.tenant_session(tenant_id) as session:
                await db.create_index(session, model_id)
            async with self._database.tenant_session(tenant_id) as session:
                await db.start_index(session, model_id)
        return await self._fill(tenant_id, model_id, end)

    async def _clear(self, tenant_id: UUID, model_id: int, end: float, *, exists: bool) -> bool:
        """Drop the index, then mark all vectors as outside; return whether all are."""
        if exists:
            async with self._database.tenant_session(tenant_id) as session:
                await db.drop_index(session, model_id)
        while True:
            async with self._database.tenant_session(tenant_id) as session:
                cleared = await db.clear_batch(session, model_id, BATCH)
            if not cleared:
                return True
            if time.monotonic() >= end:
                return False

    async def _fill(self, tenant_id: UUID, model_id: int, end: float) -> float | None:
        while True:
            async with self._database.tenant_session(tenant_id) as session:
                moved = await db.move_batch(session, model_id, BATCH)
            if moved is None:
                return BUSY_SECONDS
            if not moved:
                break
            if time.monotonic() >= end:
                return 0.0
        async with self._database.tenant_session(tenant_id) as session:
            ready = await db.finish_index(session, model_id)
        log.info("vectors indexed", extra={"tenant_id": str(tenant_id), "ready": ready})
        return None
