"""What every request passes: an id, limits on its body, headers that protect, and an answer whatever happens."""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Mapping, Sequence

from fastapi import FastAPI
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.http.request_log import find_tenant_id
from app.concurrency.stopwatch import Stopwatch, run_stopwatch
from app.errors import KnowledgeError
from app.telemetry.logs import request_id
from app.telemetry.tracing import span
from app.web.bodies.bounded import BoundedBody, Patience
from app.web.bodies.bounds import UPLOAD_ROOM, UPLOADS, bounds_of
from app.web.metrics import REQUEST_SECONDS, REQUESTS
from app.web.problems import respond_to, unexpected_error

log = logging.getLogger("app.api")

ACCEPTED_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")

PROTECTION: Mapping[str, str] = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
}
"""Headers of every answer that has none of its own: nothing is kept, embedded, or run as a page."""

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"})
"""Methods that metrics distinguish; a caller may send anything."""

CORS_METHODS = ("GET", "HEAD", "POST", "PATCH", "DELETE")
CORS_HEADERS = (
    "Authorization",
    "Content-Type",
    "If-Match",
    "X-Request-ID",
    "Mcp-Protocol-Version",
    "Mcp-Session-Id",
    "Last-Event-ID",
)
CORS_EXPOSED = ("ETag", "Location", "Retry-After", "WWW-Authenticate", "X-Request-ID", "Mcp-Session-Id")


class RequestGuard:
    """Gives each request an id, limits its body, counts it, and turns a crash into a problem.

    `patience` is what slow bodies are given.
    """

    def __init__(self, app: ASGIApp, *, max_upload_bytes: int, patience: Patience | None = None) -> None:
        self._app = app
        self._patience = patience or Patience()
        self._max_upload = max_upload_bytes + UPLOAD_ROOM

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get("x-request-id", "")
        request = given if ACCEPTED_ID.fullmatch(given) else secrets.token_hex(8)
        token = request_id.set(request)
        stopwatch = Stopwatch()
        status = 500
        answered = False

        async def send_marked(message: Message) -> None:
            nonlocal status, answered
            if message["type"] == "http.response.start":
                status, answered = message["status"], True
                marked = MutableHeaders(scope=message)
                marked["x-request-id"] = request
                marked["x-content-type-options"] = "nosniff"
                for name, value in PROTECTION.items():
                    marked.setdefault(name, value)
            await send(message)

        length = headers.get("content-length", "")
        declared = int(length) if length.isascii() and length.isdigit() and len(length) < 20 else 0
        body = BoundedBody(receive, self._limit(scope["path"]), declared, self._patience)
        method = scope["method"] if scope["method"] in METHODS else "other"
        with span(method, "server", _trace_parent(headers), http_method=method) as seen:
            try:
                with run_stopwatch(stopwatch):
                    await self._app(scope, body.receive, send_marked)
            except KnowledgeError as error:
                # Raised by the body in an application that is mounted, and renders no problems.
                if answered:
                    raise
                await respond_to(error)(scope, receive, send_marked)
            except Exception:
                log.exception("request failed")
                if answered:
                    raise
                await unexpected_error()(scope, receive, send_marked)
            finally:
                route = getattr(scope.get("route"), "path", "unmatched")
                REQUESTS.labels(method, route, status).inc()
                REQUEST_SECONDS.labels(route).observe(stopwatch.seconds)
                seen.rename(f"{method} {route}")
                seen.set(http_route=route, http_status=status, tenant_id=find_tenant_id(scope))
                if status >= 500:
                    seen.fail(str(status))
                request_id.reset(token)

    def _limit(self, path: str) -> int:
        return self._max_upload if path.rstrip("/") in UPLOADS else bounds_of(path).bytes


def _trace_parent(headers: Headers) -> dict[str, str]:
    """The caller's trace, as W3C Trace Context names it; its baggage is left alone."""
    return {name: headers[name] for name in ("traceparent", "tracestate") if name in headers}


def allow_origins(app: FastAPI, origins: Sequence[str] | None) -> None:
    """Allow pages of these origins to call the app from a browser; without any, no other origin can.

    Added after the guard, so that its refusals can be read too.
    """
    if origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=CORS_METHODS,
            allow_headers=CORS_HEADERS,
            expose_headers=CORS_EXPOSED,
            max_age=600,
        )
