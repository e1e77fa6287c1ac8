"""The tools over standard input and output, for a client that starts the service as a program of its own."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

from mcp.server.stdio import stdio_server

from app.auth.principal import Principal, Role
from app.composition.services import Services
from app.errors import TenantNotFound, Unauthenticated
from app.mcp.server import Context, build_server
from app.telemetry.logs import request_id
from app.web.access import Caller

MAX_LINE = 32 * 1024 * 1024
"""Longest message in bytes, as over HTTP."""


async def serve_stdio(services: Services, tenant_id: UUID, role: Role, subject: str) -> None:
    """Serve one client, who acts in the tenant with the role, until it closes our standard input."""
    principal = Principal(subject, tenant_id, frozenset({role}))

    async def find_caller(_context: Context) -> Caller:
        request_id.set(secrets.token_hex(8))
        try:
            return Caller(principal, await services.tenants.context(tenant_id))
        except TenantNotFound:
            raise Unauthenticated("the tenant does not exist") from None

    server = build_server(services, find_caller)
    lines: Any = await _open_input()
    async with stdio_server(stdin=lines) as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


async def _open_input() -> AsyncIterator[str] | None:
    """Lines of standard input that a signal can interrupt; None where it is no pipe, for the kit's own way.

    The kit reads in a thread, which keeps the process from ending until the next line comes.
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
