"""One HTTP connection, with limits on the size and time of a request's head and on unread bodies."""

import asyncio
import secrets
import socket
import struct
from collections.abc import Callable
from typing import Any, cast

from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app.concurrency.background import start_background
from app.concurrency.limits import Pace
from app.telemetry.logs import request_id
from app.web.layer import find_tenant_id, is_stranger
from app.web.occupancy import Occupancy, network_of
from app.web.problems import problem_response, title_of

DROPPED_BYTES = 256 * 1024 * 1024
"""A longer rest ends the connection."""

REST_RATE = 16 * 1024
"""Bytes that must come in a second; time in which the rest waits for its turn does not count."""


class Rest:
    """Counts the bytes of one body that are dropped, and the time that it waited for its turns."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._bytes = self._bytes_before = 0
        self._looked = clock()
        self._waited = 0.0
        """Since the last look."""
        self._since: float | None = None
        """When the wait in progress began, or since when it is counted."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing was dropped."""
        return not self._bytes

    def drop(self, length: int) -> bool:
        """Count bytes; returns whether the rest is not too long."""
        self._bytes += length
        return self._bytes <= DROPPED_BYTES

    async def wait(self, pace: Pace, key: str) -> None:
        """Wait for the turn of the next part."""
        self._since = self._clock()
        await pace.wait(key)
        self._count_wait(self._clock())
        self._since = None

    def look(self) -> None:
        """Begin to watch how much comes."""
        self._looked = self._clock()
        self._count_wait(self._looked)
        self._bytes_before, self._waited = self._bytes, 0.0

    def has_come(self) -> bool:
        """Whether enough has arrived since the last check."""
        now = self._clock()
        self._count_wait(now)
        return self._bytes - self._bytes_before >= REST_RATE * (now - self._looked - self._waited)

    def _count_wait(self, now: float) -> None:
        if self._since is not None:
            self._waited, self._since = self._waited + now - self._since, now


MAX_HEAD_BYTES = 64 * 1024
"""Request line and headers together; a token has at most 8 KiB of them. As much may come in one piece of what is
neither head nor body: sizes and extensions of chunks, trailers, and empty lines between requests."""
MAX_HEADERS = 100
HEAD_SECONDS = 20.0
"""From the connection, or from the request before, until the head of a request is complete."""
UNREAD_SECONDS = 60.0
"""How long a caller may leave an answer unread while more of it waits to be sent."""
RESET = struct.pack("ii", 1, 0)
"""SO_LINGER, on, for 0 seconds: closing the socket discards what was not sent and resets the connection."""

_INVALID = (400, "this is not a valid HTTP request")
_LONG_HEAD = (431, f"the request line and the headers are longer than the limit of {MAX_HEAD_BYTES} bytes")
_LONG_REST = (431, f"the data around the request's body are longer than the limit of {MAX_HEAD_BYTES} bytes")
_MANY_HEADERS = (431, f"the request has more headers than the limit of {MAX_HEADERS}")
_CROWD = (503, "too many connections are open")
_HOST = (400, "the request must have exactly one Host header")
_CODING = (501, "the only transfer coding that is read is chunked")
_FRAMING = (400, "the request must have either a Content-Length or Transfer-Encoding: chunked, with HTTP/1.1")
_SLOW_HEAD = (408, f"the head of the request did not arrive within {HEAD_SECONDS:.0f} seconds")


class HeadRefused(Exception):
    """Ends the parsing of a request that was refused."""


class BoundedConnection(HttpToolsProtocol):
    """uvicorn's connection, which by itself takes heads and trailers of any length and waits for them for ever.

    Refusals are problems, like those of the application.
    """

    def __init__(self, *args: Any, occupancy: Occupancy | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        self._occupancy = occupancy or Occupancy()
        self._serve, self.app = self.app, self._answer
        self._unread_of: str | None = None
        """The tenant whose answer is not read."""
        self._refusal = _INVALID
        self._loose_bytes = 0
        """Since the last that was part of a body, or since a head began or ended."""
        self._in_head = False
        self._moved = False
        """Whether the data that are being read brought a body on, or the beginning or end of a head."""
        self._overdue: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._held = False
        """Whether the connection is one too many, and waits to be refused."""
        self._rest = Rest(self.loop.time)
        self._leaves = False
        """Whether the connection ends once the rest of its body has arrived."""
        self._waiting: asyncio.Task[None] | None = None
        """Waits until more of the rest of a body may come."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._address = self.client[0] if self.client else ""
        if not self._occupancy.enter(self._address):
            self._turn_away()
            return
        self._expect_head()

    def _turn_away(self) -> None:
        """Refuse a connection over a limit, later or without an answer; what it sends is not read as a request."""
        self._held = self._occupancy.hold()
        if self._held:
            self._overdue = self.loop.call_later(self._occupancy.hold_seconds, self._refuse, _CROWD)
        else:
            self.drop()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all waiting."""
        for waiting in (self._overdue, self._unread, self._waiting):
            if waiting is not None:
                waiting.cancel()
        self._occupancy.leave(self._address)
        if self._held:
            self._occupancy.let_go()
        self._occupancy.resume(self._unread_of, self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Accept the bytes that have arrived."""
        if self._held:
            self._loose_bytes += len(data)
            if self._loose_bytes > MAX_HEAD_BYTES:
                self.drop()
            return
        self._moved = False
        super().data_received(data)
        if self.transport.is_closing():
            return
        # If a head or body ended within the data, the number of bytes after it is unknown, and not needed.
        self._loose_bytes = 0 if self._moved else self._loose_bytes + len(data)
        if self._loose_bytes > MAX_HEAD_BYTES:
            self._refuse(_LONG_HEAD if self._in_head else _LONG_REST)
            return
        if self._overdue is None:
            self._expect_head()

    def on_message_begin(self) -> None:
        """A request's first byte was read."""
        self._in_head = self._moved = True
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header was read, or a trailer, which is dropped: nothing changes a request that was let in already."""
        if self._in_head:
            super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        """A part of a body was read."""
        self._moved = True
        if self.cycle.response_complete:
            self._drop_part(len(body))
        super().on_body(body)

    def _drop_part(self, length: int) -> None:
        """Drop a part of a body that was answered already, and read on in turn: its caller may read the answer only
        when it has sent all of it, but what it sends must not occupy the event loop.
        """
        if not self._rest.drop(length):
            self.transport.close()
        elif self._waiting is None and not self.transport.is_closing():
            self.flow.pause_reading()
            self._waiting = start_background(self._wait_to_drop())

    def on_message_complete(self) -> None:
        """A request was read."""
        super().on_message_complete()
        if not self._rest.is_empty:
            self._expect_head()
        self._leave()

    def on_response_complete(self) -> None:
        """A request was answered."""
        super().on_response_complete()
        if self.cycle.more_body:
            self._expect_head()
        else:
            self._leave()

    def _leave(self) -> None:
        if self._leaves and self.cycle.response_complete:
            self.transport.close()

    async def _wait_to_drop(self) -> None:
        await self._rest.wait(self._occupancy.rests, network_of(self._address))
        self._waiting = None
        if not self.transport.is_closing():
            self.flow.resume_reading()

    def on_headers_complete(self) -> None:
        """A request's head was read. Raises HeadRefused."""
        self._in_head, self._moved = False, True
        self._rest = Rest(self.loop.time)
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None
        if len(self.headers) > MAX_HEADERS:
            self._refusal = _MANY_HEADERS
            raise HeadRefused
        if len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers) > MAX_HEAD_BYTES:
            self._refusal = _LONG_HEAD
            raise HeadRefused
        # RFC 9112, section 3.2; HTTP/1.0 has none.
        hosts = sum(name == b"host" for name, _ in self.headers)
        if hosts > 1 or (hosts == 0 and self.parser.get_http_version() != "1.0"):
            self._refusal = _HOST
            raise HeadRefused
        self._check_framing()
        super().on_headers_complete()

    def _check_framing(self) -> None:
        """Refuse a body whose end another server before this one may see elsewhere. Raises HeadRefused."""
        # RFC 9112, section 6.1.
        codings = [value.strip().lower() for name, value in self.headers if name == b"transfer-encoding"]
        if not codings:
            return
        lengths = any(name == b"content-length" for name, _ in self.headers)
        if lengths or self.parser.get_http_version() == "1.0":
            self._refusal = _FRAMING
            raise HeadRefused
        if codings != [b"chunked"]:
            self._refusal = _CODING
            raise HeadRefused

    def send_400_response(self, msg: str) -> None:
        """Answer what could not be parsed, or was refused while it was."""
        self._refuse(self._refusal)

    def pause_writing(self) -> None:
        """The caller reads more slowly than it is answered."""
        super().pause_writing()
        self._unread_of = find_tenant_id(cast("Scope", self.cycle.scope)) if self.cycle is not None else None
        self._occupancy.wait(self._unread_of, self)
        self._unread = self.loop.call_later(UNREAD_SECONDS, self.drop)

    def resume_writing(self) -> None:
        """The caller has read on."""
        if self._unread is not None:
            self._unread.cancel()
        self._occupancy.resume(self._unread_of, self)
        super().resume_writing()

    def unread(self) -> int:
        """Bytes of answers that the caller has not read."""
        return self.transport.get_write_buffer_size()

    def drop(self) -> None:
        """End the connection at once and discard unsent bytes: its caller does not read them."""
        if (own := self.transport.get_extra_info("socket")) is not None and own.fileno() >= 0:
            with socket.fromfd(own.fileno(), own.family, own.type) as shared:
                shared.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self.transport.abort()

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        """Have a request answered once the answer before it is read, so that a connection holds one answer.

        Answers to callers without a valid token wait for their turn: their addresses share one pace.
        """

        async def send_in_turn(message: Any) -> None:
            if message["type"] == "http.response.start" and is_stranger(scope):
                await self._occupancy.strangers.wait(network_of(self._address))
            if self.cycle.more_body and not self.cycle.keep_alive:
                # A connection that is closed while its caller is sending is reset, and the answer is lost.
                self.cycle.keep_alive = self._leaves = True
            await send(message)

        await self.flow.drain()
        await self._serve(scope, receive, send_in_turn)

    def _is_answering(self) -> bool:
        """Whether a problem would interrupt an answer, precede one that is due, or follow another."""
        if self.cycle is not None and self.cycle.response_complete:
            return not self._in_head
        return self.cycle is not None and (bool(self.pipeline) or self._in_head or self.cycle.response_started)

    def _expect_head(self) -> None:
        """Wait for the next head, or for enough of the rest of a body."""
        if self._overdue is not None:
            self._overdue.cancel()
        self._rest.look()
        self._overdue = self.loop.call_later(HEAD_SECONDS, self._end_wait)

    def _end_wait(self) -> None:
        self._overdue = None
        if self.transport.is_closing() or (self.cycle is not None and not self.cycle.response_complete):
            return
        if self._in_head:
            self._refuse(_SLOW_HEAD)
        elif self.cycle is not None and self.cycle.more_body and self._rest.has_come():
            self._expect_head()
        else:
            self.transport.close()

    def _refuse(self, refusal: tuple[int, str]) -> None:
        if self._is_answering():
            self.transport.close()
            return
        token = request_id.set(secrets.token_hex(8))
        try:
            response = problem_response(*refusal)
            response.headers["x-request-id"] = request_id.get() or ""
        finally:
            request_id.reset(token)
        response.headers["connection"] = "close"
        if response.status_code == 503:
            response.headers["retry-after"] = f"{HEAD_SECONDS:.0f}"
        lines = [f"HTTP/1.1 {response.status_code} {title_of(response.status_code)}".encode()]
        lines += [name + b": " + value for name, value in response.raw_headers]
        self.transport.write(b"\r\n".join(lines) + b"\r\n\r\n" + bytes(response.body))
        self.transport.close()
