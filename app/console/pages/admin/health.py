"""The health of a tenant, for its admins."""

from __future__ import annotations

from datetime import UTC, datetime

from fastapi import Request, Response

from app.auth.principal import Role
from app.console.parts.charts import draw_hours
from app.console.rendering import render
from app.console.session import console_router
from app.web.access import CurrentCaller, CurrentServices

router = console_router(Role.TENANT_ADMIN)

KINDS = {
    "ingest_asset": "Documents to process",
    "embed_entries": "Entries to embed",
    "refresh_statistics": "Word statistics to refresh",
    "index_vectors": "Vectors to index",
    "reembed": "Model change",
    "match_changes": "Changes to match with subscriptions",
    "deliver_webhooks": "Webhook messages to send",
}


@router.get("/health")
async def show_health(request: Request, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Show the tenant's counts, backlog and searches."""
    tenant_id, now = caller.tenant_id, datetime.now(UTC)
    stats = await services.administration.stats(tenant_id, reader=caller.subject)
    hours = stats.searches_by_hour
    return render(
        request,
        "pages/admin/health.html",
        stats=stats,
        now=now,
        times=draw_hours([(h.hour, h.p95_ms, h.p50_ms) for h in hours], now),
        counts=draw_hours([(h.hour, h.searches, h.without_results) for h in hours], now),
        kinds=KINDS,
    )
