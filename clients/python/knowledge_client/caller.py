"""Runs calls over a transport, without the definitions of any."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TypeVar

from knowledge_client.exchange import Attempt, Exchange, Outcome, Pause, perform
from knowledge_client.retries import Retries
from knowledge_client.tokens import TokenSource, authorize
from knowledge_client.transport import NotAnswered, Transport

T = TypeVar("T")


class Caller:
    """Sends the requests of calls with these headers and, if there is one, a token; waits between retries."""

    def __init__(
        self, transport: Transport, token: TokenSource | None, headers: Mapping[str, str], retries: Retries | None
    ) -> None:
        self._transport = transport
        self._token = token
        self._current: str | None = None
        self._headers = headers
        self._retries = retries or Retries()

    def run(self, exchange: Exchange[T]) -> T:
        """Run a call defined elsewhere. Raises KnowledgeError."""
        steps = perform(exchange, self._retries, renewable=callable(self._token))
        outcome: Outcome = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                result: T = end.value
                return result
            outcome = self._take(step)

    def _take(self, step: Attempt | Pause) -> Outcome:
        if isinstance(step, Pause):
            time.sleep(step.seconds)
            return None
        headers = {**step.request.headers, **self._headers}
        if self._token is not None:
            headers["Authorization"] = authorize(self._bearer(self._token, step.renew))
        try:
            return self._transport.send(step.request, headers)
        except NotAnswered as error:
            return error

    def _bearer(self, source: TokenSource, renew: bool) -> str:
        if isinstance(source, str):
            return source
        if renew or self._current is None:
            self._current = source()
        return self._current
