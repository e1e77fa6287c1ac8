"""Periodic upkeep of every tenant: queue due jobs, remove data past its retention."""

from __future__ import annotations

import logging
from uuid import UUID

from app.db.database import Database
from app.db.principals import acting_for_service
from app.db.queries.knowledge import entries
from app.db.queries.search import feedback, receipts
from app.db.queries.tenants import audit, revocations, usage
from app.db.queries.work.jobs import is_statements_fault
from app.errors import DatabaseUnavailable, TenantNotFound
from app.knowledge.feedback import REPORTED, WeightTuner
from app.knowledge.search.journal.receipts import KEPT
from app.knowledge.subscriptions.deliveries import DeliveryService
from app.knowledge.tenants.directory import TenantDirectory
from app.knowledge.upkeep.growth import Upkeep
from app.knowledge.upkeep.records import RecordTrimmer

log = logging.getLogger("app.knowledge.upkeep")

PURGE_BATCH = 500
MOST_PURGES = 20
ACTOR = "upkeep"
"""The actor in the audit trail."""

TOKENS_KEPT_DAYS = 31


class Sweep:
    """Sweeps all tenants, one after another."""

    def __init__(
        self,
        database: Database,
        tenants: TenantDirectory,
        upkeep: Upkeep,
        deliveries: DeliveryService,
        trimmer: RecordTrimmer,
        tuner: WeightTuner,
    ) -> None:
        self._database = database
        self._tenants = tenants
        self._upkeep = upkeep
        self._deliveries = deliveries
        self._trimmer = trimmer
        self._tuner = tuner

    async def run(self) -> None:
        """Check every tenant, and remove its expired entries and old records of searches, tokens and deliveries.

        The oldest records over the bounds are removed too, and the vector indexes of deleted tenants. Weights that
        suit a tenant's judged queries better are applied.
        """
        for tenant in await self._tenants.list_tenants():
            try:
                with acting_for_service():
                    await self._sweep_tenant(tenant.id)
            except TenantNotFound:
                continue  # deleted since the list was read
            except DatabaseUnavailable as error:
                if not is_statements_fault(error):
                    raise
                log.warning("a tenant's sweep took too long", extra={"tenant_id": str(tenant.id)})
            except Exception:  # one tenant's failure must not stop the sweep
                log.exception("a tenant's sweep failed", extra={"tenant_id": str(tenant.id)})
        await self._trimmer.trim_platform()
        await self._upkeep.indexes.drop_of_deleted()

    async def _sweep_tenant(self, tenant_id: UUID) -> None:
        await self._upkeep.check(tenant_id)
        await self.purge_expired(tenant_id)
        async with self._database.tenant_session(tenant_id) as session:
            await receipts.purge_searches(session, KEPT, REPORTED)
            await usage.purge_tokens(session, TOKENS_KEPT_DAYS)
            await revocations.purge_revocations(session)
            await feedback.erase_queries(session)
        await self._trimmer.trim(tenant_id)
        await self._deliveries.tidy(tenant_id)
        await self._tuner.tune(tenant_id)

    async def purge_expired(self, tenant_id: UUID) -> int:
        """Remove entries that expired longer ago than the tenant's setting, if it has one; return their number.

        After MOST_PURGES steps the rest is left to the next sweep, so that no tenant holds up the others.
        """
        purged = 0
        for _ in range(MOST_PURGES):
            async with self._database.tenant_session(tenant_id) as session:
                ids = await entries.purge_expired(session, PURGE_BATCH)
                if ids:
                    await audit.write_audit(session, ACTOR, "entry.purge", ids, {"entries": len(ids)})
            purged += len(ids)
            if len(ids) < PURGE_BATCH:
                break
        if purged:
            log.info("expired entries purged", extra={"tenant_id": str(tenant_id), "entries": purged})
        return purged
