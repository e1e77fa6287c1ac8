"""Bodies that are announced and do not come, over real sockets: they take no room from other tenants."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace

import httpx
import pytest

from app.auth.principal import Role
from app.auth.tokens import TokenVerifier
from app.composition.services import Services
from app.contract.administration import NewTenant
from app.knowledge.tenants.admission import BODY_BYTES, BODY_TOTAL, Admission
from app.main import create_app
from app.settings import Settings
from tests.fixtures.http.callers import Caller, make_token
from tests.fixtures.http.serving import serve
from tests.hostile.line import Line, connect

BULK = "/knowledge/entries/bulk"
SLOW = BODY_TOTAL // BODY_BYTES + 1
"""Tenants whose announced bodies are more than the bytes for all tenants."""


async def announce(line: Line, token: str) -> None:
    """Announce a body of the maximum length and send its beginning."""
    head = f"POST {BULK} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
    await line.send(f'{head}Content-Length: {BODY_BYTES}\r\n\r\n{{"entries": ['.encode())


@pytest.mark.slow
async def test_slow_bodies_of_several_tenants_leave_room_for_another_tenants_body(
    settings: Settings, api_services: Services, verifier: TokenVerifier, admin: Caller
) -> None:
    admission = Admission(patience=0.5)
    app = create_app(settings, replace(api_services, admission=admission), verifier)
    slow = [await api_services.tenants.create(NewTenant(f"slow-{number}"), actor="test") for number in range(SLOW)]
    body = b'{"entries": [], "unknown": "%b"}' % (b"x" * (BODY_BYTES - 100))
    headers = {"Authorization": f"Bearer {admin.token}", "Content-Type": "application/json"}
    async with serve(app) as address, contextlib.AsyncExitStack() as stack:
        lines = []
        for tenant in slow:
            lines.append(await stack.enter_async_context(connect(address)))
            await announce(lines[-1], make_token(tenant.id, Role.CREATOR))
        async with httpx.AsyncClient(base_url=address, trust_env=False) as client:
            async with contextlib.AsyncExitStack() as waiting:
                # All of them have begun before the other body comes. Of the two of one tenant, the server may read
                # either first.
                line = await waiting.enter_async_context(connect(address))
                await announce(line, make_token(slow[-1].id, Role.CREATOR))
                reads = [asyncio.create_task(one.read()) for one in (lines[-1], line)]
                answered, others = await asyncio.wait(reads, return_when=asyncio.FIRST_COMPLETED)
                for other in others:
                    other.cancel()
                refusal = answered.pop().result()
                assert refusal.startswith(b"HTTP/1.1 429 "), "its tenant has all of its bytes"
            answer = await client.post(BULK, content=body, headers=headers, timeout=60)
    assert answer.status_code == 422, answer.text
    assert admission._arrivals.held == 0
    for tenant in slow:
        await api_services.tenants.delete(tenant.id, actor="test")
