"""`knowledge serve` in a separate process, with its output in a file."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

from tests.fixtures.http.callers import SECRET

PROGRAM = Path(sys.executable).with_name("knowledge")
START_SECONDS = 150.0
PROCESSES = 3
DRAIN_SECONDS = 2.0
"""Room for three requests on a busy machine."""


@dataclass(frozen=True, slots=True)
class ServedProcess:
    """A running service; `output` is the file with everything that it printed."""

    process: asyncio.subprocess.Process
    port: int
    output: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def terminate(self) -> int:
        """Ask the service to stop and wait until it has; returns the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return await self.process.wait()

    def read_output(self) -> str:
        return self.output.read_text("utf-8", "replace")


def settings_for(dsn: str, **others: str) -> dict[str, str]:
    """Settings of a service with the mock provider."""
    return {
        "DATABASE_URL": dsn,
        "EMBEDDING_PROVIDER": "mock",
        "EMBEDDING_DIMENSIONS": "16",
        "JWT_SECRET": SECRET,
        **others,
    }


@contextlib.asynccontextmanager
async def served(
    settings: Mapping[str, str], folder: Path, wrapper: Sequence[str] = ()
) -> AsyncIterator[ServedProcess]:
    """Start the service with only these settings and wait until it is ready."""
    async with launched(settings, folder, wrapper) as service:
        async with httpx.AsyncClient(trust_env=False) as client, asyncio.timeout(START_SECONDS):
            while not await is_ready(client, service.port):
                assert service.process.returncode is None, service.read_output()
                await asyncio.sleep(0.05)
        yield service


@contextlib.asynccontextmanager
async def launched(
    settings: Mapping[str, str], folder: Path, wrapper: Sequence[str] = ()
) -> AsyncIterator[ServedProcess]:
    """Start the service with only these settings, by the command `wrapper`."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    output = folder / f"service-{port}.log"
    with output.open("wb") as file:
        process = await asyncio.create_subprocess_exec(
            *wrapper,
            str(PROGRAM),
            "serve",
            cwd=folder,
            env={"PATH": os.environ["PATH"], "KB_PORT": str(port), **settings},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=file,
            stderr=file,
        )
    try:
        yield ServedProcess(process, port, output)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@contextlib.asynccontextmanager
async def several(dsn: str, folder: Path, wrapper: Sequence[str] = (), **others: str) -> AsyncIterator[ServedProcess]:
    """A service of three processes, all of which serve."""
    async with served(settings_of_several(dsn, **others), folder, wrapper) as service:
        await wait_for_line(service, "serving")
        yield service


def settings_of_several(dsn: str, **others: str) -> dict[str, str]:
    """Settings of a service of three processes."""
    return settings_for(
        dsn,
        KB_WORKERS=str(PROCESSES),
        KB_DRAIN_SECONDS=str(DRAIN_SECONDS),
        # However busy the machine is.
        KB_DATABASE_TIMEOUT="30",
        KB_LOG_FORMAT="json",
        **others,
    )


async def wait_for_line(service: ServedProcess, message: str, number: int = 1) -> None:
    """Wait until the service has logged a message so many times."""
    async with asyncio.timeout(60):
        while messages(service)[message] < number:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


def messages(service: ServedProcess) -> Counter[str]:
    """The number of times that each message was logged."""
    lines = [line for line in service.read_output().splitlines() if line.startswith("{")]
    return Counter(json.loads(line)["message"] for line in lines)


def children(service: ServedProcess) -> list[psutil.Process]:
    """The processes of a service of several."""
    return psutil.Process(service.process.pid).children()


async def is_ready(client: httpx.AsyncClient, port: int) -> bool:
    """Whether the service on this port is ready."""
    try:
        return (await client.get(f"http://127.0.0.1:{port}/readyz")).status_code == 200
    except httpx.TransportError:
        return False
