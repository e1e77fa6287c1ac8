"""Requests that are slow, endless or no HTTP at all, over a real socket."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from starlette.types import Receive, Scope, Send

from app.api.http import connection
from app.api.http.body import Patience
from app.api.http.connection import MAX_HEAD_BYTES, MAX_HEADERS
from app.auth.tokens import TokenVerifier
from app.composition.services import Services
from app.main import create_app
from app.settings import Settings
from tests.fixtures.http.callers import Caller
from tests.fixtures.http.serving import serve

HOST = b"Host: x\r\n"


@dataclass(frozen=True, slots=True)
class Line:
    """A connection to the service."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        """Send bytes; what the service no longer takes is dropped."""
        with contextlib.suppress(ConnectionError):
            self.writer.write(data)
            await self.writer.drain()

    async def read(self, seconds: float = 10) -> bytes:
        """Everything until the service closes the connection. Raises TimeoutError when it does not."""
        answer = b""
        async with asyncio.timeout(seconds):
            with contextlib.suppress(ConnectionError):
                while part := await self.reader.read(65_536):
                    answer += part
        return answer


@contextlib.asynccontextmanager
async def connect(address: str) -> AsyncIterator[Line]:
    """A connection to a served application."""
    host, port = address.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield Line(reader, writer)
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def expect_closing_problem(answer: bytes, status: int) -> dict[str, object]:
    """The problem of an answer that ends its connection."""
    head, _, body = answer.partition(b"\r\n\r\n")
    lines = head.decode().lower().split("\r\n")
    assert lines[0].startswith(f"http/1.1 {status} "), answer[:300]
    assert "content-type: application/problem+json" in lines
    assert "connection: close" in lines
    problem: dict[str, object] = json.loads(body)
    assert problem["status"] == status
    assert f"x-request-id: {problem['request_id']}" in lines
    return problem


async def test_a_head_of_the_greatest_length_is_read(address: str) -> None:
    fields = b"".join(b"X-%d: a\r\n" % number for number in range(MAX_HEADERS - 3))
    long = b"X-Long: " + b"a" * (MAX_HEAD_BYTES - len(fields) - 200) + b"\r\n"
    async with connect(address) as line:
        await line.send(b"GET /healthz HTTP/1.1\r\n" + HOST + fields + long + b"Connection: close\r\n\r\n")
        assert (await line.read()).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "head",
    [
        b"GET /healthz HTTP/1.1\r\n" + HOST + b"X-Long: " + b"a" * MAX_HEAD_BYTES + b"\r\n\r\n",
        b"GET /healthz?" + b"a" * MAX_HEAD_BYTES + b" HTTP/1.1\r\n" + HOST + b"\r\n",
        b"GET /healthz HTTP/1.1\r\n" + HOST + b"X: y\r\n" * (MAX_HEADERS + 1) + b"\r\n",
        b"POST /knowledge/search HTTP/1.1\r\n" + HOST + b"X: y\r\n" * MAX_HEADERS + b"Content-Length: 9\r\n\r\n{}",
        b"GET /healthz HTTP/1.1\r\n" + HOST + b"Authorization: Bearer " + b"a" * 5_000_000 + b"\r\n\r\n",
    ],
    ids=["header", "address", "number", "number with a body", "token of 5 MB"],
)  # fmt: skip
async def test_a_head_over_the_limit_is_refused(address: str, head: bytes) -> None:
    async with connect(address) as line:
        sending = asyncio.create_task(line.send(head))
        answer = await line.read()
        await sending
    # Where the caller was still sending, the end of the connection may reach it before the answer does.
    if answer or len(head) < 2 * MAX_HEAD_BYTES:
        assert "limit" in str(expect_closing_problem(answer, 431)["detail"])


@pytest.mark.parametrize("endless", [b"a", b"X: y\r\n"], ids=["a header", "headers"])
async def test_a_head_without_end_is_cut_off(address: str, endless: bytes) -> None:
    async with connect(address) as line:
        await line.send(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-")
        reading = asyncio.create_task(line.read())
        sent = 0
        while not reading.done():
            await line.send(endless * 1_000)
            sent += len(endless) * 1_000
            assert sent < 10_000_000, "the service reads on and on"
            await asyncio.sleep(0)
        await reading
    assert sent > MAX_HEAD_BYTES - 10_000


JSON = b"Content-Type: application/json\r\n"
CHUNKED = b"POST /knowledge/search HTTP/1.1\r\n" + HOST + JSON + b"Transfer-Encoding: chunked\r\n"
QUERY = b'\r\n11\r\n{"query": "word"}\r\n'


@pytest.mark.parametrize("authorised", [False, True], ids=["without a token", "with a token"])
@pytest.mark.parametrize(
    ("begin", "endless"),
    [
        (CHUNKED + QUERY + b"0\r\n", b"X-Trailer: aaaa\r\n"),
        (CHUNKED + QUERY + b"0\r\nX-Trailer: ", b"a" * 16),
        (CHUNKED + QUERY + b"1;", b"a" * 16),
        (CHUNKED + QUERY, b"0" * 16),
        (CHUNKED + QUERY + b"0\r\n\r\n", b"\r\n" * 8),
    ],
    ids=["trailers", "a trailer", "an extension of a chunk", "a size of a chunk", "empty lines"],
)
async def test_what_comes_without_end_beside_a_body_is_cut_off(
    address: str, caller: Caller, begin: bytes, endless: bytes, authorised: bool
) -> None:
    token = b"Authorization: Bearer " + caller.token.encode() + b"\r\n" if authorised else b""
    async with connect(address) as line:
        await line.send(begin.replace(b"Host: x\r\n", b"Host: x\r\n" + token))
        reading = asyncio.create_task(line.read())
        sent = 0
        while not reading.done():
            await line.send(endless * 1_000)
            sent += len(endless) * 1_000
            assert sent < 10_000_000, "the service reads on and on"
            await asyncio.sleep(0)
        answer = await reading
    assert answer.count(b"HTTP/1.1 ") <= 1, "a second answer to one request"
    assert sent > MAX_HEAD_BYTES - 10_000


async def test_trailers_are_no_headers_of_their_request(
    settings: Settings, api_services: Services, verifier: TokenVerifier, admin: Caller
) -> None:
    app, seen = create_app(settings, api_services, verifier), []

    async def look(scope: Scope, receive: Receive, send: Send) -> None:
        await app(scope, receive, send)
        if scope["type"] == "http":
            seen.append([name for name, _ in scope["headers"]])

    trailers = b"0\r\nX-Trailer: a\r\nIf-Match: b\r\n\r\n"
    token = b"Connection: close\r\nAuthorization: Bearer " + admin.token.encode() + b"\r\n"
    async with serve(look) as url, connect(url) as line:
        await line.send(CHUNKED + token + QUERY + trailers)
        assert (await line.read()).startswith(b"HTTP/1.1 200 ")
    assert seen == [[b"host", b"content-type", b"transfer-encoding", b"connection", b"authorization"]]


async def test_trailers_within_the_limit_and_small_chunks_are_read(address: str, caller: Caller) -> None:
    """Sizes of chunks are beside the body too, but a body that goes on is waited for."""
    head = CHUNKED + b"Connection: close\r\nAuthorization: Bearer " + caller.token.encode() + b"\r\n\r\n"
    body = b'{"query": "word"' + b" " * 30_000 + b"}"
    async with connect(address) as line:
        await line.send(head + b"".join(b"1\r\n%c\r\n" % byte for byte in body))
        await line.send(b"0\r\n" + b"X-Trailer: a\r\n" * 2_000 + b"\r\n")
        assert (await line.read()).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "nonsense",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"GET /healthz HTTP/9.9\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost : x\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: a\x00b\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /knowledge/search HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        b"POST /knowledge/search HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST /knowledge/search HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    ],
)
async def test_what_is_no_http_is_a_problem(address: str, nonsense: bytes) -> None:
    async with connect(address) as line:
        await line.send(nonsense)
        expect_closing_problem(await line.read(), 400)


async def test_a_request_smuggled_behind_another_is_not_served(address: str, caller: Caller) -> None:
    smuggled = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
    head = b"POST /knowledge/search HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + caller.token.encode()
    both = b"\r\nContent-Type: application/json\r\nContent-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    async with connect(address) as line:
        await line.send(head + both % len(smuggled) + smuggled)
        answer = await line.read()
    assert b"knowledge_requests_total" not in answer
    expect_closing_problem(answer, 400)


async def test_requests_in_a_row_are_all_answered(address: str) -> None:
    one = b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Long: " + b"a" * 30_000 + b"\r\n\r\n"
    async with connect(address) as line:
        await line.send(one * 10 + one.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        assert (await line.read()).count(b"HTTP/1.1 200 OK") == 11


async def test_a_websocket_is_not_opened(address: str) -> None:
    upgrade = b"Connection: close, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    async with connect(address) as line:
        await line.send(b"GET /healthz HTTP/1.1\r\n" + HOST + upgrade + b"Sec-WebSocket-Key: YQ==\r\n\r\n")
        assert b" 101 " not in (await line.read()).split(b"\r\n")[0]


@pytest.fixture
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slow heads are waited for for a fraction of a second."""
    monkeypatch.setattr(connection, "HEAD_SECONDS", 0.3)


@pytest.mark.usefixtures("hurry")
@pytest.mark.parametrize("begin", [b"GET /healthz HTTP/1.1\r\nHost: ", b"P"])
async def test_a_head_that_does_not_end_in_time_is_refused(address: str, begin: bytes) -> None:
    async with connect(address) as line:
        await line.send(begin)
        reading = asyncio.create_task(line.read())
        for _ in range(100):
            if reading.done():
                break
            await line.send(b"x")
            await asyncio.sleep(0.05)
        answer = await reading
        if begin != b"P":  # "Pxx" is no method, which is found out first
            expect_closing_problem(answer, 408)


@pytest.mark.usefixtures("hurry")
async def test_a_connection_without_a_request_is_closed(address: str) -> None:
    async with connect(address) as line:
        assert await line.read() == b""
    async with connect(address) as line:
        await line.send(b"\r\n\r\n")
        assert await line.read() == b""


@pytest.mark.usefixtures("hurry")
async def test_a_second_head_that_does_not_end_in_time_is_refused(address: str) -> None:
    async with connect(address) as line:
        await line.send(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /healthz HTTP/1.1\r\nHo")
        answer = await line.read()
    first, _, second = answer.partition(b'{"status":"ok"}')
    assert first.startswith(b"HTTP/1.1 200 ")
    expect_closing_problem(second, 408)


@pytest.mark.usefixtures("hurry")
async def test_a_request_that_takes_long_to_answer_is_not_cut_off(address: str, caller: Caller) -> None:
    head = b"POST /knowledge/search HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer "
    kind = b"\r\nContent-Type: application/json\r\nContent-Length: 17\r\n\r\n"
    async with connect(address) as line:
        await line.send(head + caller.token.encode() + kind + b'{"query": ')
        await asyncio.sleep(0.6)
        await line.send(b'"word"}')
        assert (await line.read()).startswith(b"HTTP/1.1 200 ")


@contextlib.asynccontextmanager
async def serve_with(
    patience: Patience, settings: Settings, services: Services, verifier: TokenVerifier
) -> AsyncIterator[str]:
    """An application of this patience with slow bodies; gives its address."""
    app = create_app(settings, services, verifier)
    guards = [layer for layer in app.user_middleware if getattr(layer.cls, "__name__", "") == "RequestGuard"]
    guards[0].kwargs["patience"] = patience
    async with serve(app) as url:
        yield url


async def test_a_body_that_stalls_is_refused(
    settings: Settings, api_services: Services, verifier: TokenVerifier, admin: Caller
) -> None:
    async with (
        serve_with(Patience(stall=0.2), settings, api_services, verifier) as url,
        connect(url) as line,
    ):
        await line.send(make_search_head(admin, 1_000) + b'{"query": ')
        expect_closing_problem(await line.read(), 408)
    async with (
        serve_with(Patience(stall=0.2), settings, api_services, verifier) as url,
        connect(url) as line,
    ):
        await line.send(make_search_head(admin, 40 << 20) + b'{"query": ')
        expect_closing_problem(await line.read(), 413)


async def test_a_body_that_drips_is_refused(
    settings: Settings, api_services: Services, verifier: TokenVerifier, admin: Caller
) -> None:
    async with (
        serve_with(Patience(grace=0.5), settings, api_services, verifier) as url,
        connect(url) as line,
    ):
        await line.send(make_search_head(admin, 1_000_000) + b'{"query": "')
        reading = asyncio.create_task(line.read())
        for _ in range(200):
            if reading.done():
                break
            await line.send(b"x")
            await asyncio.sleep(0.02)
        expect_closing_problem(await reading, 408)


def make_search_head(caller: Caller, length: int) -> bytes:
    """The head of a search whose body has this length."""
    head = f"POST /knowledge/search HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {caller.token}\r\n"
    return f"{head}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n".encode()


async def test_an_answer_that_is_not_read_ends_its_connection(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "UNREAD_SECONDS", 0.3)
    one = b"GET /docs/files/swagger-ui-bundle.js HTTP/1.1\r\nHost: x\r\n\r\n"
    async with connect(address) as line:
        line.reader._transport.pause_reading()  # type: ignore[attr-defined]
        await line.send(one * 20)
        await asyncio.sleep(1.0)
        line.reader._transport.resume_reading()  # type: ignore[attr-defined]
        answer = await line.read()
    assert answer.count(b"HTTP/1.1 200 OK") < 20
