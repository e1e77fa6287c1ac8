"""Callers that send or read too slowly, over a real socket."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from app.auth.tokens import TokenVerifier
from app.composition.services import Services
from app.main import create_app
from app.settings import Settings
from app.web import connection
from app.web.bodies import Patience
from tests.fixtures.http.callers import Caller
from tests.fixtures.http.serving import serve
from tests.hostile.line import connect, expect_closing_problem


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
    async with (
        serve_with(Patience(stall=0.2), settings, api_services, verifier) as url,
        connect(url) as line,
    ):
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
    async with (
        serve_with(Patience(grace=0.5), settings, api_services, verifier) as url,
        connect(url) as line,
    ):
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
