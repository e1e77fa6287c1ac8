"""Run `knowledge serve` for a benchmark."""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Mapping

import asyncpg

from app.composition.database import DatabaseAddresses
from app.errors import KnowledgeError
from app.settings import Settings
from benchmarks.place import KEPT, ROOT

START_SECONDS = 180

LEFT_ALONE = 75.0
"""Seconds: a little more than `autovacuum_naptime`."""

VACUUMING = "select exists (select from pg_stat_activity where backend_type = 'autovacuum worker')"


class BenchmarkFailed(KnowledgeError):
    """A contender failed to answer; the text describes how."""


@contextlib.asynccontextmanager
async def serve(settings: Settings, addresses: DatabaseAddresses, port: int, secret: str) -> AsyncIterator[Process]:
    """Start the service as a user would with a Postgres of their own: its other settings are the defaults."""
    embedding = settings.embedding
    environment = {
        "DATABASE_URL": addresses.service,
        "EMBEDDING_PROVIDER": embedding.provider,
        "EMBEDDING_DIMENSIONS": str(embedding.dimensions or ""),
        "JWT_SECRET": secret,
    }
    async with _start(port, environment) as process:
        yield process


@contextlib.asynccontextmanager
async def serve_installation(settings: Settings) -> AsyncIterator[tuple[int, int]]:
    """Start the service with an embedded Postgres and all defaults; yields its port and the id of its process."""
    port = free_port()
    async with _start(port, {"KB_DATA_DIR": str(settings.database.data_dir.resolve())}) as process:
        yield port, process.pid


@contextlib.asynccontextmanager
async def _start(port: int, settings: Mapping[str, str]) -> AsyncIterator[Process]:
    others = ("KB_", "DATABASE_", "EMBEDDING_", "JWT_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(others)}
    environment |= {**settings, "KB_PORT": str(port)}
    code = "from app.cli.main import run; run()"
    KEPT.mkdir(exist_ok=True)
    with (KEPT / "service.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", code, "serve", cwd=ROOT, env=environment, stdout=log, stderr=log
        )
    try:
        await await_ready(process, port)
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            await process.wait()


async def await_ready(process: Process, port: int) -> None:
    """Wait until the service is ready. Raises BenchmarkFailed if it ends."""
    async with asyncio.timeout(START_SECONDS):
        while True:
            if process.returncode is not None:
                raise BenchmarkFailed(f"the service did not start; {KEPT / 'service.log'} says why")
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                line = await reader.readline()
                writer.close()
                if b" 200 " in line:
                    return
            await asyncio.sleep(0.1)


def free_port() -> int:
    """A port that no program listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


async def leave_alone(settings: Settings, admin_dsn: str, seconds: float = LEFT_ALONE) -> None:
    """Let the service run without callers, until autovacuum has had its turn and has finished."""
    async with serve_installation(settings):
        await asyncio.sleep(seconds)
        connection = await asyncpg.connect(admin_dsn)
        try:
            while await connection.fetchval(VACUUMING):  # noqa: ASYNC110  # the work of another process
                await asyncio.sleep(1)
        finally:
            await connection.close()
