"""Delete all entries and assets of a tenant before an import."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from app.db.database import Database
from app.db.queries.knowledge import transfer as db
from app.db.queries.tenants import audit
from app.db.queries.work import jobs as queue

BATCH = 500
CLEARING = timedelta(minutes=10)


async def clear_tenant(database: Database, tenant_id: UUID, actor: str) -> tuple[int, int]:
    """Delete assets with their chunks, then entries; return how many of each. Settings, saved searches and the audit
    trail stay. Each batch is a transaction with its audit record. Raises DatabaseUnavailable."""
    counts = {"asset": 0, "entry": 0}
    for part, size in (("asset", 1), ("entry", BATCH)):
        while True:
            async with database.tenant_session(tenant_id, background=CLEARING) as session:
                if part == "asset":
                    ids = await db.list_some_assets(session, size)
                    # The worker locks the job first and then the asset.
                    for asset_id in ids:
                        await queue.cancel_jobs(session, "ingest_asset", str(asset_id))
                    await db.clear_assets(session, ids)
                else:
                    ids = await db.clear_entries(session, size)
                if ids:
                    await audit.write_audit(
                        session, actor, "tenant.import", ids, {"part": "clear", part: len(ids)}
                    )
            counts[part] += len(ids)
            if not ids:
                break
    return counts["asset"], counts["entry"]
