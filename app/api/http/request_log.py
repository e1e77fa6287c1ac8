"""One line in the log for each request: who, which operation, how it ended and how long it took."""

from __future__ import annotations

import logging
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger("app.api.requests")

QUIET = frozenset({"/healthz", "/readyz", "/metrics"})
"""Asked every few seconds by machines: these are logged at debug only."""


def find_tenant_id(scope: Scope) -> str | None:
    """The tenant that the caller's token names, once it is verified, whether the caller is let in or refused."""
    principal = scope.get("state", {}).get("principal")
    return None if principal is None or principal.tenant_id is None else str(principal.tenant_id)


class RequestLog:
    """Logs method, route, status, time and tenant; never a path or anything else that a caller wrote."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        status = 500

        async def send_seen(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_seen)
        finally:
            route = getattr(scope.get("route"), "path", "unmatched")
            log.log(
                logging.DEBUG if route in QUIET else logging.INFO,
                "request",
                extra={
                    "method": scope["method"],
                    "route": route,
                    "status": status,
                    "milliseconds": round(1000 * (time.perf_counter() - started), 1),
                    "tenant_id": find_tenant_id(scope),
                },
            )
