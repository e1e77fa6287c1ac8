"""Health, metrics, and the interactive documentation."""

from __future__ import annotations

import ipaddress
from pathlib import Path

import fastapi_offline
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.staticfiles import StaticFiles
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from app.api.dependencies import Parts
from app.api.problems import problem_response, problems
from app.api.rendering import json_response
from app.errors import DatabaseUnavailable

router = APIRouter(tags=["operations"])

DOCS_FILES = Path(fastapi_offline.__file__).parent / "static"


@router.get("/healthz", operation_id="healthz", response_model=dict[str, str])
async def healthz() -> Response:
    """Whether the process answers; touches nothing else."""
    return json_response({"status": "ok"})


@router.get("/readyz", operation_id="readyz", response_model=dict[str, str], responses=problems(503))
async def readyz(request: Request) -> Response:
    """Whether requests can be served: the database answers, and the service is not shutting down."""
    if request.app.state.draining:
        return problem_response(503, "the service is shutting down", headers={"Retry-After": "1"})
    parts: Parts = request.app.state.parts
    try:
        await parts.services.tenants.list_tenants()
    except DatabaseUnavailable as error:
        return problem_response(503, str(error), headers={"Retry-After": "1"})
    return json_response({"status": "ready"})


@router.get("/metrics", operation_id="metrics", include_in_schema=False)
async def metrics(request: Request) -> Response:
    """Prometheus metrics, on this port for loopback callers only."""
    parts: Parts = request.app.state.parts
    if parts.settings.server.metrics_port is not None or not _is_loopback(request):
        return problem_response(404, "there is nothing at this path")
    return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)


def install_docs(app: FastAPI) -> None:
    """Swagger UI at /docs, from files that ship with a dependency: it works without internet."""
    app.mount("/docs/files", StaticFiles(directory=DOCS_FILES), name="docs-files")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return get_swagger_ui_html(
            openapi_url=str(app.openapi_url),
            title=f"{app.title}: try it",
            swagger_js_url="/docs/files/swagger-ui-bundle.js",
            swagger_css_url="/docs/files/swagger-ui.css",
            swagger_favicon_url="/docs/files/favicon.png",
            swagger_ui_parameters={"persistAuthorization": True, "tryItOutEnabled": True},
        )


def _is_loopback(request: Request) -> bool:
    if request.client is None:
        return True
    try:
        address = ipaddress.ip_address(request.client.host)
    except ValueError:
        return False
    # Behind a proxy on the same machine every caller looks local.
    return address.is_loopback and "x-forwarded-for" not in request.headers
