"""Read request bodies as JSON, within limits on size and nesting. Large ones wait for their turn."""

import asyncio
import functools
import json
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from json.decoder import JSONArray, JSONObject  # type: ignore[attr-defined]
from typing import Any, TypeAlias, cast

from fastapi import Request, Response
from starlette.datastructures import UploadFile
from starlette.types import Message, Receive

from app.contract.text import load_json
from app.contract.validation import UNSET, Unset
from app.errors import InvalidInput, TooLarge, TooSlow, UnsupportedMediaType
from app.knowledge.tenants.admission import Intake

KIB, MIB = 1024, 1024 * 1024


@dataclass(frozen=True, slots=True)
class BodyBounds:
    """The largest body of a path.

    Attributes:
        bytes: its length.
        containers: objects and lists of JSON.
        values: commas of JSON, which separate its values.
    """

    bytes: int
    containers: int = 2_000
    values: int = 8_000


SMALL = BodyBounds(64 * KIB)
"""Of all paths that are not named."""

SEARCH = BodyBounds(256 * KIB)
"""A query of 10,000 characters, 1,000 ids of assets and a vector of 4,000 numbers at the same time."""

ENTRY = BodyBounds(2 * MIB, 40_000, 70_000)
"""100,000 characters, each escaped, and metadata of 64 KiB, which can be 32,000 lists."""

SEARCHES = BodyBounds(4 * MIB, 64_000, 256_000)
"""32 searches, each with a vector."""

MESSAGE = BodyBounds(4 * MIB, 64_000, 256_000)
"""A model writes a message token by token; 40 entries of the maximum length, or 1,000 of 4,000 characters."""

BULK = BodyBounds(32 * MIB, 200_000, 500_000)
"""1,000 entries of ordinary length, or the manifest of a source with 100,000 files."""

BODIES: Mapping[str, BodyBounds] = {
    "/knowledge/search": SEARCH,
    "/knowledge/search/batch": SEARCHES,
    "/knowledge/saved-searches": SEARCH,
    "/knowledge/entries": ENTRY,
    "/knowledge/entries/bulk": BULK,
    "/knowledge/assets": ENTRY,
    "/knowledge/sources": BULK,
    "/mcp": MESSAGE,
    "/console/entries": ENTRY,
    "/console/assets": ENTRY,
    "/console/sign-in": SMALL,
    "/console": SEARCH,
}
"""By path; a path below one of these has the same bounds. The longest path counts. docs/bounds.md has the same table,
and a test compares them."""

MCP_READER = BodyBounds(1 * MIB, 4_000, 16_000)
"""Messages to /mcp of callers that may not write: a search with its vector."""

UPLOADS = frozenset({"/knowledge/assets", "/console/assets"})
"""Paths of files, whose length KB_MAX_UPLOAD_BYTES limits."""

UPLOAD_ROOM = 1 * MIB
"""The parts of a form around its file."""

DEPTH = 64
"""Objects and lists inside one another; the deepest request that the API describes has four."""


def bounds_of(path: str) -> BodyBounds:
    """The bounds of a path."""
    path = path.rstrip("/")
    while path:
        if path in BODIES:
            return BODIES[path]
        path = path.rpartition("/")[0]
    return SMALL


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a body is waited for: `stall` seconds for its next part, and in all `grace` seconds and one more
    for every `rate` bytes that have come.
    """

    stall: float = 30.0
    grace: float = 60.0
    rate: float = 16 * 1024.0


class BoundedBody:
    """A request's body, refused as soon as more than `limit` bytes of it are announced or have come.

    It is refused only when it is read, so callers without a token get 401 first.
    """

    def __init__(self, receive: Receive, limit: int, declared: int, patience: Patience) -> None:
        """The connection drops the rest of a body that is refused."""
        self._receive = receive
        self._limit = limit
        self._declared = declared
        self._patience = patience
        self._seen = 0
        self._waited = 0.0
        self._complete = False

    @property
    def seen(self) -> int:
        """Bytes that have arrived."""
        return self._seen

    async def receive(self) -> Message:
        """The next part. Raises TooLarge and TooSlow."""
        if self._declared <= self._limit:
            message = await self._next()
            if self._seen <= self._limit:
                return message
        raise TooLarge(f"the request body is larger than the limit of {self._limit} bytes")

    async def _next(self) -> Message:
        if self._complete:  # the next message is the end of the connection, which may come much later
            return await self._receive()
        started = time.monotonic()
        left = self._patience.grace + self._seen / self._patience.rate - self._waited
        try:
            async with asyncio.timeout(min(left, self._patience.stall)):
                message = await self._receive()
        except TimeoutError:
            raise TooSlow("the request body arrived too slowly") from None
        self._waited += time.monotonic() - started
        self._seen += len(message.get("body", b""))
        self._complete = message["type"] != "http.request" or not message.get("more_body", False)
        return message


_intake: ContextVar[Intake | None] = ContextVar("intake", default=None)


@contextmanager
def holding_intake(intake: Intake) -> Iterator[None]:
    """The request that runs in the block has this turn."""
    token = _intake.set(intake)
    try:
        yield
    finally:
        _intake.reset(token)


def end_intake(endpoint: Callable[..., Any]) -> Callable[..., Any]:
    """The endpoint, which runs once its body was accepted: the turn to have it parsed is over."""

    @functools.wraps(endpoint)
    async def accepted(*args: Any, **values: Any) -> Any:
        end_own_intake()
        return await endpoint(*args, **values)

    return accepted


def end_own_intake() -> None:
    """End the turn that the current request has to have its body parsed, if it has one."""
    if (intake := _intake.get()) is not None:
        intake.end()


def replay(body: bytes, receive: Receive) -> Receive:
    """Replays a body that was already read, then receives what follows it."""
    waiting = [body]

    async def receive_again() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return receive_again


LARGE = 1024 * 1024
"""Size in bytes above which a body is parsed in a thread, so that other requests are not blocked."""

STEP = 256 * 1024
"""Bytes that are checked before other threads get a turn: about a millisecond."""

TURN_SECONDS = 0.001
"""Time for which a large body is parsed before other threads get a turn."""

PAUSE_SECONDS = 0.0005
"""Their turn, in which the event loop takes the interpreter's lock; without it, it waits 5 ms each time."""

LONGEST_TEXT = 2 * 1024 * 1024
"""Bytes of one text: more than any field accepts, with escapes. The parser reads a text in one step."""

_BUT_STRUCTURE = bytes(set(range(256)) - set(b"[]{},"))
_LONG_NUMBER = b"0" * 1_000  # the time to read a number grows with the square of its digits
_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_LEVELS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


Handler: TypeAlias = Callable[[Request], Coroutine[Any, Any, Response]]

Scan: TypeAlias = Callable[[str, int], tuple[Any, int]]
"""Reads the value at a position of a text; returns it and its end."""


class JsonRequest(Request):
    """A request whose `json()` uses `parse_json`, and whose `form()` accepts only forms."""

    async def json(self) -> Any:
        """The parsed body. Raises InvalidInput, UnsupportedMediaType, and json.JSONDecodeError if it is not JSON."""
        refuse_coding(self)
        body = await self.body()
        bounds = bounds_of(self.scope["path"])
        if len(body) <= LARGE:
            return parse_json(body, bounds)
        return await asyncio.to_thread(parse_large_json, body, bounds)

    def form(self, **limits: Any) -> Any:
        """The parts of the form. Raises UnsupportedMediaType."""
        refuse_coding(self)
        if media_type(self) not in ("", "multipart/form-data", "application/x-www-form-urlencoded"):
            raise UnsupportedMediaType("send a form, with Content-Type: multipart/form-data")
        return super().form(**limits)


async def read_body(request: Request, admit: Callable[[int], Awaitable[None]]) -> int:
    """Read a request's body, each part after `admit` lets its bytes in, and return its length.

    `request.body()` returns it later. Raises ClientDisconnect.
    """
    body = bytearray()  # grows in place; joined parts would be in memory twice
    async for part in request.stream():
        if part:
            await admit(len(part))
            body += part
    request._body = cast("bytes", body) if len(body) > LARGE else bytes(body)
    return len(body)


def media_type(request: Request) -> str:
    """The media type of a request's body, without parameters; empty if it has none."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def body_length(request: Request) -> int:
    """The announced length of a request's body, at most its path's limit; this limit if none is announced."""
    most = bounds_of(request.scope["path"]).bytes
    if "transfer-encoding" in request.headers:
        return most
    return min(declared_length(request), most)


def declared_length(request: Request) -> int:
    """The length that a request's headers declare for its body; 0 if they declare none."""
    return read_length(request.headers.get("content-length", "").encode("latin-1"))


def read_length(declared: bytes) -> int:
    """The number of a Content-Length; 0 for anything else."""
    return int(declared) if declared.isdigit() and len(declared) < 20 else 0


def refuse_coding(request: Request) -> None:
    """Raise UnsupportedMediaType for a body that is compressed."""
    if request.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise UnsupportedMediaType("send the body without Content-Encoding")


def parse_json(body: bytes, bounds: BodyBounds) -> Any:
    """Parse UTF-8 JSON of the shape that `check_shape` allows. Raises InvalidInput and json.JSONDecodeError."""
    check_shape(body, bounds)
    return json.loads(_decode(body))


def parse_large_json(body: bytes, bounds: BodyBounds) -> Any:
    """The same, in a thread: other threads get turns while it works."""
    check_shape(body, bounds, between_steps=let_others_run)
    return json.loads(_decode(body), cls=_DecoderInParts)


def _decode(body: bytes) -> str:
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidInput.of("body", "must be UTF-8") from None


class _DecoderInParts(json.JSONDecoder):
    """Lets other threads run between the items of a list in an object: the decoder in C keeps the interpreter's lock
    until it has read all of a text.
    """

    def __init__(self) -> None:
        super().__init__()
        scan: Scan = self.scan_once
        began = time.perf_counter()

        def scan_item(text: str, at: int) -> tuple[Any, int]:
            nonlocal began
            if time.perf_counter() - began > TURN_SECONDS:
                let_others_run()
                began = time.perf_counter()
            return scan(text, at)

        def scan_member(text: str, at: int) -> tuple[Any, int]:
            if text[at : at + 1] != "[":
                return scan(text, at)
            items: tuple[Any, int] = JSONArray((text, at + 1), scan_item)
            return items

        def scan_all(text: str, at: int) -> tuple[Any, int]:
            if text[at : at + 1] != "{":
                return scan_member(text, at)
            members: tuple[Any, int] = JSONObject((text, at + 1), True, scan_member, None, None, {})
            return members

        self.scan_once: Scan = scan_all


def let_others_run() -> None:
    """Let other threads run for a moment, between steps of long work in a thread."""
    time.sleep(PAUSE_SECONDS)


def check_shape(body: bytes, bounds: BodyBounds, *, between_steps: Callable[[], None] = lambda: None) -> None:
    """Raise InvalidInput where a body nests deeper than `DEPTH`, has more objects and lists or more values than its
    `bounds`, a number of thousands of digits, or a text longer than `LONGEST_TEXT`.

    Other syntax errors are left to the parser.
    """
    start = level = containers = values = text = 0
    in_string = False
    while start < len(body):
        if start:
            between_steps()
        part = body[start : start + STEP]
        if (len(part) - len(part.rstrip(b"\\"))) % 2:  # the last one escapes the next character
            part = body[start : start + len(part) + 1]
        start += len(part)
        part = part.replace(b"\\\\", b"").replace(b'\\"', b"")
        if b'"' in part:
            pieces = part.split(b'"')
            part = b"".join(pieces[in_string::2])
            in_string ^= len(pieces) % 2 == 0
            text = 0
        elif in_string:
            text += STEP
            if text > LONGEST_TEXT:
                raise InvalidInput.of("body", f"must not contain a text of more than {LONGEST_TEXT} bytes")
            continue
        if _LONG_NUMBER in part.translate(_ZEROS):
            raise InvalidInput.of("body", "must not contain numbers of thousands of digits")
        structure = part.translate(None, _BUT_STRUCTURE)
        values += structure.count(b",")
        brackets = structure.replace(b",", b"")
        containers += brackets.count(b"[") + brackets.count(b"{")
        if containers > bounds.containers:
            raise InvalidInput.of("body", f"must have at most {bounds.containers} objects and lists")
        if values > bounds.values:
            raise InvalidInput.of("body", f"must have at most {bounds.values} values")
        for bracket in brackets:
            level += _LEVELS[bracket]
            if level > DEPTH:
                raise InvalidInput.of("body", f"must be nested at most {DEPTH} levels deep")


def name_of(file: UploadFile) -> str:
    """The name of an uploaded file; browsers write a quotation mark in it as %22, as the HTML standard says."""
    return (file.filename or "").replace("%22", '"')


def read_metadata(text: str | None) -> dict[str, Any] | Unset:
    """The JSON object in a form's field `metadata`, unset if it is omitted, empty or null. Raises InvalidInput."""
    if not text:
        return UNSET
    try:
        value = load_json(text.encode())
    except ValueError:
        value = text
    if value is None:
        return UNSET
    if not isinstance(value, dict):
        raise InvalidInput.of("metadata", "must be a JSON object")
    return value


def refuse_body(handle: Handler) -> Handler:
    """The handler of a POST without fields: its body is empty, or an empty object. Raises InvalidInput."""

    async def without_body(request: Request) -> Response:
        if (await request.body()).strip() not in (b"", b"{}"):
            raise InvalidInput.of("body", "must be empty: this path has no fields")
        return await handle(request)

    return without_body
