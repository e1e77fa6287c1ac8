"""A webhook endpoint on a real port that records its requests, and a scripted resolver."""

import asyncio
import base64
import contextlib
import hashlib
import hmac
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from app.knowledge.subscriptions.webhooks import Resolve, Targets

ANYWHERE = Targets(allow_private=True, ports=(range(1, 65_536),))
"""Also this machine, at the ports that tests listen on."""


def resolving(*addresses: str) -> Resolve:
    """A resolver that returns these addresses for every name."""

    async def resolve(host: str, port: int) -> Sequence[str]:
        return addresses

    return resolve


@dataclass(frozen=True, slots=True)
class Received:
    """One recorded request."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def message(self) -> dict[str, Any]:
        parsed: dict[str, Any] = orjson.loads(self.body)
        return parsed

    @property
    def content(self) -> str:
        content: str = self.message["data"]["entry"]["content"]
        return content

    @property
    def is_challenge(self) -> bool:
        return b'"subscription.challenge"' in self.body

    @property
    def challenge(self) -> str:
        challenge: str = self.message["data"]["challenge"]
        return challenge

    def is_signed_with(self, secret: str) -> bool:
        """Follows the text of the specification, independently of the code that signs."""
        key = base64.b64decode(secret.removeprefix("whsec_"))
        signed = f"{self.headers['webhook-id']}.{self.headers['webhook-timestamp']}.".encode() + self.body
        expected = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
        return f"v1,{expected}" in self.headers["webhook-signature"].split(" ")


@dataclass
class Endpoint:
    """Responds 200, or `answer` of the request's number (from 1); None closes the connection.

    Challenges are recorded separately, and answered by `agree`: the status and the body; None closes the connection.
    """

    received: list[Received] = field(default_factory=list)
    challenges: list[Received] = field(default_factory=list)
    agree: Callable[[Received], tuple[str, str] | None] = lambda asked: ("200 OK", asked.challenge)
    before_agreeing: Callable[[Received], Awaitable[None]] | None = None
    answer: Callable[[int], str | None] = lambda _: "200 OK"
    extra: str = ""
    hold: asyncio.Event | None = None
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?key=abc"

    async def wait(self) -> None:
        """Return when a message has arrived."""
        async with asyncio.timeout(60):
            while not self.received:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            line, *lines = head.strip().split("\r\n")
            headers = {name.lower(): value for name, _, value in (text.partition(": ") for text in lines)}
            body = await reader.readexactly(int(headers["content-length"]))
            taken = Received(line.split(" ")[1], headers, body)
            if taken.is_challenge:
                self.challenges.append(taken)
                if self.before_agreeing is not None:
                    await self.before_agreeing(taken)
                answer = self.agree(taken)
                if answer is not None:
                    said = answer[1].encode()
                    head = f"HTTP/1.1 {answer[0]}\r\ncontent-length: {len(said)}\r\n\r\n"
                    writer.write(head.encode() + said)
                    await writer.drain()
                writer.close()
                return
            self.received.append(taken)
            status = self.answer(len(self.received))
            if self.hold is not None:
                await self.hold.wait()
            if status is not None:
                writer.write(f"HTTP/1.1 {status}\r\ncontent-length: 2\r\n{self.extra}\r\n{{}}".encode())
                await writer.drain()
        writer.close()


@contextlib.asynccontextmanager
async def open_endpoint(tls: ssl.SSLContext | None = None) -> AsyncIterator[Endpoint]:
    """An endpoint on a free port of this machine."""
    endpoint = Endpoint()
    server = await asyncio.start_server(endpoint.serve, "127.0.0.1", 0, ssl=tls)
    endpoint.port = server.sockets[0].getsockname()[1]
    try:
        yield endpoint
    finally:
        if endpoint.hold is not None:
            endpoint.hold.set()
        server.close()
