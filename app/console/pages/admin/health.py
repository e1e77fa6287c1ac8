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

LIMITS = {
    "entries": "Entries",
    "bytes": "Files and text",
    "receipts": "Receipts of searches",
    "embedding_tokens_per_day": "Embedding tokens today (UTC)",
    "requests_per_minute": "Requests per minute, this process",
    "concurrent_searches": "Concurrent searches, this process",
}
RECORDS = {
    "receipts": "Receipts of searches",
    "feedback": "Feedback",
    "audit": "Audit trail",
    "saved_searches": "Saved searches",
    "deliveries": "Webhook messages",
}
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
    """Show the tenant's counts, backlog, searches and limits."""
    tenant_id, now = caller.tenant_id, datetime.now(UTC)
    stats = await services.administration.stats(tenant_id, reader=caller.subject)
    report = await services.feedback.report(tenant_id, reader=caller.subject)
    hours = stats.searches_by_hour
    return render(
        request,
        "pages/admin/health.html",
        stats=stats,
        report=report,
        now=now,
        times=draw_hours([(h.hour, h.p95_ms, h.p50_ms) for h in hours], now),
        counts=draw_hours([(h.hour, h.searches, h.without_results) for h in hours], now),
        limits=[(label, name, stats.limits[name]) for name, label in LIMITS.items()],
        records=[(label, stats.records[name]) for name, label in RECORDS.items()],
        kinds=KINDS,
    )
