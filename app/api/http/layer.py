"""The one layer between the server and the routes: what every request and every answer passes.

Each concern is a function or a small class of its own, and is called from here.
"""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Mapping

from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.http.compression import Compression, accepts_gzip
from app.api.http.head import serve_as_get
from app.api.http.request_log import find_tenant_id, log_request
from app.api.http.response_head import ResponseHead
from app.concurrency.release import MemoryRelease
from app.concurrency.share import Work
from app.concurrency.stopwatch import Steps, Stopwatch, run_stopwatch
from app.db.principals import acting_as
from app.errors import KnowledgeError
from app.telemetry.logs import request_id
from app.telemetry.tracing import Span, span
from app.web.access import Parts
from app.web.bodies.bounded import BoundedBody, Patience
from app.web.bodies.bounds import UPLOAD_ROOM, UPLOADS, bounds_of
from app.web.bodies.json_body import read_length
from app.web.metrics import REQUEST_SECONDS, REQUESTS
from app.web.problems import respond_to, unexpected_error
from app.web.shortcut import Shortcuts

layer_log = logging.getLogger("app.api")

ACCEPTED_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")

LOGGED_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"})
"""Methods that metrics distinguish; a caller may send anything."""

REFUSED = frozenset({400, 401, 403, 405, 406, 408, 413, 415, 422, 429})
"""Statuses of requests that were not worth their work; a 404 or a 409 is an answer."""

GivenHeaders = Mapping[bytes, bytes]
"""The headers of a request, of repeated ones the first."""


class HttpLayer:
    """Gives each request an id, limits its body, completes its answer, logs and counts it, and turns a crash into a
    problem.

    `patience` is what slow bodies are given; `shortcuts` answer without the app's routing.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        max_upload_bytes: int,
        shortcuts: Shortcuts,
        patience: Patience | None = None,
    ) -> None:
        self._app = app
        self._shortcuts = shortcuts
        self._patience = patience or Patience()
        self._max_upload = max_upload_bytes + UPLOAD_ROOM
        self._compression = Compression(self._dispatch)
        self._memory = MemoryRelease()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(reversed(scope["headers"]))
        request = _choose_id(headers)
        token = request_id.set(request)
        stopwatch = Stopwatch()
        head = ResponseHead(scope, send, request)
        length = read_length(headers.get(b"content-length", b""))
        body = BoundedBody(receive, self._limit(scope["path"]), length, self._patience)
        method = scope["method"] if scope["method"] in LOGGED_METHODS else "other"
        with span(method, "server", _trace_parent(headers), http_method=method) as seen:
            try:
                # A host application may serve several requests in one task: none acts for the caller of another.
                with run_stopwatch(stopwatch), acting_as(()):
                    await Steps(self._serve(scope, headers, body.receive, head), stopwatch)
            except KnowledgeError as error:
                # Raised by the body in an application that is mounted, and renders no problems.
                if head.sent:
                    raise
                await respond_to(error)(scope, receive, head.send)
            except Exception:
                layer_log.exception("request failed")
                if head.sent:
                    raise
                await unexpected_error()(scope, receive, head.send)
            finally:
                _note(scope, method, head.status, stopwatch.seconds, seen)
                _settle(scope, head.status, stopwatch, body.seen)
                self._memory.note(max(body.seen, head.length))
                request_id.reset(token)

    async def _serve(self, scope: Scope, headers: GivenHeaders, receive: Receive, head: ResponseHead) -> None:
        serve: ASGIApp = self._dispatch
        if self._compression.applies_to(scope["path"]):
            if accepts_gzip(headers.get(b"accept-encoding", b"").decode("latin-1")):
                serve = self._compression
            else:
                head.varies = True
        if scope["method"] == "HEAD":
            await serve_as_get(serve, scope, receive, head.send)
        else:
            await serve(scope, receive, head.send)

    async def _dispatch(self, scope: Scope, receive: Receive, send: Send) -> None:
        shortcut = self._shortcuts.get((scope["method"], scope["path"]))
        if shortcut is not None and not scope.get("root_path"):
            unread = await shortcut(scope, receive, send)
            if unread is None:
                return
            receive = unread
        await self._app(scope, receive, send)

    def _limit(self, path: str) -> int:
        return self._max_upload if path.rstrip("/") in UPLOADS else bounds_of(path).bytes


def _choose_id(headers: GivenHeaders) -> str:
    """The id that the caller gave the request, or a new one."""
    given = headers.get(b"x-request-id", b"")
    return given.decode() if ACCEPTED_ID.fullmatch(given) else secrets.token_hex(8)


def _trace_parent(headers: GivenHeaders) -> dict[str, str]:
    """The caller's trace, as W3C Trace Context names it; its baggage is left alone."""
    return {
        name.decode(): headers[name].decode("latin-1")
        for name in (b"traceparent", b"tracestate")
        if name in headers
    }


def _note(scope: Scope, method: str, status: int, seconds: float, seen: Span) -> None:
    """Record the end of a request in the log, the metrics and the trace."""
    route = getattr(scope.get("route"), "path", "unmatched")
    tenant_id = find_tenant_id(scope)
    log_request(scope["method"], route, status, seconds, tenant_id)
    REQUESTS.labels(method, route, status).inc()
    REQUEST_SECONDS.labels(route).observe(seconds)
    seen.rename(f"{method} {route}")
    seen.set(http_route=route, http_status=status, tenant_id=tenant_id)
    if status >= 500:
        seen.fail(str(status))


def _settle(scope: Scope, status: int, stopwatch: Stopwatch, size: int) -> None:
    """Charge the caller's tenant for a refused or a large request."""
    state = scope.get("state", {})
    if (tenant := state.get("tenant")) is not None:
        parts: Parts = scope["app"].state.parts
        work = Work(stopwatch.kept, size, stopwatch.refused or status in REFUSED)
        parts.services.admission.settle(tenant, work, state.get("passage"))
