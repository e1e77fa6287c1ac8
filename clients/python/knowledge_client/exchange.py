"""Calls without I/O: generators that yield what to send and how long to wait, and receive the outcome.

`KnowledgeClient` and `AsyncKnowledgeClient` run the same steps, each in its own way.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, TypeVar

import httpx
from pydantic_core import to_json

from knowledge_client.errors import KnowledgeError, ServiceUnreachable, Unauthenticated, read_problem
from knowledge_client.retries import Retries

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file to upload: a path, bytes, or an open binary file, which is sent from its beginning."""

    source: str | os.PathLike[str] | bytes | BinaryIO
    name: str
    media_type: str | None

    @contextlib.contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """The file's bytes, any number of times. Raises OSError."""
        if isinstance(self.source, bytes):
            yield io.BytesIO(self.source)
        elif isinstance(self.source, str | os.PathLike):
            with Path(self.source).open("rb") as file:
                yield file
        else:
            yield self.source

    @property
    def repeatable(self) -> bool:
        """Whether it can be sent twice."""
        return isinstance(self.source, str | os.PathLike | bytes) or self.source.seekable()


@dataclass(frozen=True, slots=True)
class Request:
    """One request; `repeatable` means that sending it twice has the same effect as sending it once."""

    method: str
    path: str
    params: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    json: Any = None
    form: Mapping[str, Any] = field(default_factory=dict)
    attachment: Attachment | None = None
    repeatable: bool = True

    @contextlib.contextmanager
    def arguments(self) -> Iterator[dict[str, Any]]:
        """The arguments for httpx; an attachment is open while they are used."""
        arguments: dict[str, Any] = {
            "params": {name: value for name, value in self.params.items() if value is not None},
            "headers": dict(self.headers),
        }
        if self.attachment is not None:
            with self.attachment.open() as file:
                part = (self.attachment.name, file, self.attachment.media_type)
                yield {**arguments, "files": {"file": part}, "data": self.form}
            return
        if self.json is not None:
            arguments["content"] = to_json(self.json, inf_nan_mode="constants")
            arguments["headers"]["Content-Type"] = "application/json"
        yield arguments


@dataclass(frozen=True, slots=True)
class Attempt:
    """Send the request, with a new token if `renew` is set."""

    request: Request
    renew: bool = False


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait for a number of seconds."""

    seconds: float


Exchange: TypeAlias = Generator[Request | Pause, Any, T]
"""A call: yields requests, receives their answers (httpx.Response) or errors, and returns the result."""

Outcome: TypeAlias = httpx.Response | httpx.RequestError | None
Steps: TypeAlias = Generator[Attempt | Pause, Outcome, T]
"""A call with its retries: yields attempts and receives their outcomes."""


def perform(exchange: Exchange[T], retries: Retries, *, renewable: bool) -> Steps[T]:
    """The steps of a call; `renewable` means that a new token can be requested. Raises KnowledgeError."""
    try:
        step = next(exchange)
        while True:
            if isinstance(step, Pause):
                yield step
                step = next(exchange)
                continue
            try:
                response = yield from _send(step, retries, renewable)
            except KnowledgeError as error:
                step = exchange.throw(error)
            else:
                step = exchange.send(response)
    except StopIteration as end:
        result: T = end.value
        return result


def _send(request: Request, retries: Retries, renewable: bool) -> Steps[httpx.Response]:
    tries, renew, renewed, unsure = 0, False, False, False
    while True:
        outcome = yield Attempt(request, renew)
        renew = False
        if isinstance(outcome, httpx.Response):
            # An earlier attempt without an answer may have deleted it.
            if outcome.is_success or (unsure and request.method == "DELETE" and outcome.status_code == 404):
                return outcome
            error: KnowledgeError = read_problem(outcome)
            if isinstance(error, Unauthenticated) and renewable and not renewed:
                renew = renewed = True
                continue
        else:
            assert isinstance(outcome, httpx.RequestError)
            error = ServiceUnreachable(f"{type(outcome).__name__}: {outcome}")
            error.__cause__ = outcome
        tries += 1
        delay = retries.delay(tries, outcome, repeatable=request.repeatable)
        if delay is None:
            raise error
        unsure = unsure or not isinstance(outcome, httpx.Response) or outcome.status_code != 429
        yield Pause(delay)
