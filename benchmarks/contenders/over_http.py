"""The service over HTTP: `knowledge serve` with its defaults, on the same database as an external one."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from urllib.parse import urlsplit
from uuid import UUID

import orjson
import psutil

from app.auth.issuing import issue_token
from app.auth.principal import Role
from benchmarks.contender import SERVICE, Contender, Question, Race
from benchmarks.corpus.population import entry_number
from benchmarks.corpus.stock import RARE
from benchmarks.serving import BenchmarkFailed, free_port, serve


@contextlib.asynccontextmanager
async def enter(race: Race) -> AsyncIterator[Contender]:
    """A running service and keep-alive connections to it."""
    port = free_port()
    secret = secrets.token_urlsafe(48)
    token = issue_token(secret, tenant_id=race.dataset.tenant_id, roles={Role.READER}, subject="benchmark", ttl=7200)
    async with serve(race.settings, race.addresses, port, secret) as process:
        client = Client(f"http://127.0.0.1:{port}/knowledge/search", token)

        async def search(question: Question) -> int:
            answer = await client.post({"query": question.text, "duplicates": "show"})
            return len(orjson.loads(answer)["results"])

        async def nearest(question: Question, rare: bool) -> list[int]:
            body = {"query": question.text, "mode": "semantic", "similarity_threshold": 0.0, "duplicates": "show"}
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
