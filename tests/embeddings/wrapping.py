"""Providers wrapped with retries, time limits and a circuit, with a clock that the test advances."""

import pytest

from app.embeddings.provider import BatchLimits
from app.embeddings.resilience import ResiliencePolicy, ResilientProvider
from app.errors import EmbeddingUnavailable
from app.resilience import CallBudget, Circuit, CircuitState, Timing
from tests.fixtures.clock import FakeClock
from tests.fixtures.providers.scripted import ScriptedProvider

POLICY = ResiliencePolicy(
    query=CallBudget(timeout=2.0, first_delay=0.1),
    documents=CallBudget(timeout=60.0, first_delay=1.0),
    failure_threshold=2,
    cool_down=30.0,
    batch=BatchLimits(texts=3, tokens=10),
)


def down(**changes: float | bool) -> EmbeddingUnavailable:
    return EmbeddingUnavailable("mock", "down", **changes)  # type: ignore[arg-type]


def wrap(
    inner: ScriptedProvider, clock: FakeClock, *, jitter: float = 1.0, policy: ResiliencePolicy = POLICY
) -> ResilientProvider:
    return ResilientProvider(inner, policy, Timing(clock, clock.sleep, lambda: jitter))


def wrap_scripted() -> tuple[ResilientProvider, ScriptedProvider, FakeClock]:
    inner, clock = ScriptedProvider(), FakeClock()
    return wrap(inner, clock), inner, clock


async def fail_query(provider: ResilientProvider) -> EmbeddingUnavailable:
    with pytest.raises(EmbeddingUnavailable) as caught:
        await provider.embed_query("question")
    return caught.value


def state_of(circuit: Circuit) -> CircuitState:
    """Read the state through a call, because the type checker would assume that the attribute is unchanged."""
    return circuit.state


async def open_circuit(provider: ResilientProvider, inner: ScriptedProvider) -> None:
    inner.failures = [down() for _ in range(7)]  # two calls, and the check with a fixed text
    for _ in range(2):
        assert (await fail_query(provider)).attempts == 3
    assert state_of(provider.query_circuit) == "open"
    inner.queries.clear()
