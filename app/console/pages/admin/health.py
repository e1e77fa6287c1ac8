"""The health of a tenant, for its admins: usage and limits, feedback, and the change of its model."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import Form, Request, Response
from fastapi.responses import RedirectResponse

from app.auth.principal import Role
from app.console.parts.charts import draw_hours
from app.console.parts.search.form import read_number
from app.console.rendering import render
from app.console.session import console_router
from app.contract.models import NewModelChange
from app.knowledge.reembedding.change import SOURCES, explain_change
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


@router.get("/feedback")
async def show_feedback(request: Request, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Show the searches of the last 30 days that found nothing, and the results that callers did not find useful."""
    report = await services.feedback.report(caller.tenant_id, reader=caller.subject)
    return render(request, "pages/admin/feedback.html", report=report)


PAGE = "/console/model"

Action = Literal["start", "rebuild", "switch", "back", "end"]


@router.get("/model")
async def show_model_change(request: Request, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Show the model change in progress, or forms to start one."""
    change = await services.reembedding.find(caller.tenant_id, reader=caller.subject)
    model = (await services.tenants.context(caller.tenant_id)).model
    is_compared = change is not None and change.comparison is not None and change.comparison.queries > 0
    lines = [] if change is None else explain_change(change, with_comparison=not is_compared)
    return render(
        request,
        "pages/admin/model.html",
        change=change,
        model=model,
        lines=lines,
        is_compared=is_compared,
        sources=SOURCES,
        has_other=services.reembedding.has_other_model,
    )


@router.post("/model")
async def act_on_model_change(
    caller: CurrentCaller,
    services: CurrentServices,
    action: Annotated[Action, Form()],
    rate: Annotated[str, Form()] = "",
    by_hand: Annotated[bool, Form()] = False,
) -> Response:
    """Start, switch or end a model change, or start a rebuild; a start has a rate, and may leave the switch to the
    admin."""
    service, tenant_id, actor = services.reembedding, caller.tenant_id, caller.subject
    match action:
        case "start":
            await service.start(tenant_id, _read_terms(rate, by_hand), actor=actor)
        case "rebuild":
            await service.rebuild(tenant_id, _read_terms(rate), actor=actor)
        case "switch" | "back":
            await service.switch(tenant_id, back=action == "back", actor=actor)
        case "end":
            await service.end(tenant_id, actor=actor)
    return RedirectResponse(PAGE, 303)


def _read_terms(rate: str, by_hand: bool = False) -> NewModelChange:
    """The terms of a start. Raises InvalidInput."""
    given: dict[str, Any] = {"rate": read_number(rate.strip(), int)} if rate.strip() else {}
    if by_hand:
        given["switch_at_overlap"] = None
    return NewModelChange(**given)
