"""One line in the log for each request: who, which operation, how it ended and how long it took."""

from __future__ import annotations

import logging

from starlette.types import Scope

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
