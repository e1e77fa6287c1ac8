"""The service over HTTP: `knowledge serve` with its defaults, on the same database as an external one."""

import asyncio
import contextlib
import os
import secrets
import signal
import socket
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Mapping
from urllib.parse import urlsplit
from uuid import UUID

import orjson
import psutil

from app.auth.issuing import issue_token
from app.auth.principal import Role
from app.composition.database import DatabaseAddresses
from app.settings import Settings
from benchmarks.contender import SERVICE, BenchmarkFailed, Contender, Question, Race
from benchmarks.corpus.population import entry_number
from benchmarks.corpus.stock import RARE
from benchmarks.place import KEPT, ROOT

START_SECONDS = 180


@contextlib.asynccontextmanager
async def enter(race: Race) -> AsyncIterator[Contender]:
    """A running service and keep-alive connections to it."""
    port = free_port()
    secret = secrets.token_urlsafe(48)
    token = issue_token(secret, tenant_id=race.dataset.tenant_id, roles={Role.READER}, subject="benchmark", ttl=7200)
    async with serve(race.settings, race.addresses, port, secret) as process:
        client = Client(f"http://127.0.0.1:{port}/knowledge/search", token)

        async def search(question: Question) -> int:
            answer = await client.post({"query": question.text})
            return len(orjson.loads(answer)["results"])

        async def nearest(question: Question, rare: bool) -> list[int]:
            body = {"query": question.text, "mode": "semantic", "similarity_threshold": 0.0}
            answer = await client.post({**body, "tags": [RARE]} if rare else body)
            return [entry_number(UUID(hit["id"])) for hit in orjson.loads(answer)["results"]]

        def memory() -> int:
            server = psutil.Process(process.pid)
            return sum(one.memory_info().rss for one in (server, *server.children(recursive=True)))

        try:
            yield Contender(SERVICE, search, memory=memory, nearest=nearest)
        finally:
            client.close()


class Client:
    """POST JSON over kept connections. An HTTP library would take longer than the service."""

    def __init__(self, url: str, token: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "127.0.0.1", parts.port or 80
        self._head = (
            f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nAuthorization: Bearer {token}\r\n"
            "Content-Type: application/json\r\nContent-Length: "
        ).encode()
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def post(self, value: object) -> bytes:
        """Send one request; returns the body. Raises BenchmarkFailed unless the status is 200."""
        body = orjson.dumps(value)
        request = self._head + str(len(body)).encode() + b"\r\n\r\n" + body
        while self._idle:
            reader, writer = self._idle.pop()
            try:
                return await self._exchange(reader, writer, request)
            except (asyncio.IncompleteReadError, ConnectionError):
                writer.close()  # the service closes connections that were idle for long
        reader, writer = await asyncio.open_connection(self._host, self._port)
        return await self._exchange(reader, writer, request)

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> bytes:
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        _, _, rest = head.lower().partition(b"content-length:")
        answer = await reader.readexactly(int(rest.split(b"\r\n", 1)[0]))
        if not head.startswith(b"HTTP/1.1 200"):
            raise BenchmarkFailed(f"the service answered {head.splitlines()[0].decode()}: {answer[:500].decode()}")
        self._idle.append((reader, writer))
        return answer

    def close(self) -> None:
        """Close all connections."""
        for _, writer in self._idle:
            writer.close()


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
