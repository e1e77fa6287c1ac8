"""Bounds of the records that grow by calls alone; the oldest are removed."""

from __future__ import annotations

import logging
from uuid import UUID

from app.db.database import Database
from app.db.queries.tenants import records
from app.knowledge.tenants.directory import TenantDirectory

log = logging.getLogger("app.knowledge.upkeep")

MOST_FEEDBACK = 1_000_000
"""Judgements of a tenant."""
MOST_ENDED_DELIVERIES = 100_000
"""Webhook messages of a tenant that were delivered, given up or overtaken."""
MOST_AUDIT = 2_000_000
"""Rows of the audit trail of a tenant, and of the platform's."""
MOST_STEPS = 20
"""Steps of one sweep, so that no tenant holds up the others."""


class RecordTrimmer:
    """Removes the oldest records of a tenant over the bounds."""

    def __init__(self, database: Database, tenants: TenantDirectory, *, most_audit: int = MOST_AUDIT) -> None:
        """`most_audit` rows of each audit trail are kept, at least a million; 0 means all."""
        self._database = database
        self._tenants = tenants
        self._most_audit = most_audit

    async def trim(self, tenant_id: UUID) -> None:
        """Trim the records of one tenant. Raises TenantNotFound and DatabaseUnavailable."""
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
        if self._most_audit:
            async with self._database.tenant_session(tenant_id) as session:
                await records.prune_audit(session, self._most_audit)

    async def trim_platform(self) -> None:
        """Trim the platform's audit trail. Raises DatabaseUnavailable."""
        if self._most_audit:
            async with self._database.platform_session() as session:
                await records.prune_audit(session, self._most_audit)
