"""Keeping a tenant's statistics and index in step with its growth."""

from __future__ import annotations

import logging
import math
import time
from datetime import timedelta
from uuid import UUID

from app.db.database import Database
from app.db.queries.knowledge import embeddings as vectors
from app.db.queries.knowledge import entries
from app.db.queries.search import feedback, records, statistics
from app.db.queries.tenants import usage
from app.db.queries.work.jobs import is_statements_fault
from app.errors import DatabaseUnavailable, TenantNotFound
from app.knowledge.feedback.service import REPORTED
from app.knowledge.queue.jobs import JobQueue
from app.knowledge.search.journal.receipts import KEPT
from app.knowledge.search.legs.semantic import EXACT_LIMIT
from app.knowledge.subscriptions.deliveries import DeliveryService
from app.knowledge.tenants.directory import TenantDirectory

log = logging.getLogger("app.knowledge.upkeep")

LEAST_ENTRIES = 1_000
"""Changed entries below which counting words at search time is cheap enough."""

INDEX_BATCH = 500
PURGE_BATCH = 500
MOST_PURGES = 20
ACTOR = "upkeep"
"""Who has done it, in the audit trail."""

TOKENS_KEPT_DAYS = 31
HEAVY = timedelta(minutes=15)
HEAVY_SETUP = "set local work_mem='64MB';"


class Upkeep:
    """Notices what a tenant's growth calls for, and does it as jobs."""

    def __init__(
        self,
        database: Database,
        tenants: TenantDirectory,
        jobs: JobQueue,
        *,
        exact_limit: int = EXACT_LIMIT,
        deliveries: DeliveryService | None = None,
    ) -> None:
        self._database = database
        self._deliveries = deliveries
        self._tenants = tenants
        self._jobs = jobs
        self._exact_limit = exact_limit

    async def check(self, tenant_id: UUID, *, delay: float = 0.0) -> None:
        """Queue the upkeep that is due for one tenant; word statistics to be made in `delay` seconds."""
        async with self._database.tenant_session(tenant_id) as session:
            due = await statistics.due_work(
                session, least_entries=LEAST_ENTRIES, exact_limit=self._exact_limit
            )
            if due["lexemes"]:
                await self._jobs.enqueue(session, "refresh_statistics", "lexemes", delay=delay)
            if due["vectors"]:
                await self._jobs.enqueue(session, "index_vectors", "model")
            if due["embeddings"]:
                await self._jobs.enqueue(session, "embed_entries", "entries", delay=30)
            if due["model_change"]:
                await self._jobs.enqueue(session, "reembed", "model")
        if due["lexemes"] or due["vectors"] or due["model_change"]:
            self._jobs.wake()

    async def sweep(self) -> None:
        """Check every tenant, and forget what has been kept of searches and deliveries for long enough."""
        for tenant in await self._tenants.list_tenants():
            try:
                await self._sweep_tenant(tenant.id)
            except TenantNotFound:
                continue  # deleted since the list was read
            except DatabaseUnavailable as error:
                if not is_statements_fault(error):
                    raise
                log.warning("a tenant's sweep took too long", extra={"tenant_id": str(tenant.id)})
            except Exception:  # one tenant's failure keeps no other from its turn
                log.exception("a tenant's sweep failed", extra={"tenant_id": str(tenant.id)})

    async def _sweep_tenant(self, tenant_id: UUID) -> None:
        await self.check(tenant_id)
        await self.purge_expired(tenant_id)
        async with self._database.tenant_session(tenant_id) as session:
            await records.purge_searches(session, KEPT, REPORTED)
            await usage.purge_tokens(session, TOKENS_KEPT_DAYS)
            await feedback.erase_queries(session)
        if self._deliveries is not None:
            await self._deliveries.tidy(tenant_id)

    async def purge_expired(self, tenant_id: UUID) -> int:
        """Remove entries that expired as long ago as the tenant has set, if it has; returns how many.

        What is left after MOST_PURGES steps is for the next sweep, so that no tenant holds up the others.
        """
        purged = 0
        for _ in range(MOST_PURGES):
            async with self._database.tenant_session(tenant_id) as session:
                ids = await entries.purge_expired(session, PURGE_BATCH)
                if ids:
                    await records.write_audit(session, ACTOR, "entry.purge", ids, {"entries": len(ids)})
            purged += len(ids)
            if len(ids) < PURGE_BATCH:
                break
        if purged:
            log.info("expired entries purged", extra={"tenant_id": str(tenant_id), "entries": purged})
        return purged

    async def refresh_statistics(self, tenant_id: UUID) -> None:
        """Count the tenant's frequent words anew."""
        async with self._database.tenant_session(tenant_id, setup=HEAVY_SETUP, background=HEAVY) as session:
            await statistics.refresh_lexemes(session)

    async def index_vectors(
        self, tenant_id: UUID, *, model_id: int | None = None, seconds: float = math.inf
    ) -> bool:
        """Move a tenant that outgrew exact search into the HNSW index of its model, or another, in small steps.

        Goes on for `seconds`; returns whether all is done.
        """
        end = time.monotonic() + seconds
        if model_id is None:
            model_id = (await self._tenants.context(tenant_id)).space.model_id
        async with self._database.tenant_session(tenant_id) as session:
            await vectors.start_index(session, model_id, self._exact_limit)
        while True:
            async with self._database.tenant_session(tenant_id) as session:
                moved = await vectors.index_batch(session, model_id, INDEX_BATCH)
            if not moved:
                break
            if time.monotonic() >= end:
                return False
        async with self._database.tenant_session(tenant_id) as session:
            ready = await vectors.finish_index(session, model_id)
        self._tenants.forget(tenant_id)
        log.info("vectors indexed", extra={"tenant_id": str(tenant_id), "ready": ready})
        return True
