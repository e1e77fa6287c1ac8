"""Reading a JSON body: invalid bodies are refused before any parser or model reads them."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Coroutine
from json.decoder import JSONArray, JSONObject  # type: ignore[attr-defined]
from typing import Any, TypeAlias, cast

from fastapi import Request, Response

from app.errors import InvalidInput, UnsupportedMediaType
from app.knowledge.text import load_json
from app.web.bodies.bounds import DEPTH, BodyBounds, bounds_of

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
        if hasattr(self.state, "parsed"):  # by a shortcut
            return self.state.parsed
        body = await self.body()
        bounds = bounds_of(self.scope["path"])
        if len(body) <= LARGE:
            return parse_json(body, bounds)
        try:
            return await asyncio.to_thread(parse_large_json, body, bounds)
        except (InvalidInput, json.JSONDecodeError) as error:
            # The error and its frames live until they are collected, and must not keep the body.
            self._body = body = b""
            if isinstance(error, json.JSONDecodeError):
                error.doc = ""
            raise error.with_traceback(None) from None

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
        if (len(part) - len(part.rstrip(b"\\"))) % 2:  # the last one escapes what follows
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


def read_metadata(text: str | None) -> dict[str, Any]:
    """The JSON object in a form's field `metadata`, empty if omitted. Raises InvalidInput."""
    if not text:
        return {}
    try:
        value = load_json(text.encode())
    except ValueError:
        value = None
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
