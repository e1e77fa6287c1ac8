"""What a tenant's admin sees of the tenant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from app.db import records, statistics
from app.db.session import Database, Row
from app.errors import SearchNotFound
from app.knowledge.paging import Page, page_of
from app.knowledge.tenant_settings import TenantSettings
from app.knowledge.tenants import TenantDirectory


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """Who did what to which things, and when; metadata only."""

    id: UUID
    at: datetime
    actor: str
    action: str
    subject_ids: Sequence[UUID]
    detail: Mapping[str, Any]


class AdministrationService:
    """Counts, settings, receipts and the audit trail of one tenant at a time."""

    def __init__(self, database: Database, tenants: TenantDirectory) -> None:
        self._database = database
        self._tenants = tenants

    async def stats(self, tenant_id: UUID) -> dict[str, Any]:
        """Entries, assets, backlog, model and the last day's searches."""
        self._tenants.forget(tenant_id)
        tenant = await self._tenants.context(tenant_id)
        async with self._database.tenant_session(tenant_id) as session:
            row = await statistics.overview(session)
        return {
            "entries": int(row["entries"]),
            "entries_by_type": row["entries_by_type"],
            "entries_by_language": row["entries_by_language"],
            "assets_by_status": row["assets_by_status"],
            "pending_embeddings": row["pending_embeddings"],
            "jobs": row["jobs"],
            "model": {
                "provider": tenant.model.provider,
                "name": tenant.model.name,
                "dimensions": tenant.model.dimensions,
            },
            "passages": tenant.passages,
            "indexed": tenant.indexed,
            "searches_24h": row["searches_24h"],
            "searches_without_results_24h": row["searches_without_results_24h"],
            "fallback_rate_24h": row["fallback_rate_24h"],
        }

    async def settings(self, tenant_id: UUID) -> TenantSettings:
        """The tenant's settings, defaults filled in."""
        return (await self._tenants.context(tenant_id)).settings

    async def change_settings(
        self, tenant_id: UUID, changes: Mapping[str, Any], *, actor: str
    ) -> TenantSettings:
        """Change some settings; None resets one. Raises InvalidInput naming each field out of range."""
        settings = await self._tenants.change_settings(tenant_id, dict(changes))
        async with self._database.tenant_session(tenant_id) as session:
            await records.write_audit(session, actor, "settings.update", [], {"fields": sorted(changes)})
        return settings

    async def audit(
        self, tenant_id: UUID, *, limit: int = 50, cursor: str | None = None
    ) -> Page[AuditRecord]:
        """The audit trail, newest first. Raises InvalidInput for a bad cursor."""
        async with self._database.tenant_session(tenant_id) as session:

            async def read(before: tuple[datetime, UUID] | None, count: int) -> Sequence[Row]:
                return await records.list_audit(session, before, count)

            page = await page_of(read, limit, cursor, "at")
        items = [
            AuditRecord(r["id"], r["at"], r["actor"], r["action"], r["subject_ids"], r["detail"])
            for r in page.items
        ]
        return Page(items, page.next_cursor)

    async def receipt(self, tenant_id: UUID, search_id: UUID) -> dict[str, Any]:
        """What a search did: its settings, model and ranks. Raises SearchNotFound."""
        async with self._database.tenant_session(tenant_id) as session:
            row = await records.fetch_search(session, search_id)
        if row is None:
            raise SearchNotFound("there is no search with this id, or its receipt has expired")
        receipt = row["receipt"]
        names = ("id", "updated_at", "semantic_rank", "similarity", "keyword_rank", "keyword_score", "score")
        receipt["ranking"] = [
            {k: v for k, v in zip(names, hit, strict=True) if k != "updated_at"} for hit in receipt["ranking"]
        ]
        return {"search_id": search_id, "subject": row["subject"], "at": row["at"], **receipt}
