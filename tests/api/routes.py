"""What the application answers at all, taken from its routes rather than from its description."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute, Mount, Route


def list_endpoints(app: FastAPI) -> list[APIRoute | Route]:
    """Every route of the app and of its routers that is no mounted application."""
    return list(_walk(app.routes))


def list_mounts(app: FastAPI) -> list[str]:
    """Paths at which other applications are mounted."""
    return [route.path for route in app.routes if isinstance(route, Mount)]


def _walk(routes: Iterable[BaseRoute]) -> Iterator[APIRoute | Route]:
    for route in routes:
        if isinstance(route, APIRoute | Route):
            yield route
        elif inner := getattr(route, "original_router", None):  # FastAPI's wrapper of an included router
            yield from _walk(inner.routes)
