"""The tools over standard input and output, for a client that starts the service as a subprocess."""

import asyncio
import os
import secrets
from collections.abc import AsyncIterator
from typing import Any

from mcp.server.stdio import stdio_server

from app.auth.principal import Principal, Role
from app.composition.services import Services
from app.contract.vocabulary import ToolSet
from app.errors import TenantNotFound, Unauthenticated
from app.mcp.answers.passages import Links
from app.mcp.server import Context, build_server
from app.telemetry.logs import request_id
from app.web.access import Caller

MAX_LINE = 32 * 1024 * 1024
"""Maximum size of a message in bytes, as over HTTP."""


async def serve_stdio(
    services: Services, principal: Principal, links: Links, tools: ToolSet, *, sees_all: bool = False
) -> None:
    """Serve one client, which acts as the principal in its tenant and lists `tools`, until it closes standard input.

    `sees_all`: it is an admin who asks to see all of the tenant, which the audit trail records.
    """
    tenant_id = principal.require_tenant(Role.READER)

    async def find_caller(_context: Context) -> Caller:
        request_id.set(secrets.token_hex(8))
        try:
            caller = Caller(principal, await services.tenants.context(tenant_id), sees_all)
            if sees_all:
                await services.trail.note_access(tenant_id, principal.subject)
            return caller
        except TenantNotFound:
            raise Unauthenticated("the tenant does not exist") from None

    server = build_server(services, find_caller, lambda _context: tools, links)
    lines: Any = await _open_input()
    async with stdio_server(stdin=lines) as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


async def _open_input() -> AsyncIterator[str] | None:
    """Open standard input so that a signal can interrupt reading; None if it is not a pipe and the SDK must read it.

    The SDK reads in a thread, which keeps the process running until the next line arrives.
    """
    reader = asyncio.StreamReader(limit=MAX_LINE)
    pipe = os.fdopen(os.dup(0), "rb", 0)
    try:
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    except (ValueError, OSError):
        pipe.close()
        return None
    return _read_lines(reader)


async def _read_lines(reader: asyncio.StreamReader) -> AsyncIterator[str]:
    while line := await reader.readline():
        yield line.decode("utf-8", "replace")
