"""/mcp: the tools over streamable HTTP, for callers with the same bearer tokens as the rest of the API."""

import asyncio
import contextlib
import json
import re
import sys
from collections.abc import AsyncIterator
from typing import Any

from fastapi import FastAPI
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import INVALID_REQUEST
from pydantic_core import from_json
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from app.auth.principal import Principal, Role
from app.contract.vocabulary import ToolSet
from app.errors import Forbidden, InvalidInput, RateLimited, UnsupportedMediaType
from app.knowledge.tenants.directory import TenantContext
from app.mcp.answers.passages import Links
from app.mcp.server import Context, build_server
from app.mcp.tools import SETS
from app.web.access import Caller, Parts, authenticate
from app.web.bodies import (
    LARGE,
    MCP_READER,
    BoundedBody,
    Patience,
    body_length,
    bounds_of,
    check_shape,
    let_others_run,
    media_type,
    read_body,
    refuse_coding,
    replay,
)
from app.web.login import WELL_KNOWN

PATH = "/mcp"

LONE_SURROGATE = re.compile(rb"\\u[dD](?:[89abAB]..(?!\\u[dD][c-fC-F])|[c-fC-F])")
"""Escapes that can be a lone surrogate; one after a first half may be part of a pair."""

SURROGATES = re.compile("[\ud800-\udfff]")

SMALL = 64 * 1024
"""Size of a message that is read although its caller is over a limit, so that the tool's result can report it."""


class Endpoint:
    """Answers each POST independently, as JSON, without sessions and streams, so that any instance can answer."""

    path = PATH
    """The route's name in the log, the metrics and the audit trail, like FastAPI's routes."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request.

        The query parameter `tools` chooses the tools that the client lists.

        Raises InvalidInput for another value of it, Unauthenticated, Forbidden (also for a web page of another origin),
        and RateLimited for a large or a further refused request, before it reads the body; UnsupportedMediaType,
        TooLarge and TooSlow.
        """
        scope["route"] = self
        request = Request(scope, receive)
        parts: Parts = self._app.state.parts
        admission = parts.services.admission
        _check_origin(request, parts)
        if (chosen := request.query_params.get("tools", parts.tools)) not in SETS:
            raise InvalidInput.of("tools", f"must be one of {', '.join(SETS)}")
        request.state.tools = chosen
        verifier = None
        if parts.login is not None:
            verifier = parts.login.verifier
            has_token = "authorization" in request.headers
            request.state.challenge = parts.login.challenge(has_token=has_token)
        try:
            await authenticate(request, Role.READER, verifier=verifier)
        except RateLimited as error:
            if body_length(request) > SMALL or not admission.may_report(request.state.tenant):
                raise
            request.state.refusal = error  # reported in the tool's result, which a model reads
        if request.method != "POST":
            raise HTTPException(405, headers={"Allow": "POST"})
        if media_type(request) != "application/json":
            raise UnsupportedMediaType("send JSON, with Content-Type: application/json")
        refuse_coding(request)
        principal: Principal = request.state.principal
        bounds = bounds_of(PATH) if principal.has(Role.CREATOR) else MCP_READER
        bounded = BoundedBody(receive, bounds.bytes, body_length(request), Patience())
        tenant: TenantContext = request.state.tenant
        async with admission.holding(tenant, min(body_length(request), bounds.bytes)) as arrival:
            message = Request(scope, bounded.receive)
            try:
                await read_body(message, lambda part: admission.receive(arrival, part))
            except ClientDisconnect:
                return
            arrival.complete()
            body = bytes(await message.body())
            async with admission.intake(tenant, len(body)) as intake:
                request.state.intake = intake
                try:
                    # The SDK parses any body, and blocks the event loop while it does.
                    if len(body) > LARGE:
                        await asyncio.to_thread(check_shape, body, bounds, between_steps=let_others_run)
                    else:
                        check_shape(body, bounds)
                    _refuse_surrogates(body)
                except InvalidInput as error:
                    await _refuse(error)(scope, receive, send)
                    return
                manager: StreamableHTTPSessionManager = self._app.state.mcp
                await manager.handle_request(scope, replay(body, receive), _refuse_invalid_id(body, scope, send))


def _check_origin(request: Request, parts: Parts) -> None:
    """Raise Forbidden for a web page of an origin that is not this service's own and is not allowed to call it.

    The protocol demands it: a page could reach a service on the user's machine by a name that it controls.
    """
    origin = request.headers.get("origin")
    if origin is not None and origin != parts.public_url and origin not in parts.origins:
        raise Forbidden("web pages of this origin may not call: see KB_CORS_ORIGINS")


async def _describe_resource(request: Request) -> JSONResponse:
    """The metadata by which a client finds the authorization server; 404 without one."""
    parts: Parts = request.app.state.parts
    if parts.login is None:
        raise HTTPException(404)
    return JSONResponse(parts.login.metadata())


def _refuse_surrogates(body: bytes) -> None:
    """Raise InvalidInput with the field that has a lone surrogate: the SDK would only name a position."""
    if LONE_SURROGATE.search(body) is None:
        return
    try:
        places: list[tuple[str, Any]] = [("", json.loads(body))]
    except ValueError:
        return  # the SDK reports it
    while places:
        place, value = places.pop()
        if isinstance(value, str) and not value.isascii() and SURROGATES.search(value):
            raise InvalidInput.of(place.removeprefix(".") or "message", "must not contain lone surrogates")
        if isinstance(value, dict):
            # A name with a surrogate is reported with its object.
            places += [(place, name) for name in value] + [(f"{place}.{n}", v) for n, v in value.items()]
        elif isinstance(value, list):
            places += [(f"{place}.{n}", v) for n, v in enumerate(value)]


def _refuse_invalid_id(body: bytes, scope: Scope, send: Send) -> Send:
    """Refuse a request whose id is not valid: the SDK reads it as a notification, which has no answer."""
    refused = False

    async def send_checked(message: Message) -> None:
        nonlocal refused
        if message["type"] == "http.response.start" and message["status"] == 202:
            given = from_json(body)
            if refused := isinstance(given, dict) and "method" in given and "id" in given:
                await _refuse(InvalidInput.of("id", "must be text or an integer"))(scope, _no_more, send)
        if not refused:
            await send(message)

    return send_checked


async def _no_more() -> Message:
    return {"type": "http.disconnect"}


def _refuse(error: InvalidInput) -> JSONResponse:
    """The protocol's answer to a message that is not read."""
    refusal = {"code": INVALID_REQUEST, "message": str(error)}
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": refusal}, 400)


def install_endpoint(app: FastAPI) -> None:
    """Add /mcp to the app, whose lifespan must enter `open_endpoint`."""
    app.router.routes.append(Route(PATH, Endpoint(app), name="mcp", include_in_schema=False))
    # Some clients look for the metadata without the path of the resource.
    for path in (f"{WELL_KNOWN}{PATH}", WELL_KNOWN):
        app.router.routes.append(Route(path, _describe_resource, methods=["GET"], include_in_schema=False))


@contextlib.asynccontextmanager
async def open_endpoint(app: FastAPI) -> AsyncIterator[None]:
    """Run the session manager of /mcp while the app runs; `app.state.parts` must be set."""
    parts: Parts = app.state.parts
    manager = StreamableHTTPSessionManager(
        build_server(parts.services, _find_caller, _find_tools, Links(parts.public_url)),
        json_response=True,
        stateless=True,
        max_request_body_size=sys.maxsize,  # HttpLayer limits it, as for every other path
    )
    async with manager.run():
        app.state.mcp = manager
        yield


def _find_tools(context: Context) -> ToolSet:
    assert isinstance(context.request, Request)
    chosen: ToolSet = context.request.state.tools
    return chosen


async def _find_caller(context: Context) -> Caller:
    assert isinstance(context.request, Request)
    state = context.request.state
    state.intake.end()
    if hasattr(state, "refusal"):
        raise state.refusal
    caller: Caller = state.caller
    return caller
