"""Retries, time limits and circuit breaking for calls of any provider. No other module retries."""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from email.utils import parsedate_to_datetime
from typing import Final, Literal, Self, TypeVar

from app.errors import ProviderUnavailable
from app.telemetry.metrics import PROVIDER_CALLS, PROVIDER_SECONDS, PROVIDER_TOKENS, PROVIDER_TRIES
from app.telemetry.tracing import span

KEY_REJECTED = "key rejected"
_INPUT_STATUSES = frozenset({400, 413, 422})
_TRANSIENT_STATUSES = frozenset({408, 409, 425, 429})


@dataclass(frozen=True, slots=True)
class HttpFailure:
    """The failure behind an HTTP status.

    `permanent`: trying again with the same input and key will not help. `input_refused`: the provider works, but
    refuses this text. `retry_after` is the requested delay in seconds.
    """

    reason: str
    permanent: bool = False
    input_refused: bool = False
    retry_after: float | None = None


def read_status(status: int, headers: Mapping[str, str], *, key_rejected: bool = False) -> HttpFailure:
    """The failure behind an HTTP status. The response's text is omitted, since it may quote the key or content."""
    if key_rejected or status in (401, 403):
        return HttpFailure(f"{KEY_REJECTED} (HTTP {status})", permanent=True)
    if status in _INPUT_STATUSES:
        return HttpFailure(f"input refused (HTTP {status})", permanent=True, input_refused=True)
    if status == 404:
        return HttpFailure("no such model or address (HTTP 404)", permanent=True)
    reason = "rate limit reached" if status == 429 else "server error" if status >= 500 else "refused"
    return HttpFailure(
        f"{reason} (HTTP {status})",
        permanent=status < 500 and status not in _TRANSIENT_STATUSES,
        retry_after=parse_retry_after(headers),
    )


def parse_retry_after(headers: Mapping[str, str]) -> float | None:
    """Read `retry-after-ms` or `Retry-After` (seconds or a date) as seconds from now; None if both are missing."""
    for name, divisor in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        value = headers.get(name)
        if value is None:
            continue
        try:
            seconds = float(value) / divisor
        except ValueError:
            continue
        return seconds if math.isfinite(seconds) and seconds >= 0 else None
    try:
        moment = parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return None
    return max(0.0, moment.timestamp() - time.time())


CircuitState = Literal["closed", "open", "half-open"]


class CircuitOpen(Exception):
    """The circuit refuses calls for another `retry_after` seconds."""

    def __init__(self, retry_after: float) -> None:
        self.retry_after = retry_after
        super().__init__(f"circuit open for {retry_after:.1f} s")


@dataclass(eq=False)
class Circuit:
    """Opens after `threshold` failed calls in a row and lets one probe through `cool_down` seconds later.

    `on_change` is called with each new state that results from the end of a call.
    """

    threshold: int
    cool_down: float
    clock: Callable[[], float]
    on_change: Callable[[CircuitState], None]
    _failures: int = field(default=0, init=False)
    _opened_at: float | None = field(default=None, init=False)
    _probing: bool = field(default=False, init=False)

    @property
    def state(self) -> CircuitState:
        """`half-open` from the end of the cool-down until the probe has ended."""
        if self._opened_at is None:
            return "closed"
        return "half-open" if self._remaining() <= 0 else "open"

    def admit(self) -> Permit:
        """Request permission for one call; raises CircuitOpen. A permit left without a verdict is not counted."""
        if self._opened_at is None:
            return Permit(self, is_probe=False)
        remaining = self._remaining()
        if remaining > 0 or self._probing:
            raise CircuitOpen(max(remaining, 0.0))
        self._probing = True
        return Permit(self, is_probe=True)

    def opens_with(self, *, is_probe: bool) -> bool:
        """Whether the circuit opens, or stays open, if this call fails."""
        if self._opened_at is not None:
            return is_probe
        return self._failures + 1 >= self.threshold

    def record(self, *, is_probe: bool, succeeded: bool | None) -> None:
        """Record how an admitted call ended; only a probe's verdict counts while the circuit is open."""
        before = self.state
        if is_probe:
            self._probing = False
        elif self._opened_at is not None:
            return
        if succeeded:
            self._failures = 0
            self._opened_at = None
        elif succeeded is False:
            self._failures += 1
            if is_probe or self._failures >= self.threshold:
                self._opened_at = self.clock()
        if self.state != before:
            self.on_change(self.state)

    def _remaining(self) -> float:
        return 0.0 if self._opened_at is None else self._opened_at + self.cool_down - self.clock()


class Permit:
    """One admitted call; settled when the `with` block ends, cancelled or not."""

    def __init__(self, circuit: Circuit, *, is_probe: bool) -> None:
        self._circuit = circuit
        self._succeeded: bool | None = None
        self.is_probe = is_probe

    @property
    def opens(self) -> bool:
        """Whether the circuit opens, or stays open, if this call fails."""
        return self._circuit.opens_with(is_probe=self.is_probe)

    def succeed(self) -> None:
        """The provider answered."""
        self._succeeded = True

    def fail(self) -> None:
        """The provider failed."""
        self._succeeded = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._circuit.record(is_probe=self.is_probe, succeeded=self._succeeded)


logger = logging.getLogger(__name__)

T = TypeVar("T")
Operation = Literal["query", "documents", "rerank"]

CHECK_TEXT = "word"
"""The text that tells a provider that is down from one that fails on the texts of one tenant."""


@dataclass(frozen=True, slots=True)
class CallBudget:
    """Seconds for a whole call with its retries, and the shortest wait before the second try.

    A wait lasts up to twice its shortest, which doubles from try to try: so each is longer than the one before.
    """

    timeout: float
    first_delay: float


@dataclass(frozen=True, slots=True)
class CallPolicy:
    """How hard to try: `attempts` a call; the circuit opens after `failure_threshold` failed calls in a row.

    `cool_down` is in seconds. `slow_is_down`: whether a timeout counts as such a failure; a model in this process is
    only busy then.
    """

    attempts: int = 3
    failure_threshold: int = 5
    cool_down: float = 30.0
    slow_is_down: bool = True


@dataclass(frozen=True, slots=True)
class Timing:
    """The clock of calls in monotonic seconds, how they wait, and the random part, 0 to 1, of a wait."""

    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    jitter: Callable[[], float] = random.SystemRandom().random


REAL_TIME: Final = Timing()


@dataclass(eq=False)
class Calls:
    """Makes the calls of one operation of a provider: retries within a time limit, and none while it is down.

    All tenants share the circuit. So that no tenant opens it with its own texts, it opens only if the provider also
    fails on a fixed text, within `patience` seconds. Every failure is raised as the provider's kind of
    ProviderUnavailable, `unavailable`, with the number of tries, which is 0 while the circuit is open. `check` asks the
    provider about the fixed text.
    """

    operation: Operation
    provider: str
    model: str
    unavailable: type[ProviderUnavailable]
    policy: CallPolicy
    _: KW_ONLY
    check: Callable[[], Awaitable[object]]
    patience: float
    timing: Timing = REAL_TIME

    def __post_init__(self) -> None:
        self.circuit = Circuit(self.policy.failure_threshold, self.policy.cool_down, self.timing.clock, self._report)
        self._checking = asyncio.Lock()

    async def run(self, attempt: Callable[[], Awaitable[T]], budget: CallBudget, *, texts: int, tokens: int) -> T:
        """Make one call with its retries; count and time it. `texts` and `tokens` are what it sends."""
        provider, operation = self.provider, self.operation
        outcome, started = "cancelled", time.perf_counter()
        with span(f"provider {operation}", "client", provider=provider, model=self.model, texts=texts) as seen:
            try:
                result = await self._admit(attempt, budget)
                outcome = "done"
                PROVIDER_TOKENS.labels(provider, operation).inc(tokens)
                return result
            except ProviderUnavailable as error:
                if error.input_refused:
                    outcome = "refused"
                else:
                    outcome = "failed" if error.attempts else "circuit_open"
                    seen.set(tries=error.attempts)
                raise
            finally:
                PROVIDER_CALLS.labels(provider, operation, outcome).inc()
                PROVIDER_SECONDS.labels(provider, operation).observe(time.perf_counter() - started)
                seen.set(outcome=outcome)

    async def _admit(self, attempt: Callable[[], Awaitable[T]], budget: CallBudget) -> T:
        try:
            permit = self.circuit.admit()
        except CircuitOpen as refusal:
            raise self.unavailable(self.provider, "circuit open", attempts=0, retry_after=refusal.retry_after) from None
        with permit:
            return await self._try(attempt, budget, permit)

    async def _try(self, attempt: Callable[[], Awaitable[T]], budget: CallBudget, permit: Permit) -> T:
        tries = 1 if permit.is_probe else self.policy.attempts
        deadline = self.timing.clock() + budget.timeout
        made = 0
        while True:
            made += 1
            PROVIDER_TRIES.labels(self.provider, self.operation).inc()
            try:
                async with asyncio.timeout(max(0.0, deadline - self.timing.clock())):
                    result = await attempt()
            except Exception as error:
                failure, slow = self._describe(error, budget, made), isinstance(error, TimeoutError)
                if failure.input_refused:
                    permit.succeed()  # the provider answered, so it works
                    raise failure from None
            else:
                permit.succeed()
                return result
            delay = self._choose_delay(budget, failure, made)
            out_of_time = self.timing.clock() + delay >= deadline
            if failure.permanent or made >= tries or out_of_time:
                if self.policy.slow_is_down or not slow:
                    await self._settle(permit)
                raise failure
            logger.info(
                "%s: try %d failed (%s)",
                failure.provider,
                made,
                failure.reason,
                extra={"operation": self.operation, "wait_ms": round(delay * 1000)},
            )
            await self.timing.sleep(delay)

    async def _settle(self, permit: Permit) -> None:
        """Count a failed call. The call that would open the circuit counts only if the provider fails on any text."""
        if permit.opens:
            async with self._checking:  # one check for all calls that fail at the same time
                if permit.opens and await self._answers():
                    permit.succeed()
                    return
        permit.fail()

    async def _answers(self) -> bool:
        PROVIDER_TRIES.labels(self.provider, self.operation).inc()
        try:
            async with asyncio.timeout(self.patience):
                await self.check()
        except Exception as error:
            return isinstance(error, ProviderUnavailable) and error.input_refused
        return True

    def _describe(self, error: Exception, budget: CallBudget, made: int) -> ProviderUnavailable:
        if isinstance(error, ProviderUnavailable):
            error.attempts = made
            return error
        if isinstance(error, TimeoutError):
            reason = f"no answer within {budget.timeout:g} s"
        else:
            # Only the class name: the message of an exception may quote the input.
            reason = f"unexpected {type(error).__name__}"
            logger.error("%s: %s", self.provider, reason)
        return self.unavailable(self.provider, reason, attempts=made)

    def _choose_delay(self, budget: CallBudget, failure: ProviderUnavailable, made: int) -> float:
        """Jitter above a doubling floor, or the delay that the provider requested if that is longer."""
        backoff = (1.0 + self.timing.jitter()) * budget.first_delay * 2.0 ** (made - 1)
        return max(backoff, failure.retry_after or 0.0)

    def _report(self, state: CircuitState) -> None:
        logger.warning("%s: circuit is now %s", self.provider, state)
