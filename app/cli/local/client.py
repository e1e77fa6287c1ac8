"""The command's side: ask the running service, or else open the database."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from app.cli.execution import run_async
from app.cli.local.place import find_place
from app.cli.output.failures import Interrupted
from app.cli.output.progress import show_waiting
from app.errors import FieldError, InvalidInput, KnowledgeError, ServiceUnreachable

if TYPE_CHECKING:
    from app.settings import Settings

GREETING_SECONDS = 1.0
ANSWER_SECONDS = 60.0
"""More than a search takes: its statements and its embedding have shorter limits."""

PIECE = 1 << 16

UNKNOWN = (
    "the running service ended before it answered, so it is not known whether this was done: look with `knowledge get`"
    " or `knowledge list` before you repeat the command"
)


class NotAnswered(Exception):
    """No service answers for these settings."""


def ask_or_open(
    settings: Settings,
    command: str,
    arguments: Mapping[str, Any],
    work: Callable[[], Coroutine[Any, Any, Any]],
    *,
    doing: str | None = None,
    writes: bool = False,
) -> Any:
    """The service's answer to a command, or the result of `work`, which opens the database. Raises KnowledgeError.

    A command that `writes` is not done again once a service has got it.
    """
    try:
        with contextlib.nullcontext() if doing is None else show_waiting(doing):
            return ask(settings, command, arguments, writes=writes)
    except NotAnswered:
        return run_async(work(), doing=doing)


def ask(settings: Settings, command: str, arguments: Mapping[str, Any], *, writes: bool = False) -> Any:
    """The answer of a running service, as parsed JSON. Raises NotAnswered, and the KnowledgeError of the answer.

    Raises ServiceUnreachable if a command that `writes` was sent to a service and got no answer: it may be done.
    """
    place = find_place(settings)
    if place is None:
        raise NotAnswered
    request = json.dumps({"key": place.key, "command": command, "arguments": arguments}).encode() + b"\n"
    with _interruptible():
        for path in place.list_sockets():
            with contextlib.suppress(OSError), _asking(path, request) as connection:
                answer = _receive(connection)
                if answer is not None:
                    break
                if writes:
                    raise ServiceUnreachable(UNKNOWN)
        else:
            raise NotAnswered
    if "errors" in answer:
        raise InvalidInput([FieldError(*parts) for parts in answer["errors"]])
    if "error" in answer:
        raise KnowledgeError(answer["error"])
    return answer["result"]


@contextlib.contextmanager
def _asking(path: str, request: bytes) -> Iterator[socket.socket]:
    """A connection to a service that has got the request. Raises OSError if it has not."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(GREETING_SECONDS)
        connection.connect(path)
        if not connection.recv(1):
            raise ConnectionResetError
        connection.sendall(request)
        connection.settimeout(ANSWER_SECONDS)
        yield connection


def _receive(connection: socket.socket) -> Any | None:
    """The answer; None if the service closed the connection before its end, or took too long."""
    pieces = []
    try:
        while piece := connection.recv(PIECE):
            pieces.append(piece)
        return json.loads(b"".join(pieces))
    except (OSError, ValueError):
        return None


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Signals end the command as they do while it works in an event loop."""

    def stop(*_: object) -> NoReturn:
        raise Interrupted

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
