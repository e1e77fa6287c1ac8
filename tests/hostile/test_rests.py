"""The rest of a body that was answered before all of it came: it is read at a pace, and its caller gets the answer."""

import asyncio

import pytest
from starlette.types import Receive, Scope, Send

from app.concurrency.limits import Pace
from app.web import connection
from app.web.occupancy import Occupancy
from tests.fixtures.http.serving import serve
from tests.hostile.line import connect

MIB = 1024 * 1024
PART = 256 * 1024
"""Bytes that are read at once."""


async def answer_unread(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers without reading the body."""
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 401, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"no"})


def head(length: int, further: str = "") -> bytes:
    return f"POST / HTTP/1.1\r\nHost: x\r\n{further}Content-Length: {length}\r\n\r\n".encode()


async def test_the_rest_of_a_body_waits_for_turns_and_the_answer_does_not() -> None:
    now = [0.0]
    occupancy = Occupancy()
    occupancy.rests = Pace(1_000, 2, clock=lambda: now[0])
    async with serve(answer_unread, occupancy) as address, connect(address) as line:
        sending = asyncio.create_task(line.send(head(32 * MIB) + b"x" * 32 * MIB))
        await asyncio.wait_for(line.reader.readuntil(b"\r\n\r\nno"), 60)
        await asyncio.sleep(0.3)
        assert not sending.done(), "most of it waits in the caller"
        async with connect(address) as other:
            await other.send(head(0, "Connection: close\r\n"))
            assert (await other.read()).endswith(b"no")
        now[0] += 3_600
        for _ in range(32 * MIB // PART):
            now[0] += 1
            await asyncio.sleep(0.002)
        while not sending.done():
            now[0] += 1
            await asyncio.sleep(0.002)
        await line.send(head(0, "Connection: close\r\n"))
        assert (await line.read()).endswith(b"no"), "the connection has the next request"


async def test_a_caller_that_sends_all_before_it_reads_gets_the_answer() -> None:
    async with serve(answer_unread) as address, connect(address) as line:
        await line.send(head(8 * MIB, "Connection: close\r\n") + b"x" * 8 * MIB)
        answer = await line.read()
    assert answer.startswith(b"HTTP/1.1 401 ")
    assert answer.endswith(b"no")


async def test_a_rest_that_is_too_long_or_stops_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "DROPPED_BYTES", MIB)
    monkeypatch.setattr(connection, "HEAD_SECONDS", 0.5)
    request = head(32 * MIB) + b"x" * 8 * MIB
    async with serve(answer_unread) as address:
        async with connect(address) as line:
            await line.send(request)
            await line.wait_until_dropped()
        async with connect(address) as line:
            await line.send(head(32 * MIB) + b"x" * 1_000)
            assert (await line.read()).endswith(b"no")


async def test_a_rest_that_drips_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HEAD_SECONDS", 0.4)
    async with serve(answer_unread) as address, connect(address) as line:
        await line.send(head(32 * MIB))
        reading = asyncio.create_task(line.read(30))
        while not reading.done():
            await line.send(b"x" * 64)
            await asyncio.sleep(0.05)
        assert (await reading).endswith(b"no")


@pytest.mark.slow
async def test_a_rest_that_waits_for_its_turns_is_not_too_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HEAD_SECONDS", 0.5)
    now = [0.0]
    occupancy = Occupancy()
    occupancy.rests = Pace(1_000, 1, clock=lambda: now[0])
    request = head(32 * MIB) + b"x" * 32 * MIB  # before the connection, since the head must come soon
    async with serve(answer_unread, occupancy) as address, connect(address) as line:
        sending = asyncio.create_task(line.send(request))
        await asyncio.wait_for(line.reader.readuntil(b"\r\n\r\nno"), 60)
        await asyncio.sleep(1.5)
        reading = asyncio.create_task(line.read())
        sending.add_done_callback(lambda _: line.writer.write(head(0, "Connection: close\r\n")))
        while not reading.done():
            now[0] += 1
            await asyncio.sleep(0.002)
        assert (await reading).endswith(b"no"), "the connection has the next request"


@pytest.mark.parametrize("start", [0.1, 0.3, 4.7, 1_234_567.8])
async def test_a_rest_that_waits_all_the_time_is_not_too_slow_by_a_rounding_error(start: float) -> None:
    now = [start]
    waiting = connection.Rest(lambda: now[0])
    turns = asyncio.create_task(waiting.wait(Pace(1, 0, clock=lambda: 0.0), "key"))
    await asyncio.sleep(0)
    waiting.look()
    for _ in range(100):
        now[0] += 20.0
        assert waiting.has_come()
        waiting.look()
    turns.cancel()
    now[0] += 20.0
    assert waiting.has_come()


def test_a_rest_of_which_too_little_comes_is_too_slow() -> None:
    now = [0.0]
    coming = connection.Rest(lambda: now[0])
    coming.look()
    for rate, enough in ((connection.REST_RATE, True), (connection.REST_RATE - 1, False), (connection.REST_RATE, True)):
        now[0] += 20.0
        coming.drop(rate * 20)
        assert coming.has_come() is enough
        coming.look()


async def test_a_rest_that_comes_fast_enough_is_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its connection then waits for the next head as long as any other."""
    monkeypatch.setattr(connection, "HEAD_SECONDS", 0.4)
    part = b"x" * connection.REST_RATE
    async with serve(answer_unread) as address, connect(address) as line:
        await line.send(head(20 * len(part)))
        for _ in range(20):
            await line.send(part)
            await asyncio.sleep(0.05)
        await line.send(head(0, "Connection: close\r\n"))
        assert (await line.read()).count(b"HTTP/1.1 401 ") == 2
