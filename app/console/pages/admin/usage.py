"""What a tenant and its callers use, and the limits, for its admins."""

from __future__ import annotations

from fastapi import Request, Response

from app.auth.principal import Role
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
    "former_versions": "Former versions",
}


@router.get("/usage")
async def show_usage(request: Request, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Show how much of each limit is used, the callers of the last day, and the records."""
    stats = await services.administration.stats(caller.tenant_id, reader=caller.subject)
    return render(
        request,
        "pages/admin/usage.html",
        limits=[(label, name, stats.limits[name]) for name, label in LIMITS.items()],
        records=[(label, stats.records[name]) for name, label in RECORDS.items()],
        callers=await services.administration.callers(caller.tenant_id, reader=caller.subject),
    )
