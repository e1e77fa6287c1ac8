"""Hostile connections."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from app.auth.principal import Role
from app.auth.tokens import TokenVerifier
from app.composition.services import Services
from app.contract.administration import NewTenant
from app.knowledge.tenants.admission import BODY_BYTES, BODY_TOTAL, Admission
from app.main import create_app
from app.settings import Settings
from app.web import connection
from app.web.bodies import Patience
from app.web.connection import MAX_HEAD_BYTES, MAX_HEADERS
from tests.fixtures.http.callers import Caller, make_token
from tests.fixtures.http.serving import serve
from tests.hostile.line import Line, connect, expect_closing_problem

HOST = b"Host: x\r\n"


async def test_a_head_of_the_maximum_length_is_read(address: str) -> None:
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
    # While the caller is still sending, the connection may end before the response arrives.
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
async def test_endless_headers_and_trailers_are_cut_off(
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


async def test_trailers_do_not_become_headers_of_their_request(
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
    """Chunk sizes are not part of the body; a body that continues is read to its end."""
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
        b"nonsense\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: abc\r\n\r\n",
        b"POST /knowledge/search HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"GET /healthz HTTP/9.9\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost : x\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: a\x00b\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /knowledge/search HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        b"POST /knowledge/search HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST /knowledge/search HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    ],
)
async def test_bytes_that_are_not_http_are_refused(address: str, nonsense: bytes) -> None:
    async with connect(address) as line:
        await line.send(nonsense)
        expect_closing_problem(await line.read(), 400)


@pytest.mark.parametrize("hosts", [b"", b"Host: a\r\nhost: b\r\n", HOST + HOST])
async def test_a_request_without_exactly_one_host_is_refused(address: str, hosts: bytes) -> None:
    async with connect(address) as line:
        await line.send(b"GET /healthz HTTP/1.1\r\n" + hosts + b"\r\n")
        problem = expect_closing_problem(await line.read(), 400)
    assert problem["detail"] == "the request must have exactly one Host header"


async def test_http_1_0_needs_no_host(address: str) -> None:
    async with connect(address) as line:
        await line.send(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert (await line.read()).startswith(b"HTTP/1.1 200 ")


async def test_a_request_smuggled_behind_another_is_not_served(address: str, caller: Caller) -> None:
    smuggled = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
    head = b"POST /knowledge/search HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + caller.token.encode()
    both = b"\r\nContent-Type: application/json\r\nContent-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    async with connect(address) as line:
        await line.send(head + both % len(smuggled) + smuggled)
        answer = await line.read()
    assert b"knowledge_requests_total" not in answer
    expect_closing_problem(answer, 400)


async def test_pipelined_requests_are_all_answered(address: str) -> None:
    one = b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Long: " + b"a" * 30_000 + b"\r\n\r\n"
    async with connect(address) as line:
        await line.send(one * 10 + one.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        assert (await line.read()).count(b"HTTP/1.1 200 OK") == 11


async def test_a_websocket_is_not_opened(address: str) -> None:
    upgrade = b"Connection: close, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    async with connect(address) as line:
        await line.send(b"GET /healthz HTTP/1.1\r\n" + HOST + upgrade + b"Sec-WebSocket-Key: YQ==\r\n\r\n")
        assert b" 101 " not in (await line.read()).split(b"\r\n")[0]


@pytest.mark.parametrize(
    ("version", "framing", "status"),
    [
        ("1.1", b"Transfer-Encoding: gzip, chunked\r\n", 501),
        ("1.1", b"Transfer-Encoding: identity, chunked\r\n", 501),
        ("1.1", b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n", 501),
        ("1.1", b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", 400),
        ("1.1", b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", 400),
        ("1.0", b"Transfer-Encoding: chunked\r\n", 400),
        ("1.1", b"Transfer-Encoding: chunked, gzip\r\n", 400),
        ("1.1", b"Transfer-Encoding:\x0bchunked\r\n", 400),
        ("1.1", b"Content-Length: 4\r\nContent-Length: 5\r\n", 400),
        ("1.1", b"Content-Length: 4, 4\r\n", 400),
        ("1.1", b"Content-Length: +4\r\n", 400),
        ("1.1", b"X: a\r\n Content-Length: 4\r\n", 400),
        ("1.1", b"Transfer-Encoding : chunked\r\n", 400),
    ],
)
async def test_a_body_whose_end_is_ambiguous_is_refused(
    address: str, version: str, framing: bytes, status: int
) -> None:
    """Another server before this one could see another request in it."""
    head = f"POST /knowledge/search HTTP/{version}\r\n".encode() + HOST + JSON + framing
    async with connect(address) as line:
        await line.send(head + b"\r\n4\r\n{}  \r\n0\r\n\r\nGET /healthz HTTP/1.1\r\n" + HOST + b"\r\n")
        problem = expect_closing_problem(await line.read(), status)
    assert problem["type"] == f"/problems/{'malformed-request' if status == 400 else 'unknown-transfer-coding'}"


@pytest.mark.parametrize("body", [b"4\n{}  \r\n0\r\n\r\n", b"4\r\n{}  \n0\n\n", b"0x4\r\n{}  \r\n0\r\n\r\n"])
async def test_a_chunk_that_ends_differently_is_refused(address: str, body: bytes) -> None:
    async with connect(address) as line:
        await line.send(CHUNKED + b"\r\n" + body + b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n")
        answer = await line.read()
    assert b"200 OK" not in answer
    assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 401 "))


@pytest.fixture
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the time limit for a head, and for the rest of a body that was answered, to a fraction of a second."""
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
        if begin != b"P":  # "Pxx" is not a method, which is found first
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
async def test_a_request_with_a_slow_response_is_not_cut_off(address: str, caller: Caller) -> None:
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
    """Serve an application with this time limit for bodies; yields its address."""
    app = create_app(settings, services, verifier)
    layers = [layer for layer in app.user_middleware if getattr(layer.cls, "__name__", "") == "HttpLayer"]
    layers[0].kwargs["patience"] = patience
    async with serve(app) as url:
        yield url


@pytest.mark.usefixtures("hurry")
async def test_a_body_that_stalls_is_refused(
    settings: Settings, api_services: Services, verifier: TokenVerifier, admin: Caller
) -> None:
    async with serve_with(Patience(stall=0.2), settings, api_services, verifier) as url, connect(url) as line:
        await line.send(make_search_head(admin, 1_000) + b'{"query": ')
        expect_closing_problem(await line.read(), 408)


async def test_a_body_that_is_too_long_is_refused_before_it_comes(address: str, caller: Caller) -> None:
    async with connect(address) as line:
        await line.send(make_search_head(caller, 40 << 20))
        assert (await line.reader.readline()).startswith(b"HTTP/1.1 413 ")


@pytest.mark.usefixtures("hurry")
async def test_a_body_that_drips_is_refused(
    settings: Settings, api_services: Services, verifier: TokenVerifier, admin: Caller
) -> None:
    async with serve_with(Patience(grace=0.5), settings, api_services, verifier) as url, connect(url) as line:
        await line.send(make_search_head(admin, 200_000) + b'{"query": "')
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


async def test_a_response_that_is_not_read_ends_its_connection(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "UNREAD_SECONDS", 0.3)
    one = b"GET /docs/files/swagger-ui-bundle.js HTTP/1.1\r\nHost: x\r\n\r\n"
    async with connect(address) as line:
        line.reader._transport.pause_reading()  # type: ignore[attr-defined]
        await line.send(one * 20)
        await line.wait_until_dropped()
        line.reader._transport.resume_reading()  # type: ignore[attr-defined]
        answer = await line.read()
    assert answer.count(b"HTTP/1.1 200 OK") < 20


BULK = "/knowledge/entries/bulk"
SLOW = BODY_TOTAL // BODY_BYTES + 1
"""Tenants whose announced bodies are more than the bytes for all tenants."""


async def announce(line: Line, token: str) -> None:
    """Announce a body of the maximum length and send its beginning."""
    head = f"POST {BULK} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
    await line.send(f'{head}Content-Length: {BODY_BYTES}\r\n\r\n{{"entries": ['.encode())


@pytest.mark.slow
async def test_slow_bodies_of_several_tenants_leave_room_for_another_tenants_body(
    settings: Settings, api_services: Services, verifier: TokenVerifier, admin: Caller
) -> None:
    admission = Admission(patience=0.5)
    app = create_app(settings, replace(api_services, admission=admission), verifier)
    slow = [await api_services.tenants.create(NewTenant(f"slow-{number}"), actor="test") for number in range(SLOW)]
    body = b'{"entries": [], "unknown": "%b"}' % (b"x" * (BODY_BYTES - 100))
    headers = {"Authorization": f"Bearer {admin.token}", "Content-Type": "application/json"}
    async with serve(app) as address, contextlib.AsyncExitStack() as stack:
        lines = []
        for tenant in slow:
            lines.append(await stack.enter_async_context(connect(address)))
            await announce(lines[-1], make_token(tenant.id, Role.CREATOR))
        async with httpx.AsyncClient(base_url=address, trust_env=False) as client:
            async with contextlib.AsyncExitStack() as waiting:
                # All of them have begun before the other body comes. Of the two of one tenant, the server may read
                # either first.
                line = await waiting.enter_async_context(connect(address))
                await announce(line, make_token(slow[-1].id, Role.CREATOR))
                reads = [asyncio.create_task(one.read()) for one in (lines[-1], line)]
                answered, others = await asyncio.wait(reads, return_when=asyncio.FIRST_COMPLETED)
                for other in others:
                    other.cancel()
                refusal = answered.pop().result()
                assert refusal.startswith(b"HTTP/1.1 429 "), "its tenant has all of its bytes"
            answer = await client.post(BULK, content=body, headers=headers, timeout=60)
    assert answer.status_code == 422, answer.text
    assert admission._arrivals.held == 0
    for tenant in slow:
        await api_services.tenants.delete(tenant.id, actor="test")
