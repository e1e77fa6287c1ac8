"""Reading a JSON body: invalid bodies are refused before any parser or model reads them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import orjson
from fastapi import Request

from app.errors import InvalidInput, UnsupportedMediaType
from app.web.bodies.bounds import DEPTH, BodyBounds, bounds_of

LARGE = 1024 * 1024
"""Size in bytes above which a body is parsed in a thread, so that other requests are not blocked."""

STEP = 256 * 1024
"""Bytes that are checked before other threads get a turn: about a millisecond."""

_BUT_STRUCTURE = bytes(set(range(256)) - set(b"[]{},"))
_LONG_NUMBER = b"0" * 1_000  # the time to read a number grows with the square of its digits
_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_LEVELS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


class JsonRequest(Request):
    """A request whose `json()` uses `parse_json`, and whose `form()` accepts only forms."""

    async def json(self) -> Any:
        """The parsed body. Raises InvalidInput, UnsupportedMediaType, and json.JSONDecodeError if it is not JSON."""
        refuse_coding(self)
        body = await self.body()
        bounds = bounds_of(self.scope["path"])
        if len(body) <= LARGE:
            return parse_json(body, bounds)
        return await asyncio.to_thread(parse_json, body, bounds)

    def form(self, **limits: Any) -> Any:
        """The parts of the form. Raises UnsupportedMediaType."""
        refuse_coding(self)
        if media_type(self) not in ("", "multipart/form-data", "application/x-www-form-urlencoded"):
            raise UnsupportedMediaType("send a form, with Content-Type: multipart/form-data")
        return super().form(**limits)


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
    try:
        return json.loads(body.decode("utf-8"))
    except json.JSONDecodeError:
        raise
    except UnicodeDecodeError:
        raise InvalidInput.of("body", "must be UTF-8") from None


def check_shape(body: bytes, bounds: BodyBounds) -> None:
    """Raise InvalidInput where a body nests deeper than `DEPTH`, has more objects and lists or more values than its
    `bounds`, or a number of thousands of digits.

    Other syntax errors are left to the parser.
    """
    start = level = containers = values = 0
    in_string = False
    while start < len(body):
        part = body[start : start + STEP]
        if (len(part) - len(part.rstrip(b"\\"))) % 2:  # the last one escapes what follows
            part = body[start : start + len(part) + 1]
        start += len(part)
        part = part.replace(b"\\\\", b"").replace(b'\\"', b"")
        if b'"' in part:
            pieces = part.split(b'"')
            part = b"".join(pieces[in_string::2])
            in_string ^= len(pieces) % 2 == 0
        elif in_string:
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
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        value = None
    if not isinstance(value, dict):
        raise InvalidInput.of("metadata", "must be a JSON object")
    return value
