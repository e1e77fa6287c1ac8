"""What every request passes: an id, a limit on its body, and an answer even when something unforeseen happens."""

from __future__ import annotations

import logging
import re
import secrets
import time

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.metrics import REQUEST_SECONDS, REQUESTS
from app.api.problems import problem_response
from app.errors import TooLarge
from app.logs import request_id

log = logging.getLogger("app.api")

MAX_JSON_BYTES = 32 * 1024 * 1024
"""Largest JSON body: 1,000 entries of ordinary length; more go in several requests."""

MULTIPART_ROOM = 1024 * 1024
MAX_DRAINED = 256 * 1024 * 1024
ACCEPTED_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class RequestGuard:
    """Gives each request an id, bounds its body, counts it, and turns a crash into a problem."""

    def __init__(self, app: ASGIApp, *, max_upload_bytes: int) -> None:
        self._app = app
        self._max_upload = max_upload_bytes + MULTIPART_ROOM

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get("x-request-id", "")
        request = given if ACCEPTED_ID.fullmatch(given) else secrets.token_hex(8)
        token = request_id.set(request)
        started = time.perf_counter()
        status = 500
        answered = False

        async def send_marked(message: Message) -> None:
            nonlocal status, answered
            if message["type"] == "http.response.start":
                status, answered = message["status"], True
                marked = MutableHeaders(scope=message)
                marked["x-request-id"] = request
                marked["x-content-type-options"] = "nosniff"
            await send(message)

        length = headers.get("content-length", "")
        declared = int(length) if length.isascii() and length.isdigit() and len(length) < 20 else 0
        body = _BoundedBody(receive, self._limit(scope["path"]), declared)
        try:
            await self._app(scope, body.receive, send_marked)
        except Exception:
            log.exception("request failed")
            if answered:
                raise
            await problem_response(500, "an unexpected error occurred")(scope, receive, send_marked)
        finally:
            route = getattr(scope.get("route"), "path", "unmatched")
            REQUESTS.labels(scope["method"], route, status).inc()
            REQUEST_SECONDS.labels(route).observe(time.perf_counter() - started)
            request_id.reset(token)

    def _limit(self, path: str) -> int:
        return self._max_upload if path.rstrip("/") == "/knowledge/assets" else MAX_JSON_BYTES


class _BoundedBody:
    """A request's body, refused as soon as more than `limit` bytes of it are announced or have come.

    It is refused only when somebody reads it: callers without a token hear of that first.
    """

    def __init__(self, receive: Receive, limit: int, declared: int) -> None:
        self._receive = receive
        self._limit = limit
        self._declared = declared
        self._seen = 0
        self._complete = False

    async def receive(self) -> Message:
        """The next part. Raises TooLarge."""
        if self._declared <= self._limit:
            message = await self._receive()
            self._note(message)
            if self._seen <= self._limit:
                return message
        await self._drain()
        raise TooLarge(f"the request body is larger than the limit of {self._limit} bytes")

    async def _drain(self) -> None:
        """Read what the caller is still sending, so that it comes to read the answer."""
        while not self._complete and self._seen < MAX_DRAINED:
            self._note(await self._receive())

    def _note(self, message: Message) -> None:
        self._seen += len(message.get("body", b""))
        self._complete = message["type"] != "http.request" or not message.get("more_body", False)
