"""A minimal load balancer: each new connection goes to the next instance that reports ready."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from tests.faults.proxy import FaultProxy, Target
from tests.faults.service import is_ready

POLL_SECONDS = 0.05


class Balancer:
    """Polls the readiness of its instances."""

    def __init__(self, *ports: int) -> None:
        self._ports = list(ports)
        self._ready: list[int] = list(ports)
        self._turn = 0

    def add(self, port: int) -> None:
        """Add an instance; it gets connections once it is ready."""
        self._ports.append(port)

    def choose(self) -> Target:
        """The target of the next connection."""
        self._turn += 1
        return "127.0.0.1", self._ready[self._turn % len(self._ready)]

    async def watch(self) -> None:
        """Poll the instances until cancelled."""
        # Each probe opens a new connection: only an instance that still accepts connections is ready.
        limits = httpx.Limits(max_keepalive_connections=0)
        async with httpx.AsyncClient(trust_env=False, timeout=1, limits=limits) as client:
            while True:
                ready = [port for port in self._ports if await is_ready(client, port)]
                self._ready = ready or self._ready
                await asyncio.sleep(POLL_SECONDS)


@asynccontextmanager
async def balance(*ports: int) -> AsyncIterator[tuple[Balancer, str]]:
    """A balancer over these instances, and its address."""
    balancer = Balancer(*ports)
    proxy = FaultProxy(balancer.choose)
    await proxy.listen()
    watching = asyncio.create_task(balancer.watch())
    try:
        yield balancer, f"http://127.0.0.1:{proxy.port}"
    finally:
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
        await proxy.refuse()
