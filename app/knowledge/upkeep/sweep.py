"""Periodic upkeep of every tenant: queue due jobs, remove data past its retention."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from uuid import UUID

from app.db.database import Database
from app.db.principals import acting_for_service
from app.db.queries import audit, entries, feedback, receipts, revocations, statistics, tenants
from app.db.queries.jobs import is_statements_fault
from app.errors import DatabaseUnavailable, TenantNotFound
from app.knowledge.feedback import REPORTED, WeightTuner
from app.knowledge.permissions.overview import ACCESS_KEPT
from app.knowledge.search.receipts import KEPT
from app.knowledge.subscriptions.deliveries import DeliveryService
from app.knowledge.subscriptions.matching import MAX_WAITING
from app.knowledge.subscriptions.saved_searches import MAX_OF_A_TENANT
from app.knowledge.subscriptions.service import MAX_SUBSCRIPTIONS
from app.knowledge.tenants.directory import TenantDirectory
from app.knowledge.upkeep.growth import Upkeep
from app.knowledge.versions import VersionService

log = logging.getLogger("app.knowledge.upkeep")

MOST_FEEDBACK = 1_000_000
"""Judgements of a tenant."""
MOST_ENDED_DELIVERIES = 100_000
"""Webhook messages of a tenant that were delivered, given up or overtaken."""
MOST_AUDIT = 2_000_000
"""Rows of the audit trail of a tenant, and of the platform's."""
LEAST_AUDIT = 1_000_000
"""The newest rows of a trail, which `tenancy.prune_audit` never removes."""
MOST_STEPS = 20
"""Steps of one sweep, so that no tenant holds up the others."""


class RecordTrimmer:
    """Removes the oldest records of a tenant over the bounds."""

    def __init__(
        self,
        database: Database,
        tenants: TenantDirectory,
        versions: VersionService,
        *,
        most_audit: int = MOST_AUDIT,
    ) -> None:
        """`most_audit` rows of each audit trail are kept, at least a million; 0 means all."""
        self._database = database
        self._tenants = tenants
        self._versions = versions
        self._most_audit = most_audit

    @property
    def bounds(self) -> Mapping[str, int]:
        """The bounds of a tenant's records that are not among its limits, by name; 0 means unlimited."""
        return {
            "audit": max(self._most_audit, LEAST_AUDIT) if self._most_audit else 0,
            "feedback": MOST_FEEDBACK,
            "saved_searches": MAX_OF_A_TENANT,
            "former_versions": self._versions.most,
            "deliveries": MOST_ENDED_DELIVERIES + MAX_SUBSCRIPTIONS * MAX_WAITING,
        }

    async def trim(self, tenant_id: UUID) -> None:
        """Trim the records of one tenant, and remove former versions whose period has ended.

        Raises TenantNotFound and DatabaseUnavailable.
        """
        limits = (await self._tenants.context(tenant_id)).limits
        bounds: dict[statistics.Trimmed, int] = {
            "receipts": limits.receipts,
            "feedback": MOST_FEEDBACK,
            "deliveries": MOST_ENDED_DELIVERIES,
        }
        for name, most in bounds.items():
            dropped = 0
            for _ in range(MOST_STEPS if most else 0):
                async with self._database.tenant_session(tenant_id) as session:
                    removed = await statistics.drop_oldest(session, name, most)
                dropped += removed
                if removed < statistics.BATCH:
                    break
            if dropped:
                log.info(
                    "records over the bound removed",
                    extra={"tenant_id": str(tenant_id), "records": name, "rows": dropped},
                )
        async with self._database.tenant_session(tenant_id) as session:
            await tenants.forget_callers(session, ACCESS_KEPT)
        await self._versions.prune(tenant_id)
        if self._most_audit:
            async with self._database.shared_session(tenant_id) as session:
                await statistics.prune_audit(session, self._most_audit)

    async def trim_platform(self) -> None:
        """Trim the platform's audit trail. Raises DatabaseUnavailable."""
        if self._most_audit:
            async with self._database.platform_session() as session:
                await statistics.prune_audit(session, self._most_audit)


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
            await tenants.purge_tokens(session, TOKENS_KEPT_DAYS)
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
