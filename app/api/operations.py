"""Health, metrics, and the interactive documentation."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import ipaddress
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import fastapi_offline
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse
from prometheus_client import CONTENT_TYPE_LATEST

from app.db.schema.readiness import check_readiness
from app.errors import DatabaseUnavailable
from app.web.access import Parts
from app.web.monitoring import Observation
from app.web.problems import problem_response, problems, respond_to
from app.web.rendering import json_response
from app.web.static_files import ReleasedFiles

router = APIRouter(tags=["operations"])

READINESS_SECONDS = 2.0
"""After this the answer is no: whoever asks decides now where the next requests go."""

FORWARDED = ("forwarded", "via", "x-real-ip", "x-forwarded-")
"""How the headers begin by which a proxy tells that the request is not its own."""

DOCS_FILES = Path(fastapi_offline.__file__).parent / "static"
DOCS_SOURCES = (
    "default-src 'none'; connect-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'"
)
DOCS_PARAMETERS: Mapping[str, Any] = {
    "persistAuthorization": True,
    "tryItOutEnabled": True,
    "displayRequestDuration": True,
    "filter": True,
    # The schemas stay folded: the operations come first.
    "defaultModelsExpandDepth": 0,
    "validatorUrl": None,
}
DOCS_TAGS = (
    {"name": "search", "description": "Ask, by meaning and by words; say what was of use."},
    {
        "name": "entries",
        "description": "Short pieces of knowledge: write, change, bulk load, follow relations.",
    },
    {
        "name": "assets",
        "description": "Whole documents: upload, follow the indexing, read the extracted text.",
    },
    {"name": "saved searches", "description": "Searches kept under a name, and webhooks on what they find."},
    {"name": "administration", "description": "A tenant's own figures, settings, records and model."},
    {"name": "tenants", "description": "For platform administrators."},
    {"name": "operations", "description": "Health, without a token."},
)
DARK_MODE = """<script>
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const follow = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
    dark.addEventListener("change", follow);
    follow();
    </script>"""
"""Swagger UI has a dark mode, which its standalone page alone would offer."""
DOCS_LIMITS = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


@router.get("/healthz", operation_id="healthz", response_model=dict[str, str])
async def healthz() -> Response:
    """Whether the process answers; touches nothing else."""
    return json_response({"status": "ok"})


@router.get("/readyz", operation_id="readyz", response_model=dict[str, str], responses=problems(503))
async def readyz(request: Request) -> Response:
    """Whether requests can be served: the database answers, its migrations are those that this version needs, and the
    service is not shutting down."""
    if request.app.state.draining:
        return problem_response(503, "the service is shutting down", headers={"Retry-After": "1"})
    parts: Parts = request.app.state.parts
    try:
        async with asyncio.timeout(READINESS_SECONDS):
            await check_readiness(parts.services.database)
    except TimeoutError:
        return problem_response(503, "the database does not answer in time", headers={"Retry-After": "1"})
    except DatabaseUnavailable as error:
        return respond_to(error)
    return json_response({"status": "ready"})


@router.get("/metrics", operation_id="metrics", include_in_schema=False)
async def metrics(request: Request) -> Response:
    """Prometheus metrics, on this port for loopback callers only."""
    parts: Parts = request.app.state.parts
    if parts.settings.server.metrics_port is not None or not _is_local(request):
        return problem_response(404, "there is nothing at this path")
    observation: Observation = request.app.state.observation
    return Response(await observation.render(), media_type=CONTENT_TYPE_LATEST)


def install_docs(app: FastAPI) -> None:
    """Swagger UI at /docs, from files that ship with a dependency: it works without internet."""
    app.openapi_tags = [dict(tag) for tag in DOCS_TAGS]
    app.mount("/docs/files", ReleasedFiles(directory=DOCS_FILES), name="docs-files")
    page = get_swagger_ui_html(
        openapi_url=str(app.openapi_url),
        title=f"{app.title}: try it",
        swagger_js_url="/docs/files/swagger-ui-bundle.js",
        swagger_css_url="/docs/files/swagger-ui.css",
        swagger_favicon_url="/docs/files/favicon.png",
        swagger_ui_parameters=dict(DOCS_PARAMETERS),
    )
    html = (
        bytes(page.body)
        .decode()
        .replace("<html>", '<html lang="en">')
        .replace("</head>", f"{DARK_MODE}</head>")
    )
    headers = {"content-security-policy": _page_policy(html), "cache-control": "no-cache"}

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return HTMLResponse(html, headers=headers)


def _page_policy(html: str) -> str:
    """A policy under which the page's own script runs, by its hash, and no other that is written into a page."""
    scripts = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(["'self'", *(f"'sha256-{text}'" for text in hashes)])
    return f"{DOCS_SOURCES}; script-src {allowed}; {DOCS_LIMITS}"


def _is_local(request: Request) -> bool:
    # Behind a proxy on the same machine every caller comes from there.
    if any(name.startswith(FORWARDED) for name in request.headers):
        return False
    if request.client is None:
        return True
    try:
        return ipaddress.ip_address(request.client.host).is_loopback
    except ValueError:
        return False
