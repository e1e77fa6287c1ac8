"""The layer between the server and the routes, which every request and every answer passes."""

import logging
import re
import secrets
from collections.abc import Collection, Mapping, Sequence

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.gzip import DEFAULT_EXCLUDED_CONTENT_TYPES, GZipResponder
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.concurrency.background import MemoryRelease
from app.concurrency.share import Work
from app.concurrency.stopwatch import Steps, Stopwatch, run_stopwatch
from app.db.principals import acting_as
from app.errors import KnowledgeError
from app.telemetry.logs import request_id
from app.telemetry.tracing import Span, span
from app.web.access import Parts
from app.web.bodies import UPLOAD_ROOM, UPLOADS, BoundedBody, Patience, bounds_of, read_length
from app.web.monitoring import REQUEST_SECONDS, REQUESTS
from app.web.problems import SENT, respond_to, unexpected_error


def is_draining(scope: Scope) -> bool:
    """Whether the app of this request shuts down."""
    return getattr(scope["app"].state, "draining", False)


MIN_BYTES = 4096
"""Shorter answers fit in a few packets anyway."""

LEVEL = 1
"""Measured on two cores: 15 KB of hits become 4.6 KB in 60 µs, and 4.2 KB in 100 µs at level 9; 94 KB of a list become
27 KB in 0.6 ms, and 23 KB in 7.7 ms."""

PATHS = re.compile(r"/(knowledge|admin)/(?!assets/[^/]+/content$).*|/mcp")
"""Searches, lists, reports and results of tools. The bytes of a file stay as they are, and /openapi.json is stored
compressed. The console is left out: its callers send a cookie (see docs/deploy.md)."""

EXCLUDED = (*DEFAULT_EXCLUDED_CONTENT_TYPES, "text/*")

NO_WEIGHT = re.compile(r"q=0(\.0{0,3})?")


class Compression:
    """Compresses the answers of `app`; which requests come here is decided by `applies_to`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, whose caller accepts gzip."""
        await _Responder(self._app, MIN_BYTES, LEVEL, exclude_content_types=EXCLUDED)(scope, receive, send)

    @staticmethod
    def applies_to(path: str) -> bool:
        """Whether answers of this path are compressed; all others pass unchanged."""
        return PATHS.fullmatch(path) is not None


class _Responder(GZipResponder):
    """Leaves an answer with an ETag as it is: the ETag would have to differ for each coding."""

    async def send_with_compression(self, message: Message) -> None:
        await super().send_with_compression(message)
        if message["type"] == "http.response.start" and not self.content_encoding_set:
            has_tag = any(name == b"etag" for name, _ in message["headers"])
            if has_tag and not (self.partial_response or self.content_type_is_excluded):
                self.content_encoding_set = True
                await self.send(message)


def accepts_gzip(header: str) -> bool:
    """Whether Accept-Encoding names gzip with a weight above 0."""
    for coding in header.split(","):
        name, _, weight = coding.replace(" ", "").lower().partition(";")
        if name in ("gzip", "x-gzip") and not NO_WEIGHT.fullmatch(weight):
            return True
    return False


def vary(status: int, headers: list[tuple[bytes, bytes]]) -> None:
    """Name Accept-Encoding in `Vary`, so that caches keep this answer apart from the compressed one."""
    known = dict(headers)
    length = known.get(b"content-length")
    kind = known.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()
    if (length is None or int(length) >= MIN_BYTES) and not (
        status == 206
        or b"content-encoding" in known
        or b"etag" in known
        or kind in EXCLUDED
        or f"{kind.partition('/')[0]}/*" in EXCLUDED
    ):
        others = known.get(b"vary", b"")
        headers[:] = [header for header in headers if header[0] != b"vary"]
        headers.append((b"vary", others + b", Accept-Encoding" if others else b"Accept-Encoding"))


async def serve_as_get(serve: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Serve HEAD as the GET of its path, without the body."""
    ended = False

    async def send_head(message: Message) -> None:
        nonlocal ended
        if message["type"] == "http.response.start":
            await send(message)
        elif not ended:
            ended = True
            await send({"type": "http.response.body", "body": b""})

    inner = {**scope, "method": "GET", SENT: "HEAD"}
    try:
        await serve(inner, receive, send_head)
    finally:
        # The log and the metrics read these facts about the request.
        scope.update({**inner, "method": "HEAD"})


def allow_head(headers: list[tuple[bytes, bytes]]) -> None:
    """Add HEAD to the header `Allow` if it has GET."""
    for place, (name, value) in enumerate(headers):
        allowed = [method.strip() for method in value.split(b",")]
        if name == b"allow" and b"GET" in allowed and b"HEAD" not in allowed:
            headers[place] = (name, b", ".join(sorted([*allowed, b"HEAD"])))


RawHeaders = list[tuple[bytes, bytes]]

PROTECTION: RawHeaders = [
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
]
"""Headers of every answer that has none of its own: nothing is kept, embedded, or run as a page."""


class ResponseHead:
    """Passes an answer on to `send`, and completes its head.

    Attributes:
        status: that of the answer; 500 until there is one.
        sent: whether it was sent, so that no other answer can follow.
        length: bytes of the answer's body so far.
        varies: whether a caller that accepts gzip may get another answer.
    """

    __slots__ = ("_request_id", "_scope", "_send", "length", "sent", "status", "varies")

    def __init__(self, scope: Scope, send: Send, request_id: str) -> None:
        self._scope, self._send, self._request_id = scope, send, request_id
        self.status, self.length = 500, 0
        self.sent = self.varies = False

    async def send(self, message: Message) -> None:
        """Send one part of the answer."""
        if message["type"] == "http.response.start":
            self.status, self.sent = message["status"], True
            headers: RawHeaders = list(message.get("headers", ()))
            own = {name for name, _ in headers}
            _set(headers, own, b"x-request-id", self._request_id.encode())
            _set(headers, own, b"x-content-type-options", b"nosniff")
            headers += [header for header in PROTECTION if header[0] not in own]
            if self.status == 405:
                allow_head(headers)
            if self.varies:
                vary(self.status, headers)
            # The caller's next request opens a connection to an instance that is ready, and cannot cross the closing of
            # this one. Checked when the answer begins: the signal may come while the request is served.
            if is_draining(self._scope):
                _set(headers, own, b"connection", b"close")
            message["headers"] = headers
        elif message["type"] == "http.response.body":
            self.length += len(message.get("body", b""))
        await self._send(message)


def _set(headers: RawHeaders, own: Collection[bytes], name: bytes, value: bytes) -> None:
    if name in own:
        headers[:] = [header for header in headers if header[0] != name]
    headers.append((name, value))


request_log = logging.getLogger("app.api.requests")

QUIET = frozenset({"/healthz", "/readyz", "/metrics"})
"""Asked every few seconds by machines: these are logged at debug only."""


def find_tenant_id(scope: Scope) -> str | None:
    """The tenant that the caller's token names, once it is verified, whether the caller is let in or refused."""
    principal = scope.get("state", {}).get("principal")
    return None if principal is None or principal.tenant_id is None else str(principal.tenant_id)


def is_stranger(scope: Scope) -> bool:
    """Whether the caller has no valid token."""
    state = scope.get("state", {})
    return state.get("principal") is None or state.get("is_stranger", False)


def log_request(method: str, route: str, status: int, seconds: float, tenant_id: str | None) -> None:
    """Log method, route, status, time and tenant; never a path or anything else that a caller wrote."""
    request_log.log(
        logging.DEBUG if route in QUIET else logging.INFO,
        "request",
        extra={
            "method": method,
            "route": route,
            "status": status,
            "milliseconds": round(1000 * seconds, 1),
            "tenant_id": tenant_id,
        },
    )


CROSS_ORIGIN_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
HEADERS = (
    "Authorization",
    "Content-Type",
    "If-Match",
    "X-KB-Access",
    "X-Request-ID",
    "Mcp-Protocol-Version",
    "Mcp-Method",
    "Mcp-Name",
    "Mcp-Session-Id",
    "Last-Event-ID",
)
EXPOSED = (
    "ETag",
    "Location",
    "Retry-After",
    "WWW-Authenticate",
    "X-Request-ID",
    "Mcp-Session-Id",
    "Deprecation",
    "Sunset",
)


def allow_origins(app: FastAPI, origins: Sequence[str] | None) -> None:
    """Allow pages of these origins to call the app; without any, no other origin can.

    Added after `HttpLayer`, so that its refusals can be read too.
    """
    if origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=CROSS_ORIGIN_METHODS,
            allow_headers=HEADERS,
            expose_headers=EXPOSED,
            max_age=600,
        )


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

    `patience` is what slow bodies are given.
    """

    def __init__(self, app: ASGIApp, *, max_upload_bytes: int, patience: Patience | None = None) -> None:
        self._app = app
        self._patience = patience or Patience()
        self._max_upload = max_upload_bytes + UPLOAD_ROOM
        self._compression = Compression(self._app)
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
        serve: ASGIApp = self._app
        if self._compression.applies_to(scope["path"]):
            if accepts_gzip(headers.get(b"accept-encoding", b"").decode("latin-1")):
                serve = self._compression
            else:
                head.varies = True
        if scope["method"] == "HEAD":
            await serve_as_get(serve, scope, receive, head.send)
        else:
            await serve(scope, receive, head.send)

    def _limit(self, path: str) -> int:
        return self._max_upload if path.rstrip("/") in UPLOADS else bounds_of(path).bytes


def _choose_id(headers: GivenHeaders) -> str:
    """The id that the caller gave the request, or a new one."""
    given = headers.get(b"x-request-id", b"")
    return given.decode() if ACCEPTED_ID.fullmatch(given) else secrets.token_hex(8)


def _trace_parent(headers: GivenHeaders) -> dict[str, str]:
    """The caller's trace, as W3C Trace Context names it; its baggage is left alone."""
    return {
        name.decode(): headers[name].decode("latin-1") for name in (b"traceparent", b"tracestate") if name in headers
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
        parts.services.admission.charge_answered(tenant, work, state.get("ticket"))
