"""Bounds of the records that grow by calls alone; the oldest are removed."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from uuid import UUID

from app.db.database import Database
from app.db.queries.tenants import callers, records
from app.knowledge.permissions.overview import ACCESS_KEPT
from app.knowledge.subscriptions.matching import MAX_WAITING
from app.knowledge.subscriptions.saved_searches import MAX_OF_A_TENANT
from app.knowledge.subscriptions.service import MAX_SUBSCRIPTIONS
from app.knowledge.tenants.directory import TenantDirectory
from app.knowledge.versions.service import VersionService

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
        bounds: dict[records.Trimmed, int] = {
            "receipts": limits.receipts,
            "feedback": MOST_FEEDBACK,
            "deliveries": MOST_ENDED_DELIVERIES,
        }
        for name, most in bounds.items():
            dropped = 0
            for _ in range(MOST_STEPS if most else 0):
                async with self._database.tenant_session(tenant_id) as session:
                    removed = await records.drop_oldest(session, name, most)
                dropped += removed
                if removed < records.BATCH:
                    break
            if dropped:
                log.info(
                    "records over the bound removed",
                    extra={"tenant_id": str(tenant_id), "records": name, "rows": dropped},
                )
        async with self._database.tenant_session(tenant_id) as session:
            await callers.forget_callers(session, ACCESS_KEPT)
        await self._versions.prune(tenant_id)
        if self._most_audit:
            async with self._database.shared_session(tenant_id) as session:
                await records.prune_audit(session, self._most_audit)

    async def trim_platform(self) -> None:
        """Trim the platform's audit trail. Raises DatabaseUnavailable."""
        if self._most_audit:
            async with self._database.platform_session() as session:
                await records.prune_audit(session, self._most_audit)
