"""Complete the OpenAPI document with problems, headers and examples, and serve Swagger UI at /docs."""

import asyncio
import base64
import gzip
import hashlib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastapi_offline
import orjson
from fastapi import FastAPI, Request, Response
from fastapi.encoders import jsonable_encoder
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse
from pydantic import TypeAdapter

from app.concurrency.background import start_background
from app.contract.problems import TYPES, Problem
from app.errors import FieldError
from app.web.layer import accepts_gzip
from app.web.openapi_examples import REQUEST_ID, ExampleMaker
from app.web.openapi_sharing import share_repeats
from app.web.problems import MEDIA_TYPE, SCHEMA, problems, title_of
from app.web.rendering import ETAG, IF_NONE_MATCH, RETRY_AFTER, WWW_AUTHENTICATE, Headers, ReleasedFiles, has_current
from app.web.rendering import REQUEST_ID as REQUEST_ID_HEADER

ANYWHERE = (400, 408, 431, 500, 501)
"""Statuses that any request may get, before or around its handler."""

_WRONG_FIELD = FieldError("limit", "must be between 1 and 50")
_DETAILS = {
    400: "the request body could not be read",
    401: "send a token: Authorization: Bearer <token>",
    403: "this requires the role creator",
    404: "there is no entry with this id",
    408: "the request arrived too slowly",
    409: "another entry has this external_id",
    410: "the ranked list of this cursor is not available any more; search again",
    412: "the entry changed since it was read",
    413: "the request body is larger than the limit of 2097152 bytes",
    415: "send JSON, with Content-Type: application/json",
    422: str(_WRONG_FIELD),
    429: "the tenant has reached its limit of requests per minute",
    431: "the request line and the headers are longer than the limit of 65536 bytes",
    500: "an unexpected error occurred",
    501: "the only transfer coding that is read is chunked",
    503: "the database is not reachable at the moment",
}
_HEADERS: dict[int, Headers] = {401: WWW_AUTHENTICATE, 429: RETRY_AFTER, 503: RETRY_AFTER}

_NAMES = {
    "AccessSelection": "Where",
    "TenantSettings": "Settings",
    "CallerUse": "Caller",
    "Page_AuditRecord_": "AuditList",
    "Body_upload_asset": "NewAsset",
    "EntryDraft": "EntryPatch",
    "FormerVersion": "Version",
    "ListChange": "ListChangeBody",
    "Manifest": "ManifestBody",
    "Page_OwnedSubscription_": "SubscriptionList",
    "TagCount": "Tag",
    "SearchBatch": "SearchBatchRequest",
    "SearchQuery": "SearchRequest",
    "SearchResult": "SearchResponse",
    "WhyNot": "WhyNotResponse",
    "WhyNotQuery": "WhyNotRequest",
}
"""Names that callers would not understand, and their replacements."""
_PAGE = re.compile(r"Page_(\w+)_")
"""What pydantic calls a page of a type."""


def describe(app: FastAPI) -> None:
    """Complete the app's OpenAPI document when it is first requested."""
    generate = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            _complete(generate())
        return generate()

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way to change the document


def _complete(document: dict[str, Any]) -> None:
    problem = TypeAdapter(Problem).json_schema(ref_template="#/components/schemas/{model}", mode="serialization")
    added = jsonable_encoder({**problem.pop("$defs", {}), "Problem": problem}, exclude_none=True)
    schemas = document["components"]["schemas"] = dict(sorted({**document["components"]["schemas"], **added}.items()))
    for name, schema in schemas.items():
        if name.startswith("Body_"):  # of a form; FastAPI has no setting for it
            schema["additionalProperties"] = False
    make = ExampleMaker(schemas)
    for path in document["paths"].values():
        _describe_conditions(path.get("get"))
        for operation in path.values():
            operation["summary"] = _summarise(operation)
            operation.setdefault("security", [])
            for status, response in problems(*ANYWHERE).items():
                operation["responses"].setdefault(
                    str(status),
                    {"description": response["description"], "content": {MEDIA_TYPE: {"schema": {**SCHEMA}}}},
                )
            operation["responses"] = dict(sorted(operation["responses"].items()))
            for parameter in operation.get("parameters", ()):
                if parameter["required"] and "example" not in parameter:
                    parameter["example"] = make.of(parameter["schema"], parameter["name"])
            for content in operation.get("requestBody", {}).get("content", {}).values():
                _exemplify(content, make, complete=False)
            for status, response in operation["responses"].items():
                _complete_response(int(status), response, make)
    _rename(document, {name: _subject(name, schemas) for name in schemas})


def _summarise(operation: Mapping[str, Any]) -> str:
    """The summary in sentence case; FastAPI's own is a title made of the function's name."""
    given: str = operation["summary"]
    words = operation["operationId"].replace("_", " ")
    return words.capitalize() if given == words.title() else given


def _describe_conditions(read: dict[str, Any] | None) -> None:
    """Add If-None-Match and the 304 response to a read with an ETag."""
    if read is not None and "ETag" in read["responses"]["200"].get("headers", {}):
        read.setdefault("parameters", []).append({**IF_NONE_MATCH})
        read["responses"]["304"] = {"description": "The caller has this answer already", "headers": {**ETAG}}


def _subject(name: str, schemas: Collection[str]) -> str:
    """The component's name for callers: `AssetModel` is an `Asset`, and `Page_Entry_` an `EntryList`."""
    if name in _NAMES:
        return _NAMES[name]
    if page := _PAGE.fullmatch(name):
        return f"{_subject(page[1], schemas)}List"
    short = name.removesuffix("Model")
    return name if short in schemas else short


def _rename(document: dict[str, Any], names: Mapping[str, str]) -> None:
    """Rename components, their titles and every reference to them."""
    components = document["components"]
    components["schemas"] = {names[n]: {**s, "title": names[n]} for n, s in components["schemas"].items()}
    nodes: list[Any] = [document]
    while nodes:
        node = nodes.pop()
        if isinstance(node, dict):
            if isinstance(reference := node.get("$ref"), str):
                prefix, _, name = reference.rpartition("/")
                node["$ref"] = f"{prefix}/{names[name]}"
            nodes += node.values()
        elif isinstance(node, list):
            nodes += node


def _complete_response(status: int, response: dict[str, Any], make: ExampleMaker) -> None:
    content = response.get("content", {})
    if any(part.get("schema") == SCHEMA for part in content.values()):
        response["content"] = {MEDIA_TYPE: {"schema": {**SCHEMA}, "example": make_problem(status)}}
        if status in _HEADERS:
            response["headers"] = _HEADERS[status]
    else:
        for part in content.values():
            _exemplify(part, make, complete=True)
    response["headers"] = response.get("headers", {}) | REQUEST_ID_HEADER


def _exemplify(content: dict[str, Any], make: ExampleMaker, *, complete: bool) -> None:
    if "example" not in content and "examples" not in content:
        content["example"] = make.of(content.get("schema", {}), "", complete=complete)


def make_problem(status: int) -> dict[str, Any]:
    """Make an example of a problem with this status."""
    detail = _DETAILS.get(status, title_of(status))
    problem: dict[str, Any] = {
        "type": next(kind for kind in TYPES.values() if kind.status == status).uri,
        "title": title_of(status),
        "status": status,
        "detail": detail,
        "request_id": REQUEST_ID,
    }
    if status == 422:
        problem["errors"] = [{"field": _WRONG_FIELD.field, "message": _WRONG_FIELD.message}]
    return problem


PATH = "/openapi.json"


@dataclass(frozen=True, slots=True)
class Document:
    """The document's bytes, compressed and not, each with its ETag."""

    plain: bytes
    compressed: bytes
    digest: str

    def response(self, request: Request) -> Response:
        """The document, or 304 if the caller has it. It is checked at each use, since a release can change it."""
        coded = accepts_gzip(request.headers.get("accept-encoding", ""))
        tag = f'"{self.digest}-gzip"' if coded else f'"{self.digest}"'
        headers = {"ETag": tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
        if has_current(request, tag):
            return Response(status_code=304, headers=headers)
        if coded:
            headers["Content-Encoding"] = "gzip"
        return Response(self.compressed if coded else self.plain, 200, headers, "application/json")


def install_document(app: FastAPI) -> None:
    """Serve the document, which is generated at the first request, in a thread."""
    generated: asyncio.Task[Document] | None = None

    @app.get(PATH, include_in_schema=False)
    async def openapi(request: Request) -> Response:
        nonlocal generated
        if generated is None:
            generated = start_background(asyncio.to_thread(_generate, app))
        return (await asyncio.shield(generated)).response(request)


def _generate(app: FastAPI) -> Document:
    plain = orjson.dumps(share_repeats(app.openapi()))
    return Document(plain, gzip.compress(plain, mtime=0), hashlib.blake2b(plain, digest_size=16).hexdigest())


DOCS_FILES = Path(fastapi_offline.__file__).parent / "static"
DOCS_SOURCES = "default-src 'none'; connect-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'"
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
    {"name": "entries", "description": "Short pieces of knowledge: create, change, bulk load, list relations."},
    {"name": "assets", "description": "Whole documents: upload, watch the indexing, read the extracted text."},
    {"name": "sources", "description": "Folders, repositories and websites whose documents are kept in sync."},
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
    html = bytes(page.body).decode().replace("<html>", '<html lang="en">').replace("</head>", f"{DARK_MODE}</head>")
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
