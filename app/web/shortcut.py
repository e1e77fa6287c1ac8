"""A short way through the framework, for a path that is called often.

A route stays declared as every other: OpenAPI, its models and its endpoint are the same. A shortcut runs the endpoint
for valid requests without matching paths, resolving dependencies and reading a response model, which would take half
a millisecond. FastAPI answers all other requests, so each rule and each message has one place.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from fastapi import APIRouter, Request, Response
from starlette.types import Receive, Scope, Send

from app.contract.validation import validate
from app.errors import InvalidInput, KnowledgeError
from app.web.access import Caller, Parts, SecuredRoute, answer, authenticate
from app.web.bodies import JsonRequest, end_own_intake, replay
from app.web.problems import refusal_of, respond_to

JSON_TYPES = frozenset({"application/json", "application/json; charset=utf-8"})


class _Deferred(Exception):
    """FastAPI has to answer the request."""


class Shortcut:
    """Runs the endpoint of one secured route; its arguments are a body of type `model`, the caller and the services."""

    def __init__(self, route: SecuredRoute, model: type) -> None:
        self._route, self._model = route, model

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> Receive | None:
        """Serve a request.

        A request that it cannot answer is returned, to be received again; its caller is then settled already.
        """
        scope["route"] = self._route
        request = JsonRequest(scope, receive)
        if scope["query_string"] or request.headers.get("content-type") not in JSON_TYPES:
            return receive
        try:
            await authenticate(request, self._route.role)
            response = await answer(request, self._handle)
        except _Deferred:
            request.state.settled_role = self._route.role
            return replay(await request.body(), receive)
        except KnowledgeError as error:
            response = respond_to(refusal_of(request, error))
        await response(scope, receive, send)
        return None

    async def _handle(self, request: Request) -> Response:
        try:
            value = await request.json()
            body: Any = validate(self._model, value)
        except InvalidInput:
            request.state.parsed = value
            end_own_intake()
            raise _Deferred from None
        except json.JSONDecodeError:
            end_own_intake()
            raise _Deferred from None
        caller: Caller = request.state.caller
        parts: Parts = request.app.state.parts
        response: Response = await self._route.endpoint(body, caller, parts.services)
        return response


Shortcuts: TypeAlias = Mapping[tuple[str, str], Shortcut]
"""By method and path."""


def shortcuts_to(router: APIRouter, models: Mapping[Callable[..., Any], type]) -> Shortcuts:
    """Shortcuts to these endpoints of a router, each with the model of its body."""
    return {
        (method, route.path): Shortcut(route, model)
        for endpoint, model in models.items()
        for route in router.routes
        if isinstance(route, SecuredRoute) and route.name == endpoint.__name__
        for method in route.methods or ()
    }
