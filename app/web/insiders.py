"""Commands of the user that runs the service: they come through a door of their own, with the rights of the service.

A scope has an Insider only if this module, or a program that calls the application itself, has put it there. A server
makes the scope of each request, and nothing that a request contains gets under this key.
"""

import asyncio
import hmac
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.auth.principal import Principal, Role
from app.contract.vocabulary import COMMAND_LINE, LOOKS_ONLY_HEADER, TENANT_HEADER

INSIDER = "knowledge.insider"
"""The key of a scope."""
TENANT, LOOKS_ONLY = (name.lower().encode() for name in (TENANT_HEADER, LOOKS_ONLY_HEADER))
API = ("/knowledge/", "/admin/")
KNOCK = "/"
"""The path at which a command asks whether this door answers, before it sends its request."""


@dataclass(frozen=True, slots=True)
class Insider:
    """A command in the tenant with this slug, or at the platform without one.

    `looks_only`: the request is a step of a command, such as a look whether its work is done, and not what its user
    asked for; the audit trail does not record what it reads.
    """

    slug: str | None
    looks_only: bool = False

    @property
    def platform_admin(self) -> Principal:
        """The command at the platform."""
        return Principal(COMMAND_LINE, None, frozenset({Role.PLATFORM_ADMIN}))


def find_insider(scope: Scope) -> Insider | None:
    """The command that sent the request, if it was one."""
    found = scope.get(INSIDER)
    return found if isinstance(found, Insider) else None


class PrivateDoor:
    """Serves the API to commands that have the key. A request ends when its command does."""

    def __init__(self, app: ASGIApp, key: str) -> None:
        self._app = app
        self._expected = f"Bearer {key}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        headers = dict(scope["headers"])
        if not hmac.compare_digest(headers.get(b"authorization", b""), self._expected):
            await _answer(send, HTTPStatus.UNAUTHORIZED)
        elif scope["path"] == KNOCK:
            await _answer(send, HTTPStatus.NO_CONTENT)
        elif not scope["path"].startswith(API):
            await _answer(send, HTTPStatus.NOT_FOUND)
        else:
            slug = headers.get(TENANT)
            insider = Insider(None if slug is None else unquote(slug.decode("latin-1")), LOOKS_ONLY in headers)
            await _serve_while_connected(self._app, {**scope, INSIDER: insider}, receive, send)


async def _answer(send: Send, status: HTTPStatus) -> None:
    await send({"type": "http.response.start", "status": status.value, "headers": []})
    await send({"type": "http.response.body"})


async def _serve_while_connected(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Have the request answered; cancel that when the connection ends."""
    messages: asyncio.Queue[Message] = asyncio.Queue(1)

    async def pass_on() -> None:
        while (message := await receive())["type"] != "http.disconnect":
            await messages.put(message)

    work: asyncio.Task[Any] = asyncio.ensure_future(app(scope, messages.get, send))
    passing = asyncio.ensure_future(pass_on())
    try:
        await asyncio.wait((work, passing), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (work, passing):
            task.cancel()
        await asyncio.wait((work, passing))
    if not work.cancelled():
        work.result()
