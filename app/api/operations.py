"""Health, metrics, and the pages that the `type` of a problem refers to."""

import asyncio
import time
from html import escape

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse
from prometheus_client import CONTENT_TYPE_LATEST

from app.contract.problems import PATH, TYPES
from app.db.schema.catalog import check_readiness
from app.errors import DatabaseUnavailable
from app.hosts import is_loopback
from app.web.access import NamedRoute, Parts
from app.web.monitoring import Observation
from app.web.problems import problem_response, problems, respond_to, title_of
from app.web.rendering import json_response

router = APIRouter(tags=["operations"], route_class=NamedRoute)

READINESS_SECONDS = 2.0
"""Time limit of a readiness check; the caller decides quickly where the next requests go."""

FORWARDED = (
    *("forwarded", "via", "x-forwarded-", "x-real-ip", "x-original-", "x-client-ip", "x-cluster-client-ip"),
    *("true-client-ip", "cf-", "x-envoy-", "x-amzn-"),
)
"""Prefixes of the headers with which a proxy marks forwarded requests."""


@router.get("/healthz", summary="Check that the process answers", response_model=dict[str, str])
async def healthz() -> Response:
    """Check that the process answers; checks nothing else."""
    return json_response({"status": "ok"})


@router.get(
    "/readyz", summary="Check that requests can be served", response_model=dict[str, str], responses=problems(503)
)
async def readyz(request: Request) -> Response:
    """Check that requests can be served: the database answers, it has the migrations of this version, and the service
    is not shutting down."""
    if request.app.state.stopping:
        return problem_response(
            503, "the service is shutting down", kind=TYPES["shutting-down"], headers={"Retry-After": "1"}
        )
    parts: Parts = request.app.state.parts
    database, asked = parts.services.database, time.monotonic()
    try:
        async with asyncio.timeout(READINESS_SECONDS):
            await check_readiness(database)
    except TimeoutError:
        # Where only the connections are busy, other instances would get the load of this one.
        if not database.has_answered_since(asked):
            return respond_to(DatabaseUnavailable("the database does not answer in time"))
    except DatabaseUnavailable as error:
        return respond_to(error)
    return json_response({"status": "ready"})


@router.get("/metrics", include_in_schema=False)
async def metrics(request: Request) -> Response:
    """Get Prometheus metrics; on this port only for loopback callers."""
    parts: Parts = request.app.state.parts
    if parts.metrics_apart or not _is_local(request):
        return problem_response(404, "there is nothing at this path")
    observation: Observation = request.app.state.observation
    return Response(await observation.render(), media_type=CONTENT_TYPE_LATEST)


def _is_local(request: Request) -> bool:
    # Behind a proxy on the same machine every caller comes from there. nginx marks nothing by default, but then speaks
    # HTTP/1.0.
    if any(name.startswith(FORWARDED) for name in request.headers) or request.scope["http_version"] == "1.0":
        return False
    return request.client is None or is_loopback(request.client.host)


problem_router = APIRouter(prefix=PATH, include_in_schema=False)

PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>{title}</title></head>
<body>
<h1>{title}</h1>
{body}
</body>
</html>
"""


@problem_router.get("")
async def list_problem_types() -> Response:
    """List every type of problem."""
    items = "\n".join(
        f'<li><a href="{kind.uri}">{kind.name}</a> ({kind.status}): {escape(kind.meaning)}</li>'
        for kind in TYPES.values()
    )
    return _page("Types of problems", f"<ul>\n{items}\n</ul>")


@problem_router.get("/{name}")
async def show_problem_type(name: str) -> Response:
    """Show the meaning and the remedy of one type."""
    kind = TYPES.get(name)
    if kind is None:
        return problem_response(404, "there is nothing at this path")
    body = (
        f"<p>Status {kind.status}, {title_of(kind.status)}.</p>\n<p>{escape(kind.meaning)}</p>\n"
        f'<p>{escape(kind.remedy)}</p>\n<p><a href="{PATH}">All types</a></p>'
    )
    return _page(kind.name, body)


def _page(title: str, body: str) -> Response:
    return HTMLResponse(PAGE.format(title=escape(title), body=body))
