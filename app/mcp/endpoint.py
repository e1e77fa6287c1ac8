"""/mcp: the tools over streamable HTTP, for callers with the same bearer tokens as the rest of the API."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncIterator

from fastapi import FastAPI
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from app.api.dependencies import Caller, Parts, authenticate
from app.auth.principal import Role
from app.errors import RateLimited
from app.mcp.server import Context, build_server

PATH = "/mcp"


class Endpoint:
    """Answers each POST by itself, as JSON, so that any instance can: there are no sessions and no streams."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request. Raises Unauthenticated and Forbidden before its body is read."""
        request = Request(scope, receive)
        try:
            await authenticate(request, Role.READER)
        except RateLimited as error:
            request.state.refusal = error  # told in the tool's result, where a model reads it
        if request.method != "POST":
            raise HTTPException(405, headers={"Allow": "POST"})
        manager: StreamableHTTPSessionManager = self._app.state.mcp
        await manager.handle_request(scope, receive, send)


def install_endpoint(app: FastAPI) -> None:
    """Add /mcp to the app, whose lifespan must enter `open_endpoint`."""
    app.router.routes.append(Route(PATH, Endpoint(app), name="mcp", include_in_schema=False))


@contextlib.asynccontextmanager
async def open_endpoint(app: FastAPI) -> AsyncIterator[None]:
    """What /mcp needs while the app runs; `app.state.parts` must be there."""
    parts: Parts = app.state.parts
    manager = StreamableHTTPSessionManager(
        build_server(parts.services, parts.settings, _find_caller),
        json_response=True,
        stateless=True,
        max_request_body_size=sys.maxsize,  # RequestGuard bounds it, as for every other path
    )
    async with manager.run():
        app.state.mcp = manager
        yield


async def _find_caller(context: Context) -> Caller:
    assert isinstance(context.request, Request)
    state = context.request.state
    if hasattr(state, "refusal"):
        raise state.refusal
    caller: Caller = state.caller
    return caller
