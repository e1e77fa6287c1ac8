"""Retries, time limits and circuit breaking for any provider. No other module retries."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeVar

from app.embeddings.failures import InputRefused
from app.embeddings.provider import EmbeddingProvider, Vector
from app.embeddings.resilience.circuit import Circuit, CircuitOpen, CircuitState, Permit
from app.embeddings.tokens import BatchLimits, approximate_tokens, split_batches
from app.errors import EmbeddingUnavailable
from app.telemetry.metrics import PROVIDER_CALLS, PROVIDER_SECONDS, PROVIDER_TOKENS, PROVIDER_TRIES
from app.telemetry.tracing import span

logger = logging.getLogger(__name__)

T = TypeVar("T")
Operation = Literal["query", "documents"]

SECONDS_PER_QUERY = 0.1
"""Seconds that each further query of a call adds to its time limit."""

CHECK_TEXT = "word"
"""The text that tells a provider that is down from one that fails on the texts of one tenant."""


@dataclass(frozen=True, slots=True)
class CallBudget:
    """Seconds for a whole call with its retries, and the longest wait before the second try; it doubles."""

    timeout: float
    first_delay: float


@dataclass(frozen=True, slots=True)
class ResiliencePolicy:
    """How hard to try: `attempts` a call; the circuit opens after `failure_threshold` failed calls in a row.

    `cool_down` is in seconds. Documents are sent in batches within `batch`, each with a separate budget.
    `slow_is_down`: whether a timeout counts as such a failure; a model in this process is only busy then.
    """

    attempts: int = 3
    query: CallBudget = field(default_factory=lambda: CallBudget(timeout=2.0, first_delay=0.1))
    documents: CallBudget = field(default_factory=lambda: CallBudget(timeout=60.0, first_delay=1.0))
    failure_threshold: int = 5
    cool_down: float = 30.0
    batch: BatchLimits = field(default_factory=lambda: BatchLimits(texts=64))
    slow_is_down: bool = True


class ResilientProvider:
    """EmbeddingProvider that retries calls of another one within a time limit, and stops calling it when it is down.

    Queries and documents have separate circuits, so that a bulk load over its rate limit does not stop searches.
    All tenants share them. So that no tenant opens a circuit with its own texts, it opens only if the provider also
    fails on a fixed text, within the time limit of a query.
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
        self._clock = clock
        self._sleep = sleep
        self._jitter = jitter
        self.query_circuit = self._make_circuit()
        self.document_circuit = self._make_circuit()
        self._checking = asyncio.Lock()

    async def embed_query(self, text: str) -> Vector:
        return await self._call(
            "query", (text,), lambda: self._inner.embed_query(text), self._policy.query, self.query_circuit
        )

    async def embed_queries(self, texts: Sequence[str]) -> list[Vector]:
        # A model in this process computes one text after another.
        timeout = self._policy.query.timeout + SECONDS_PER_QUERY * (len(texts) - 1)
        budget = replace(self._policy.query, timeout=timeout)
        return await self._call(
            "query", texts, lambda: self._inner.embed_queries(texts), budget, self.query_circuit
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
        return await self._call(
            "documents",
            batch,
            lambda: self._inner.embed_documents(batch),
            self._policy.documents,
            self.document_circuit,
        )

    async def _call(
        self,
        operation: Operation,
        texts: Sequence[str],
        attempt: Callable[[], Awaitable[T]],
        budget: CallBudget,
        circuit: Circuit,
    ) -> T:
        """Make one call with its retries; count and time it."""
        provider, outcome, started = self.model.provider, "cancelled", time.perf_counter()
        with span(
            f"provider {operation}", "client", provider=provider, model=self.model.name, texts=len(texts)
        ) as seen:
            try:
                result = await self._call_admitted(operation, attempt, budget, circuit)
                outcome = "done"
                PROVIDER_TOKENS.labels(provider, operation).inc(approximate_tokens(texts))
                return result
            except InputRefused:
                outcome = "refused"
                raise
            except EmbeddingUnavailable as error:
                outcome = "failed" if error.attempts else "circuit_open"
                seen.set(tries=error.attempts)
                raise
            finally:
                PROVIDER_CALLS.labels(provider, operation, outcome).inc()
                PROVIDER_SECONDS.labels(provider, operation).observe(time.perf_counter() - started)
                seen.set(outcome=outcome)

    async def _call_admitted(
        self,
        operation: Operation,
        attempt: Callable[[], Awaitable[T]],
        budget: CallBudget,
        circuit: Circuit,
    ) -> T:
        try:
            permit = circuit.admit()
        except CircuitOpen as refusal:
            raise EmbeddingUnavailable(
                self.model.provider, "circuit open", attempts=0, retry_after=refusal.retry_after
            ) from None
        with permit:
            return await self._try(operation, attempt, budget, permit)

    async def _try(
        self, operation: Operation, attempt: Callable[[], Awaitable[T]], budget: CallBudget, permit: Permit
    ) -> T:
        tries = 1 if permit.is_probe else self._policy.attempts
        deadline = self._clock() + budget.timeout
        made = 0
        while True:
            made += 1
            PROVIDER_TRIES.labels(self.model.provider, operation).inc()
            try:
                async with asyncio.timeout(max(0.0, deadline - self._clock())):
                    result = await attempt()
            except InputRefused as refused:
                permit.succeed()  # the provider answered, so it works
                refused.attempts = made
                raise
            except Exception as error:
                failure, slow = self._describe(error, budget, made), isinstance(error, TimeoutError)
            else:
                permit.succeed()
                return result
            delay = self._choose_delay(budget, failure, made)
            out_of_time = self._clock() + delay >= deadline
            if failure.permanent or made >= tries or out_of_time:
                if self._policy.slow_is_down or not slow:
                    await self._settle(operation, permit)
                raise failure
            logger.debug("%s: try %d failed (%s)", failure.provider, made, failure.reason)
            await self._sleep(delay)

    async def _settle(self, operation: Operation, permit: Permit) -> None:
        """Count a failed call. The call that would open the circuit counts only if the provider fails on any text."""
        if permit.opens:
            async with self._checking:  # one check for all calls that fail at the same time
                if permit.opens and await self._answers(operation):
                    permit.succeed()
                    return
        permit.fail()

    async def _answers(self, operation: Operation) -> bool:
        PROVIDER_TRIES.labels(self.model.provider, operation).inc()
        try:
            async with asyncio.timeout(self._policy.query.timeout):
                if operation == "query":
                    await self._inner.embed_query(CHECK_TEXT)
                else:
                    await self._inner.embed_documents([CHECK_TEXT])
        except Exception as error:
            return isinstance(error, InputRefused)
        return True

    def _describe(self, error: Exception, budget: CallBudget, made: int) -> EmbeddingUnavailable:
        if isinstance(error, EmbeddingUnavailable):
            error.attempts = made
            return error
        if isinstance(error, TimeoutError):
            reason = f"no answer within {budget.timeout:g} s"
        else:
            # Only the class name: the message of an exception may quote the input.
            reason = f"unexpected {type(error).__name__}"
            logger.error("%s: %s", self.model.provider, reason)
        return EmbeddingUnavailable(self.model.provider, reason, attempts=made)

    def _choose_delay(self, budget: CallBudget, failure: EmbeddingUnavailable, made: int) -> float:
        """Full jitter below a doubling bound, or the delay that the provider requested if that is longer."""
        backoff = self._jitter() * budget.first_delay * 2.0 ** (made - 1)
        return max(backoff, failure.retry_after or 0.0)

    def _make_circuit(self) -> Circuit:
        policy = self._policy
        return Circuit(policy.failure_threshold, policy.cool_down, self._clock, self._report_circuit)

    def _report_circuit(self, state: CircuitState) -> None:
        logger.warning("%s: circuit is now %s", self.model.provider, state)
