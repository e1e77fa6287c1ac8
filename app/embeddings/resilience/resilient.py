"""Retries, time limits and circuit breaking for any embedding provider."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from app.embeddings.provider import EmbeddingProvider, Vector
from app.embeddings.tokens import BatchLimits, approximate_tokens, split_batches
from app.errors import EmbeddingUnavailable
from app.resilience import CHECK_TEXT, CallBudget, CallPolicy, Calls, Circuit

SECONDS_PER_QUERY = 0.1
"""Seconds that each further query of a call adds to its time limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResiliencePolicy(CallPolicy):
    """How hard to try. Documents are sent in batches within `batch`, each with a separate budget."""

    query: CallBudget = field(default_factory=lambda: CallBudget(timeout=2.0, first_delay=0.1))
    documents: CallBudget = field(default_factory=lambda: CallBudget(timeout=60.0, first_delay=1.0))
    batch: BatchLimits = field(default_factory=lambda: BatchLimits(texts=64))


class ResilientProvider:
    """EmbeddingProvider that retries calls of another one within a time limit, and stops calling it when it is down.

    Queries and documents have separate circuits, so that a bulk load over its rate limit does not stop searches.
    Every failure is raised as EmbeddingUnavailable with the number of tries, which is 0 while the circuit is open.
    """

    def __init__(
        self,
        inner: EmbeddingProvider,
        policy: ResiliencePolicy | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._inner = inner
        self.model: Final = inner.model
        self._policy = policy or ResiliencePolicy()

        def make_calls(operation: Literal["query", "documents"], check: Callable[[], Awaitable[object]]) -> Calls:
            return Calls(
                operation,
                inner.model.provider,
                inner.model.name,
                EmbeddingUnavailable,
                self._policy,
                check=check,
                patience=self._policy.query.timeout,
                clock=clock,
                sleep=sleep,
                jitter=jitter,
            )

        self._queries = make_calls("query", lambda: inner.embed_query(CHECK_TEXT))
        self._documents = make_calls("documents", lambda: inner.embed_documents([CHECK_TEXT]))

    @property
    def query_circuit(self) -> Circuit:
        """The circuit of queries."""
        return self._queries.circuit

    @property
    def document_circuit(self) -> Circuit:
        """The circuit of documents."""
        return self._documents.circuit

    async def embed_query(self, text: str) -> Vector:
        return await self._queries.run(
            lambda: self._inner.embed_query(text),
            self._policy.query,
            texts=1,
            tokens=approximate_tokens((text,)),
        )

    async def embed_queries(self, texts: Sequence[str]) -> list[Vector]:
        # A model in this process computes one text after another.
        timeout = self._policy.query.timeout + SECONDS_PER_QUERY * (len(texts) - 1)
        return await self._queries.run(
            lambda: self._inner.embed_queries(texts),
            replace(self._policy.query, timeout=timeout),
            texts=len(texts),
            tokens=approximate_tokens(texts),
        )

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        vectors: list[Vector] = []
        for batch in split_batches(texts, self._policy.batch, self._inner.count_tokens):
            vectors += await self._embed_batch(batch)
        return vectors

    def count_tokens(self, text: str) -> int:
        return self._inner.count_tokens(text)

    async def close(self) -> None:
        await self._inner.close()

    async def _embed_batch(self, batch: list[str]) -> list[Vector]:
        return await self._documents.run(
            lambda: self._inner.embed_documents(batch),
            self._policy.documents,
            texts=len(batch),
            tokens=approximate_tokens(batch),
        )
