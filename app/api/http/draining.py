"""Draining: while the service shuts down, each response closes its connection."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Draining:
    """Adds `Connection: close` to answers once the app is draining.

    The caller then opens a new connection, which a load balancer directs to an instance
    that is ready; otherwise its next request could cross the closing of the old one.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state = scope["app"].state

        async def send_last(message: Message) -> None:
            # Asked when the answer begins: the signal may come while the request is served.
            if message["type"] == "http.response.start" and getattr(state, "draining", False):
                MutableHeaders(scope=message)["connection"] = "close"
            await send(message)

        await self._app(scope, receive, send_last)
