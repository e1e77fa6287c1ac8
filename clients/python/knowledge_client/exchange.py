"""Calls without I/O: generators that yield what to send and how long to wait, and receive the outcome.

`KnowledgeClient` and `AsyncKnowledgeClient` run the same steps, each in its own way.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple, TypeAlias, TypeVar

from knowledge_client.errors import KnowledgeError, ServiceUnreachable, Unauthenticated, read_problem
from knowledge_client.retries import Retries
from knowledge_client.transport import NotAnswered, Request, Response

T = TypeVar("T")


class Attempt(NamedTuple):
    """Send the request, with a new token if `renew` is set."""

    request: Request
    renew: bool = False


class Pause(NamedTuple):
    """Wait for a number of seconds."""

    seconds: float


Exchange: TypeAlias = Generator[Request | Pause, Any, T]
"""A call: yields requests, receives their answers or errors, and returns the result."""

Outcome: TypeAlias = Response | NotAnswered | None
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


def _send(request: Request, retries: Retries, renewable: bool) -> Steps[Response]:
    tries, renew, renewed, unsure = 0, False, False, False
    while True:
        outcome = yield Attempt(request, renew)
        renew = False
        if isinstance(outcome, Response):
            # An earlier attempt without an answer may have deleted it.
            if outcome.is_success or (unsure and request.method == "DELETE" and outcome.status_code == 404):
                return outcome
            error: KnowledgeError = read_problem(outcome)
            if isinstance(error, Unauthenticated) and renewable and not renewed:
                renew = renewed = True
                continue
        else:
            assert isinstance(outcome, NotAnswered)
            error = ServiceUnreachable(str(outcome), may_be_done=unsure or outcome.sent)
            error.__cause__ = outcome.__cause__
        tries += 1
        delay = retries.delay(tries, outcome, repeatable=request.repeatable)
        if delay is None:
            raise error
        unsure = unsure or (outcome.sent if isinstance(outcome, NotAnswered) else outcome.status_code != 429)
        yield Pause(delay)
