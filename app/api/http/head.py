"""HEAD, wherever GET is served (RFC 9110, section 9.1)."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class HeadRequests:
    """Serves HEAD as the GET of its path without the body, and adds it to `Allow` with GET."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_allowing(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 405:
                _allow_head(MutableHeaders(scope=message))
            await send(message)

        if scope["method"] != "HEAD":
            await self._app(scope, receive, send_allowing)
            return
        ended = False

        async def send_head(message: Message) -> None:
            nonlocal ended
            if message["type"] == "http.response.start":
                await send_allowing(message)
            elif not ended:
                ended = True
                await send({"type": "http.response.body", "body": b""})

        inner = {**scope, "method": "GET"}
        try:
            await self._app(inner, receive, send_head)
        finally:
            # The log and the metrics around this read what was found out about the request.
            scope.update({**inner, "method": "HEAD"})


def _allow_head(headers: MutableHeaders) -> None:
    allowed = [method.strip() for method in headers.get("allow", "").split(",")]
    if "GET" in allowed and "HEAD" not in allowed:
        headers["allow"] = ", ".join(sorted([*allowed, "HEAD"]))
