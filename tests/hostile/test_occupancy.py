"""Many connections of one address, and answers that are not read."""

import asyncio
import contextlib
import logging
import resource
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from starlette.types import Receive, Scope, Send

from app.concurrency.background import MemoryRelease
from app.web.occupancy import SPARE_DESCRIPTORS, Occupancy, network_of, raise_descriptor_limit
from tests.fixtures.http.serving import serve
from tests.hostile.line import Line, connect, expect_closing_problem

MIB = 1024 * 1024
REQUEST = b"GET /%b HTTP/1.1\r\nHost: x\r\n\r\n"


async def answer_with_mebibytes(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with the tenant and as many MiB as the path says: /TENANT/NUMBER."""
    if scope["type"] != "http":
        return
    tenant, _, number = scope["path"].strip("/").partition("/")
    scope["state"]["principal"] = type("Principal", (), {"tenant_id": tenant or None})()
    body = b"x" * int(MIB * float(number or 0))
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@contextlib.asynccontextmanager
async def opened(address: str, count: int) -> AsyncIterator[list[Line]]:
    async with contextlib.AsyncExitStack() as stack:
        yield [await stack.enter_async_context(connect(address)) for _ in range(count)]


async def test_connections_over_an_addresss_limit_get_503(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "app.api.connections")
    async with serve(answer_with_mebibytes, Occupancy(per_address=3, hold_seconds=0)) as address:
        async with opened(address, 3) as idle:
            for _ in range(3):
                async with connect(address) as refused:
                    problem = expect_closing_problem(await refused.read(), 503)
                    assert problem["detail"] == "too many connections are open"
            await idle[0].send(REQUEST % b"")
            assert (await idle[0].reader.readline()).startswith(b"HTTP/1.1 200 ")
        for _ in range(100):
            async with connect(address) as line:
                await line.send(REQUEST % b"")
                if (await line.reader.readline()).startswith(b"HTTP/1.1 200 "):
                    break
            await asyncio.sleep(0.02)
        else:
            pytest.fail("the closed connections still count")
    (record,) = [r for r in caplog.records if r.getMessage() == "connections refused"]
    assert vars(record)["limit"] == 3


async def test_connections_over_the_limit_of_the_process_get_503() -> None:
    async with (
        serve(answer_with_mebibytes, Occupancy(total=2, hold_seconds=0)) as address,
        opened(address, 2),
        connect(address) as refused,
    ):
        expect_closing_problem(await refused.read(), 503)


async def test_over_the_limit_of_the_process_held_connections_leave_descriptors_free() -> None:
    occupancy = Occupancy(total=1, hold_seconds=3_600)
    most = SPARE_DESCRIPTORS // 2
    async with serve(answer_with_mebibytes, occupancy) as address, opened(address, 1 + most):
        async with connect(address) as closed:
            assert await closed.read() == b""
        assert occupancy._held == most


async def test_a_refused_connection_is_held_and_further_ones_are_closed_without_an_answer() -> None:
    occupancy = Occupancy(per_address=1, hold_seconds=3_600, most_held=1)
    async with serve(answer_with_mebibytes, occupancy) as address, connect(address) as accepted:
        await accepted.send(REQUEST % b"")
        assert (await accepted.reader.readline()).startswith(b"HTTP/1.1 200 ")
        async with connect(address) as held:
            await held.send(REQUEST % b"")
            async with connect(address) as closed:
                assert await closed.read() == b""
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(held.read(), 0.1)
        async with asyncio.timeout(60):
            while occupancy._held:  # noqa: ASYNC110 (its end has to arrive)
                await asyncio.sleep(0.01)


async def test_the_answers_that_wait_longest_are_dropped() -> None:
    async with (
        serve(answer_with_mebibytes, Occupancy(unread=40 * MIB)) as address,
        opened(address, 4) as (*lines, other),
    ):
        # The system's buffers take a few MiB of each.
        for line, request in ((other, b"b/32"), *((line, b"a/32") for line in lines)):
            line.reader._transport.pause_reading()  # type: ignore[attr-defined]
            await line.send(REQUEST % request)
            await asyncio.sleep(0.1)
        await lines[0].wait_until_dropped(20)
        await lines[1].wait_until_dropped(20)
        for line in (lines[2], other):
            line.reader._transport.resume_reading()  # type: ignore[attr-defined]
            await line.reader.readuntil(b"\r\n\r\n")
            assert len(await line.reader.readexactly(32 * MIB)) == 32 * MIB


@dataclass(eq=False)
class Unread:
    """A connection with so many bytes that are not read."""

    bytes: int
    dropped: bool = False

    def unread(self) -> int:
        return self.bytes

    def drop(self) -> None:
        self.dropped = True


def test_unread_answers_of_all_tenants_have_a_bound_and_the_largest_tenant_loses_first() -> None:
    occupancy = Occupancy(unread=100, all_unread=100)
    hogs = [Unread(30) for _ in range(3)]
    small = Unread(9)
    for tenant, connection in [("hog", hog) for hog in hogs] + [("small", small)]:
        occupancy.wait(tenant, connection)
    assert not any(each.dropped for each in (*hogs, small))
    last = Unread(9)
    occupancy.wait("third", last)
    assert [each.dropped for each in (*hogs, small, last)] == [True, False, False, False, False]
    # What is partly read counts with its rest, and what is read no longer.
    hogs[1].bytes = 1
    occupancy.resume("hog", hogs[2])
    for _ in range(8):
        occupancy.wait("third", Unread(10))
    assert not hogs[1].dropped
    assert not small.dropped


def test_a_single_answer_above_all_bounds_is_dropped() -> None:
    occupancy = Occupancy(unread=100, all_unread=100)
    giant = Unread(101)
    occupancy.wait("a", giant)
    assert giant.dropped
    occupancy.wait("a", small := Unread(100))
    assert not small.dropped


async def test_memory_of_an_answer_that_was_never_read_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    noted: list[int] = []
    monkeypatch.setattr(MemoryRelease, "note", lambda self, size: noted.append(size))
    async with serve(answer_with_mebibytes, Occupancy()) as address:
        async with connect(address) as line:
            line.reader._transport.pause_reading()  # type: ignore[attr-defined]
            await line.send(REQUEST % b"tenant/8")
            await asyncio.sleep(0.2)
            assert not noted
        async with asyncio.timeout(60):
            while not noted:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
    assert noted[0] > MIB


async def test_a_request_waits_until_the_answer_before_it_is_read() -> None:
    served = 0

    async def count(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal served
        served += scope["type"] == "http"
        await answer_with_mebibytes(scope, receive, send)

    async with serve(count) as address, connect(address) as line:
        line.reader._transport.pause_reading()  # type: ignore[attr-defined]
        await line.send(REQUEST % b"a/12")
        await asyncio.sleep(0.1)
        await line.send(REQUEST % b"a/1")
        await asyncio.sleep(0.2)
        assert served == 1
        line.reader._transport.resume_reading()  # type: ignore[attr-defined]
        for size in (12, 1):
            await line.reader.readuntil(b"\r\n\r\n")
            await line.reader.readexactly(size * MIB)
    assert served == 2


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3::4", "2001:db8:1:2::"),
        ("fe80::1%eth0", "fe80::"),
        ("::ffff:192.0.2.7", "::ffff:192.0.2.7"),
        ("", ""),
    ],
)
def test_an_address_of_ipv6_counts_with_its_network(address: str, network: str) -> None:
    assert network_of(address) == network


def test_the_soft_limit_of_descriptors_is_raised() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, before[1]), before[1]))
        most = raise_descriptor_limit()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert hard == before[1]
        assert soft > 256 or soft == hard
        assert most == soft - SPARE_DESCRIPTORS
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
