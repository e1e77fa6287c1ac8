"""Logs: one line per record on stderr, with metadata only.

Logs must not contain input of callers. Messages of exceptions are therefore omitted, unless the exception is
one of ours: a driver's text quotes rows, parameters and addresses. Type, error code and stack remain.
"""

import errno
import json as jsonlib
import logging
import math
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from datetime import UTC, date, datetime
from enum import Enum
from pathlib import PurePath
from typing import TextIO
from uuid import UUID

from pydantic import SecretStr

from app.errors import KnowledgeError
from app.telemetry.tracing import current_ids

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
"""The id of the current request; every record that is logged during the request has it."""

_OWN_LOGGERS = ("app", "uvicorn", "alembic")
_RESERVED = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message", "taskName"}
_MAX_TEXT = 2000
_MAX_CHAIN = 5
_MAX_FRAMES = 60
_encode = jsonlib.JSONEncoder(allow_nan=False).encode


def configure_logging(level: str, json: bool, stream: TextIO | None = None, *, stacks: bool = True) -> None:
    """Send all records to `stream` (stderr), as JSON lines or as plain lines for people, perhaps without `stacks`.

    `level` applies to this service; other libraries log warnings and errors only, because their debug lines quote
    requests and responses. Start uvicorn with `log_config=None` so that it does not change this.
    """
    handler = _LineHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(JsonFormatter() if json else PlainFormatter(stacks=stacks))
    handler.addFilter(_is_wanted)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for name in _OWN_LOGGERS:
        logging.getLogger(name).setLevel(level.upper())
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True


class JsonFormatter(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """Render `record`; own fields win over extra ones of the same name."""
        line = {
            **_fields(record),
            "timestamp": _timestamp(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
        }
        line |= _origin()
        if (error := _exception(record)) is not None:
            line["exception"] = describe_exception(error)
        return _encode(line)


class PlainFormatter(logging.Formatter):
    """One line for people; then, with `stacks`, the stack of an exception, indented."""

    def __init__(self, *, stacks: bool) -> None:
        super().__init__()
        self._stacks = stacks

    def format(self, record: logging.LogRecord) -> str:
        """Render `record`."""
        fields = {**_fields(record), **_origin()}
        pairs = "".join(f" {name}={_write(value)}" for name, value in fields.items())
        text = _one_line(f"{_message(record)}{pairs}")
        lines = [f"{_timestamp(record)} {record.levelname:<8} {record.name}: {text}"]
        if self._stacks and (error := _exception(record)) is not None:
            lines += _plain_exception(describe_exception(error), "  ")
        return "\n".join(lines)


def describe_exception(error: BaseException) -> dict[str, object]:
    """The loggable parts of an exception: type, codes, stack, causes; its text only if it is one of ours."""
    return _describe(error, _MAX_CHAIN)


def _describe(error: BaseException, depth: int) -> dict[str, object]:
    kind = type(error)
    described: dict[str, object] = {"type": f"{kind.__module__}.{kind.__qualname__}"}
    if isinstance(error, KnowledgeError):
        described["message"] = str(error)[:_MAX_TEXT]
    state = getattr(error, "sqlstate", None)
    if isinstance(state, str) and len(state) == 5 and state.isascii() and state.isalnum():
        described["sqlstate"] = state
    if isinstance(error, OSError) and (code := errno.errorcode.get(error.errno or 0)):
        described["errno"] = code
    described["stack"] = [
        f"{frame.f_code.co_filename}:{line} in {frame.f_code.co_qualname}"
        for frame, line in traceback.walk_tb(error.__traceback__)
    ][-_MAX_FRAMES:]
    if depth > 1:
        if isinstance(error, BaseExceptionGroup):
            described["exceptions"] = [_describe(e, depth - 1) for e in error.exceptions[:_MAX_CHAIN]]
        cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if cause is not None:
            described["cause"] = _describe(cause, depth - 1)
    return described


def _plain_exception(described: Mapping[str, object], indent: str) -> Iterator[str]:
    facts = [str(described["type"])]
    facts += [f"{name}={described[name]}" for name in ("sqlstate", "errno") if name in described]
    message = f": {described['message']}" if "message" in described else ""
    yield indent + _one_line(" ".join(facts) + message)
    stack, inner = described["stack"], described.get("exceptions", [])
    assert isinstance(stack, list)
    assert isinstance(inner, list)
    yield from (f"{indent}  {frame}" for frame in stack)
    for part in inner:
        yield from _plain_exception(part, indent + "  + ")
    if isinstance(cause := described.get("cause"), dict):
        yield f"{indent}caused by"
        yield from _plain_exception(cause, indent)


class _LineHandler(logging.StreamHandler[TextIO]):
    def handleError(self, record: logging.LogRecord) -> None:
        """Report a record that could not be written, without the arguments that the stock handler prints."""
        try:
            self.stream.write(f'{{"level": "error", "message": "a record of {record.name} was lost"}}\n')
        except (OSError, ValueError):
            return


def _is_wanted(record: logging.LogRecord) -> bool:
    # Checked here too: a library that raises its own logger's level must not get its debug lines out.
    return record.levelno >= logging.WARNING or record.name.partition(".")[0] in _OWN_LOGGERS


def _message(record: logging.LogRecord) -> str:
    if record.name == "uvicorn.access":
        return "request"
    args = record.args
    if isinstance(args, Mapping):
        text = str(record.msg) % {name: _without_text(value) for name, value in args.items()}
    elif args:
        text = str(record.msg) % tuple(_without_text(value) for value in args)
    else:
        text = str(_without_text(record.msg))
    if record.name == "asyncio":
        # The further lines show the task, with its exception's text.
        text = text.partition("\n")[0]
    return text.rstrip()[:_MAX_TEXT]


def _without_text(value: object) -> object:
    if isinstance(value, BaseException) and not isinstance(value, KnowledgeError):
        return type(value).__qualname__
    return value


def _fields(record: logging.LogRecord) -> dict[str, object]:
    fields = {name: _plain(value) for name, value in vars(record).items() if name not in _RESERVED}
    if record.name == "uvicorn.access" and isinstance(record.args, tuple) and len(record.args) == 5:
        client, method, path, _, status = record.args
        # A query string may hold what a caller searches for.
        fields |= {
            "client": _plain(client),
            "method": _plain(method),
            "path": _plain(str(path).partition("?")[0]),
            "status": _plain(status),
        }
    return fields


def _origin() -> dict[str, str]:
    """The request and the trace that a record belongs to."""
    origin = {} if (current := request_id.get()) is None else {"request_id": current}
    if (ids := current_ids()) is not None:
        origin["trace_id"], origin["span_id"] = ids
    return origin


def _plain(value: object) -> object:
    """`value` as JSON; of an unknown kind only the type's name, since its text may hold anything."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, Enum):
        return _plain(value.value)
    if isinstance(value, str):
        return value[:_MAX_TEXT]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, UUID | datetime | date | PurePath | SecretStr):
        return str(value)
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    return f"<{type(value).__qualname__}>"


def _exception(record: logging.LogRecord) -> BaseException | None:
    return record.exc_info[1] if record.exc_info else None


def _write(value: object) -> str:
    return str(value) if value.__class__ is int else _encode(value)


def _timestamp(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _one_line(text: str) -> str:
    # A line break in a message must not start what looks like another record.
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
