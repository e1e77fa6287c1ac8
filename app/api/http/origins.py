"""Pages of other origins that may call the service from a browser."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

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
EXPOSED = ("ETag", "Location", "Retry-After", "WWW-Authenticate", "X-Request-ID", "Mcp-Session-Id")


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
