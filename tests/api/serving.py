"""The application on a real port: in this loop, or in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx
import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp

from app.api.http.connection import BoundedConnection

ROOT = Path(__file__).parents[2]


@contextlib.asynccontextmanager
async def serve(app: FastAPI | ASGIApp) -> AsyncIterator[str]:
    """The app behind uvicorn in this loop, with the settings that the service uses; gives its address."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, http=BoundedConnection, ws="none", log_config=None, access_log=False)
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started:  # noqa: ASYNC110 (the server has no event for it)
        await asyncio.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await running
        listener.close()


@dataclass(frozen=True, slots=True)
class Service:
    """The service in a process of its own."""

    process: asyncio.subprocess.Process
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextlib.asynccontextmanager
async def start_service(settings: Mapping[str, str]) -> AsyncIterator[Service]:
    """Start `python -m tests.api.serving` with these settings alone, and wait until it is ready."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    environment = {"PATH": os.environ["PATH"], "KB_PORT": str(port), "KB_DRAIN_SECONDS": "0", **settings}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.api.serving",
        cwd=ROOT,
        env=environment,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with httpx.AsyncClient(trust_env=False) as client, asyncio.timeout(30):
            while True:
                assert process.returncode is None, "the service did not start"
                with contextlib.suppress(httpx.TransportError):
                    if (await client.get(f"http://127.0.0.1:{port}/readyz")).status_code == 200:
                        break
                await asyncio.sleep(0.05)
        yield Service(process, port)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def main() -> None:
    """Serve what the environment describes."""
    from app.main import create_app
    from app.settings import load_settings

    settings = load_settings(env_file=None)
    uvicorn.run(
        create_app(settings),
        host=settings.server.host,
        port=settings.server.port,
        http=BoundedConnection,
        ws="none",
        log_config=None,
    )


if __name__ == "__main__":
    main()
