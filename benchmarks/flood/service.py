"""The service under a flood, in a process of its own."""

import asyncio
import contextlib
import os
import resource
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import httpx
import psutil

from app.settings import Settings
from benchmarks.place import KEPT, ROOT

START_SECONDS = 60
CALM_SECONDS = 45
"""Time for what a flood left behind: entries to embed, files to parse."""

CALM = 0.15
"""Share of one core that a service without callers uses at most."""

DESCRIPTORS = 400
"""Soft limit of open files with which the service starts, lower than usual: it has to raise it."""

SAMPLE_SECONDS = 0.1
LOG = KEPT / "flood" / "service.log"


@dataclass(frozen=True, slots=True)
class ServiceProcess:
    """A running service."""

    url: str
    pid: int

    def memory(self) -> int:
        """Bytes of the service and its children; of a page that n processes share, each has 1/n.

        Without the rights to read that, each has the whole page.
        """
        return sum(_read_memory(process) for process in self._processes())

    @contextlib.asynccontextmanager
    async def watch(self) -> AsyncIterator[list[int]]:
        """Read the memory while the block runs: what two readings in a row have found.

        The processes are read one after the other, so a child that starts in between is counted with the pages that
        it shares with the service.
        """
        seen: list[int] = []

        async def read() -> None:
            before = await asyncio.to_thread(self.memory)
            while True:
                await asyncio.sleep(SAMPLE_SECONDS)
                now = await asyncio.to_thread(self.memory)
                seen.append(min(before, now))
                before = now

        reading = asyncio.create_task(read())
        try:
            yield seen
        finally:
            reading.cancel()

    async def calm_down(self) -> bool:
        """Wait until the service has done what earlier requests left; return whether it came to that."""
        for _ in range(CALM_SECONDS):
            before = self._cpu_seconds()
            await asyncio.sleep(1)
            if self._cpu_seconds() - before < CALM:
                return True
        return False

    def _cpu_seconds(self) -> float:
        total = 0.0
        for process in self._processes():
            with contextlib.suppress(psutil.Error):
                times = process.cpu_times()
                total += times.user + times.system
        return total

    def _processes(self) -> Iterator[psutil.Process]:
        service = psutil.Process(self.pid)
        yield service
        yield from service.children(recursive=True)


def _read_memory(process: psutil.Process) -> int:
    with contextlib.suppress(psutil.Error):
        try:
            return int(process.memory_full_info().pss)
        except psutil.AccessDenied:  # no other process of its user may inspect the service, but root may
            return int(process.memory_info().rss)
    return 0


@contextlib.asynccontextmanager
async def serve(settings: Settings) -> AsyncIterator[ServiceProcess]:
    """`knowledge serve` with the settings of the environment, except for the data folder and the address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    place = {"KB_DATA_DIR": str(settings.database.data_dir.resolve()), "KB_PORT": str(port)}
    with LOG.open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", "from app.cli.main import run; run()", "serve"),
            cwd=ROOT,
            env={**os.environ, **place},
            stdout=log,
            stderr=log,
            preexec_fn=_lower_limit,
        )
    service = ServiceProcess(f"http://127.0.0.1:{port}", process.pid)
    try:
        await _wait_until_ready(service.url, process)
        yield service
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            await process.wait()


async def _wait_until_ready(url: str, process: asyncio.subprocess.Process) -> None:
    async with httpx.AsyncClient(trust_env=False) as client, asyncio.timeout(START_SECONDS):
        while True:
            if process.returncode is not None:
                raise SystemExit(f"the service did not start; {LOG} has the reason")
            with contextlib.suppress(httpx.TransportError):
                if (await client.get(f"{url}/readyz")).status_code == 200:
                    return
            await asyncio.sleep(0.1)


def _lower_limit() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, hard))
