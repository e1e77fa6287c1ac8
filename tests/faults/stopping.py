"""A service that is stopped while it answers."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator

import httpx

from tests.faults.service import DRAIN_SECONDS, ServedProcess
from tests.fixtures.http.callers import Caller


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
    """Stop an instance and check its responses until it has ended, and its log."""
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
    expect_clean_log(service)


def expect_clean_log(service: ServedProcess) -> None:
    lines = [json.loads(line) for line in service.read_output().splitlines()]
    assert [line for line in lines if line["level"] in ("error", "critical")] == []
    assert "draining" in [line["message"] for line in lines]
