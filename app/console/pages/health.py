"""The health of a tenant, for its admins: usage and limits, feedback, and the change of its model."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

from fastapi import Form, Response
from fastapi.responses import RedirectResponse

from app.auth.principal import Role
from app.console.forms import read_number
from app.console.rendering import CurrentVisit
from app.console.session import console_router
from app.console.words import NAMED
from app.contract.administration import MAX_USAGE_DAYS
from app.contract.models import NewModelChange
from app.knowledge.reembedding.machine import SOURCES, explain_change
from app.web.rendering import usage_table

router = console_router(Role.TENANT_ADMIN)

HOURS = 25
"""The last 24 hours; the first and the last hour are partial."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One hour: two values, the inner one part of or less than the outer one, and their positions in the box."""

    hour: datetime
    x: float
    width: float
    outer: int
    inner: int
    outer_height: float
    inner_height: float


@dataclass(frozen=True, slots=True)
class HourChart:
    """Bars by hour up to `top`, a round number; `labels` are hours of the day with positions from 0 to 100."""

    bars: Sequence[Bar]
    top: int
    labels: Sequence[tuple[str, float]]


def draw_hours(values: Sequence[tuple[datetime, int, int]], now: datetime) -> HourChart:
    """Build the chart from the outer and inner values by hour; missing hours are empty."""
    last = now.replace(minute=0, second=0, microsecond=0)
    hours = [last - timedelta(hours=n) for n in range(HOURS - 1, -1, -1)]
    found = {hour: (outer, inner) for hour, outer, inner in values}
    top = round_up(max((outer for _, outer, _ in values), default=0))
    slot = 100 / HOURS
    bars = [
        Bar(
            hour,
            x=round(place * slot + slot * 0.12, 3),
            width=round(slot * 0.76, 3),
            outer=found[hour][0],
            inner=found[hour][1],
            outer_height=round(100 * found[hour][0] / top, 3),
            inner_height=round(100 * found[hour][1] / top, 3),
        )
        for place, hour in enumerate(hours)
        if hour in found
    ]
    labels = [
        (f"{hour:%H}:00", round(place * slot + slot / 2, 3)) for place, hour in enumerate(hours) if hour.hour % 6 == 0
    ]
    return HourChart(bars, top, labels)


def round_up(value: int) -> int:
    """Round up to 1, 2, 5, 10, 20, 50 and so on."""
    if value <= 1:
        return 1
    power: int = 10 ** math.floor(math.log10(value))
    return next(power * step for step in (1, 2, 5, 10) if power * step >= value)


@router.get("/health")
async def show_health(visit: CurrentVisit) -> Response:
    """Show the tenant's counts, backlog and searches."""
    tenant_id, now = visit.tenant_id, datetime.now(UTC)
    stats = await visit.services.administration.stats(tenant_id, reader=visit.subject)
    hours = stats.searches_by_hour
    return visit.render(
        "pages/admin/health.html",
        stats=stats,
        now=now,
        times=draw_hours([(h.hour, h.p95_ms, h.p50_ms) for h in hours], now),
        counts=draw_hours([(h.hour, h.searches, h.without_results) for h in hours], now),
    )


@router.get("/usage")
async def show_usage(visit: CurrentVisit) -> Response:
    """Show how much of each limit is used, what was used by day, the callers of the last day, and the records."""
    days = await visit.services.administration.usage(visit.tenant_id, None, None, reader=visit.subject)
    stats = await visit.services.administration.stats(visit.tenant_id, reader=visit.subject)
    return visit.render(
        "pages/admin/usage.html",
        limits=[(label, name, stats.limits[name]) for name, label in NAMED["limits"].items()],
        records=[(label, stats.records[name]) for name, label in NAMED["records"].items()],
        days=days[::-1],
        callers=await visit.services.administration.callers(visit.tenant_id, reader=visit.subject),
    )


@router.get("/usage/days.csv")
async def download_usage(visit: CurrentVisit) -> Response:
    """Download the usage by day, of all days that are kept."""
    today = datetime.now(UTC).date()
    first = today - timedelta(days=MAX_USAGE_DAYS - 1)
    days = await visit.services.administration.usage(visit.tenant_id, first, today, reader=visit.subject)
    return usage_table(days, "usage.csv")


@router.get("/feedback")
async def show_feedback(visit: CurrentVisit) -> Response:
    """Show the searches of the last 30 days that found nothing, and the results that callers did not find useful."""
    report = await visit.services.feedback.report(visit.tenant_id, reader=visit.subject)
    return visit.render("pages/admin/feedback.html", report=report)


PAGE = "/console/model"

Action = Literal["start", "rebuild", "switch", "back", "end"]


@router.get("/model")
async def show_model_change(visit: CurrentVisit) -> Response:
    """Show the model change in progress, or forms to start one."""
    change = await visit.services.reembedding.find(visit.tenant_id, reader=visit.subject)
    model = (await visit.services.tenants.context(visit.tenant_id)).model
    is_compared = change is not None and change.comparison is not None and change.comparison.queries > 0
    lines = [] if change is None else explain_change(change, with_comparison=not is_compared)
    return visit.render(
        "pages/admin/model.html",
        change=change,
        model=model,
        lines=lines,
        is_compared=is_compared,
        sources=SOURCES,
        has_other=visit.services.reembedding.has_other_model,
    )


@router.post("/model")
async def act_on_model_change(
    visit: CurrentVisit,
    action: Annotated[Action, Form()],
    rate: Annotated[str, Form()] = "",
    by_hand: Annotated[bool, Form()] = False,
) -> Response:
    """Start, switch or end a model change, or start a rebuild; a start has a rate, and may leave the switch to the
    admin."""
    service, tenant_id, actor = visit.services.reembedding, visit.tenant_id, visit.subject
    match action:
        case "start":
            await service.start(tenant_id, _read_terms(rate, by_hand), actor=actor)
        case "rebuild":
            await service.start(tenant_id, _read_terms(rate), rebuild=True, actor=actor)
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
