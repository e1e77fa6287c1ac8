"""`knowledge serve` in a separate process, with its output in a file."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.fixtures.http.callers import SECRET

PROGRAM = Path(sys.executable).with_name("knowledge")
START_SECONDS = 150.0


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
async def served(settings: Mapping[str, str], folder: Path) -> AsyncIterator[ServedProcess]:
    """Start the service with only these settings and wait until it is ready."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    output = folder / f"service-{port}.log"
    with output.open("wb") as file:
        process = await asyncio.create_subprocess_exec(
            str(PROGRAM),
            "serve",
            cwd=folder,
            env={"PATH": os.environ["PATH"], "KB_PORT": str(port), **settings},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=file,
            stderr=file,
        )
    service = ServedProcess(process, port, output)
    try:
        async with httpx.AsyncClient(trust_env=False) as client, asyncio.timeout(START_SECONDS):
            while not await is_ready(client, port):
                assert process.returncode is None, service.read_output()
                await asyncio.sleep(0.05)
        yield service
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def is_ready(client: httpx.AsyncClient, port: int) -> bool:
    """Whether the service on this port is ready."""
    try:
        return (await client.get(f"http://127.0.0.1:{port}/readyz")).status_code == 200
    except httpx.TransportError:
        return False
