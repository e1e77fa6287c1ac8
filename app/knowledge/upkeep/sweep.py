"""What is done for every tenant from time to time: what is due is queued, what was kept for long enough is removed."""

from __future__ import annotations

import logging
from uuid import UUID

from app.db.database import Database
from app.db.queries.knowledge import entries
from app.db.queries.search import feedback, receipts
from app.db.queries.tenants import audit, usage
from app.db.queries.work.jobs import is_statements_fault
from app.errors import DatabaseUnavailable, TenantNotFound
from app.knowledge.feedback.service import REPORTED
from app.knowledge.search.journal.receipts import KEPT
from app.knowledge.subscriptions.deliveries import DeliveryService
from app.knowledge.tenants.directory import TenantDirectory
from app.knowledge.upkeep.growth import Upkeep

log = logging.getLogger("app.knowledge.upkeep")

PURGE_BATCH = 500
MOST_PURGES = 20
ACTOR = "upkeep"
"""Who has done it, in the audit trail."""

TOKENS_KEPT_DAYS = 31


class Sweep:
    """Goes from tenant to tenant."""

    def __init__(
        self, database: Database, tenants: TenantDirectory, upkeep: Upkeep, deliveries: DeliveryService
    ) -> None:
        self._database = database
        self._tenants = tenants
        self._upkeep = upkeep
        self._deliveries = deliveries

    async def run(self) -> None:
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
        await self._upkeep.check(tenant_id)
        await self.purge_expired(tenant_id)
        async with self._database.tenant_session(tenant_id) as session:
            await receipts.purge_searches(session, KEPT, REPORTED)
            await usage.purge_tokens(session, TOKENS_KEPT_DAYS)
            await feedback.erase_queries(session)
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
                    await audit.write_audit(session, ACTOR, "entry.purge", ids, {"entries": len(ids)})
            purged += len(ids)
            if len(ids) < PURGE_BATCH:
                break
        if purged:
            log.info("expired entries purged", extra={"tenant_id": str(tenant_id), "entries": purged})
        return purged
