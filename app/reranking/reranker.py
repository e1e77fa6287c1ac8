"""The interface of rerankers; retries, a time limit and circuit breaking for any of them."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

from app.embeddings.tokens import approximate_tokens
from app.errors import RerankerUnavailable
from app.resilience.calls import CHECK_TEXT, CallBudget, CallPolicy, Calls
from app.resilience.circuit import Circuit


class Reranker(Protocol):
    """Compares texts with a query, each together with it. Safe for concurrent use in one event loop."""

    @property
    def name(self) -> str:
        """The form of its API and its model, such as `jina/jina-reranker-v2-base-multilingual`."""
        ...

    async def rerank(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """Score each text, in order: the higher, the better it answers the query. Raises RerankerUnavailable."""
        ...

    async def close(self) -> None:
        """Release connections."""
        ...


PROVIDER = "reranker"
"""The provider in metrics and traces; there is one reranker."""

FIRST_DELAY = 0.1
"""Longest wait before the second try, in seconds."""


class ResilientReranker:
    """Reranker that retries calls of another one within a time limit, and stops calling it when it is down.

    Every failure is raised as RerankerUnavailable with the number of tries, which is 0 while the circuit is open.
    """

    def __init__(
        self,
        inner: Reranker,
        timeout: float,
        policy: CallPolicy | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """`timeout` is that of a whole call, in seconds."""
        self.name: Final = inner.name
        self._inner = inner
        self._budget = CallBudget(timeout, FIRST_DELAY)
        self._calls = Calls(
            "rerank",
            PROVIDER,
            inner.name,
            RerankerUnavailable,
            policy or CallPolicy(),
            check=lambda: inner.rerank(CHECK_TEXT, [CHECK_TEXT]),
            patience=timeout,
            clock=clock,
            sleep=sleep,
            jitter=jitter,
        )

    @property
    def circuit(self) -> Circuit:
        """The circuit of all calls."""
        return self._calls.circuit

    async def rerank(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        if not texts:
            return ()
        return await self._calls.run(
            lambda: self._inner.rerank(query, texts),
            self._budget,
            texts=len(texts),
            tokens=count_tokens(query, texts),
        )

    async def close(self) -> None:
        await self._inner.close()


def count_tokens(query: str, texts: Sequence[str]) -> int:
    """Tokens of a call by a rule of thumb: the model reads the query together with each of the texts."""
    return len(texts) * approximate_tokens((query,)) + approximate_tokens(texts)
