"""Swagger UI at /docs."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import fastapi_offline
from fastapi import FastAPI, Response
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse

from app.api.openapi.document import PATH
from app.web.static_files import ReleasedFiles

DOCS_FILES = Path(fastapi_offline.__file__).parent / "static"
DOCS_SOURCES = (
    "default-src 'none'; connect-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'"
)
DOCS_PARAMETERS: Mapping[str, Any] = {
    # The page shares its origin with the console: a kept token would lie in the origin's localStorage.
    "persistAuthorization": False,
    "tryItOutEnabled": True,
    "displayRequestDuration": True,
    "filter": True,
    # Keep the schemas folded: the operations come first.
    "defaultModelsExpandDepth": 0,
    "validatorUrl": None,
}
DOCS_TAGS = (
    {"name": "search", "description": "Semantic, keyword and hybrid search, and feedback on hits."},
    {
        "name": "entries",
        "description": "Short pieces of knowledge: create, change, bulk load, list relations.",
    },
    {
        "name": "assets",
        "description": "Whole documents: upload, watch the indexing, read the extracted text.",
    },
    {"name": "saved searches", "description": "Named searches, and webhooks for new matches."},
    {"name": "permissions", "description": "Who may read and change entries, assets and sources."},
    {"name": "administration", "description": "A tenant's statistics, settings, records and model."},
    {"name": "tenants", "description": "For platform admins."},
    {"name": "operations", "description": "Health checks, without a token."},
)
DARK_MODE = """<script>
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const follow = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
    dark.addEventListener("change", follow);
    follow();
    </script>"""
"""Swagger UI has a dark mode, but only its standalone page offers it."""
DOCS_LIMITS = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


def install_docs(app: FastAPI) -> None:
    """Serve Swagger UI at /docs from files of a dependency, so that it works offline."""
    app.openapi_tags = [dict(tag) for tag in DOCS_TAGS]
    app.mount("/docs/files", ReleasedFiles(directory=DOCS_FILES), name="docs-files")
    page = get_swagger_ui_html(
        openapi_url=PATH,
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
    """A policy that allows the page's own script, by its hash, and no other inline script."""
    scripts = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(["'self'", *(f"'sha256-{text}'" for text in hashes)])
    return f"{DOCS_SOURCES}; script-src {allowed}; {DOCS_LIMITS}"
