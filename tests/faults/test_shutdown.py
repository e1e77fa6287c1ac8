"""Instances are stopped and replaced under load, and no request fails."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from app.auth.principal import Role
from app.composition.services import Services
from app.knowledge.entries.drafts import EntryDraft
from tests.faults.balancer import balance
from tests.faults.load import calling
from tests.faults.service import ServedProcess, served, settings_for
from tests.fixtures.http.callers import Caller, make_token

CALLERS = 6
DRAIN_SECONDS = 2.0
"""Room for three requests on a busy machine."""


async def finish_slowly(service: ServedProcess, caller: Caller, begun: asyncio.Event) -> httpx.Response:
    """A search whose body arrives more slowly than the service drains."""

    async def body() -> AsyncIterator[bytes]:
        yield b'{"query": "harb'
        begun.set()
        await asyncio.sleep(DRAIN_SECONDS + 1)
        yield b'our", "mode": "keyword"}'

    return await caller.post(
        f"{service.url}/knowledge/search", content=body(), headers={"Content-Type": "application/json"}
    )


async def stop_at_work(service: ServedProcess, token: str) -> None:
    """Stop an instance and check its responses until it has ended."""
    async with httpx.AsyncClient(trust_env=False, timeout=30) as http:
        caller = Caller(http, None, token)
        begun = asyncio.Event()
        slow = asyncio.create_task(finish_slowly(service, caller, begun))
        await begun.wait()
        await asyncio.sleep(0.1)
        service.process.send_signal(signal.SIGTERM)
        while (answer := await http.get(f"{service.url}/readyz")).status_code == 200:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert answer.json()["detail"] == "the service is shutting down"
        still_served = await caller.post(f"{service.url}/knowledge/search", {"query": "harbour"})
        assert still_served.status_code == 200
        assert still_served.headers["connection"] == "close"
        assert (await slow).status_code == 200
    assert await service.process.wait() == 0


async def test_a_stopping_instance_is_not_ready_but_finishes_its_requests(
    service_dsn: str, services: Services, tmp_path: Path
) -> None:
    tenant = await services.tenants.create("stopped", actor="test")
    settings = settings_for(service_dsn, KB_DRAIN_SECONDS=str(DRAIN_SECONDS))
    async with served(settings, tmp_path) as service:
        await stop_at_work(service, make_token(tenant.id, Role.CREATOR))
    expect_clean_log(service)


def expect_clean_log(service: ServedProcess) -> None:
    lines = [json.loads(line) for line in service.read_output().splitlines()]
    assert [line for line in lines if line["level"] in ("error", "critical")] == []
    assert "draining" in [line["message"] for line in lines]


@pytest.mark.slow
async def test_a_rolling_restart_fails_no_request(
    service_dsn: str, services: Services, tmp_path: Path
) -> None:
    tenant = await services.tenants.create("served", actor="test")
    await services.entries.create(tenant.id, EntryDraft(content="The harbour opens at six"))
    token = make_token(tenant.id, Role.CREATOR)
    settings = settings_for(service_dsn, KB_DRAIN_SECONDS=str(DRAIN_SECONDS))
    async with (
        served(settings, tmp_path) as first,
        served(settings, tmp_path) as second,
        balance(first.port, second.port) as (balancer, url),
        contextlib.AsyncExitStack() as later,
    ):
        async with calling(url, token, CALLERS) as callers:
            await callers.wait_for_more()
            await stop_at_work(first, token)
            third = await later.enter_async_context(served(settings, tmp_path))
            balancer.add(third.port)
            await callers.wait_for_more()
            await asyncio.sleep(0.2)
            await stop_at_work(second, token)
            await callers.wait_for_more()
        assert await third.terminate() == 0
    assert callers.failures == []
    assert callers.answered > 100
    print(f"{callers.answered} answers while three instances were started and stopped")  # noqa: T201
    for service in (first, second, third):
        expect_clean_log(service)
