"""Retries, time limits and the circuit of a provider."""

import asyncio
import itertools
import logging
from dataclasses import replace

import pytest

from app.embeddings.provider import InputRefused, Vector
from app.embeddings.resilience import ResiliencePolicy, ResilientProvider
from app.errors import EmbeddingUnavailable
from app.resilience import CHECK_TEXT, CallBudget, Timing
from tests.embeddings.wrapping import POLICY, down, fail_query, open_circuit, state_of, wrap, wrap_scripted
from tests.fixtures.clock import FakeClock
from tests.fixtures.providers.scripted import ScriptedProvider


async def test_retries_stop_after_three_tries() -> None:
    inner, clock = ScriptedProvider(*[down() for _ in range(9)]), FakeClock()
    failure = await fail_query(wrap(inner, clock))
    assert failure.attempts == 3
    assert len(inner.queries) == 3


@pytest.mark.parametrize(
    ("jitter", "waits"), [(0.0, [0.1, 0.2, 0.4]), (0.25, [0.125, 0.25, 0.5]), (1.0, [0.2, 0.4, 0.8])]
)
async def test_retries_back_off_exponentially_with_jitter_above_a_floor(
    jitter: float, waits: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    clock = FakeClock()
    policy = replace(POLICY, attempts=4)
    with caplog.at_level(logging.INFO, logger="app.resilience"):
        await fail_query(wrap(ScriptedProvider(*[down() for _ in range(4)]), clock, jitter=jitter, policy=policy))
    assert clock.slept == pytest.approx(waits)
    lines = [(r.getMessage(), vars(r)["operation"], vars(r)["wait_ms"]) for r in caplog.records]
    assert lines == [
        (f"mock: try {number} failed (down)", "query", round(wait * 1000)) for number, wait in enumerate(waits, 1)
    ]


async def test_each_wait_is_longer_than_the_one_before() -> None:
    """Also when the random part is the largest first, and the smallest then."""
    parts, clock = itertools.cycle([0.999, 0.0]), FakeClock()
    provider = ResilientProvider(
        ScriptedProvider(*[down() for _ in range(4)]),
        replace(POLICY, attempts=4),
        Timing(clock, clock.sleep, lambda: next(parts)),
    )
    await fail_query(provider)
    assert clock.slept == sorted(clock.slept)
    assert sum(clock.slept) < POLICY.query.timeout


async def test_a_wait_that_exceeds_the_budget_is_not_begun() -> None:
    clock = FakeClock()
    policy = replace(POLICY, attempts=9)
    failure = await fail_query(wrap(ScriptedProvider(*[down() for _ in range(9)]), clock, policy=policy))
    assert failure.attempts == 4
    assert clock.slept == pytest.approx([0.2, 0.4, 0.8]), "the next would be 1.6 s of the 0.6 s that are left"


async def test_retries_can_succeed_on_the_last_try() -> None:
    inner = ScriptedProvider(down(), down())
    vector = await wrap(inner, FakeClock()).embed_query("question")
    assert vector.shape == (8,)
    assert len(inner.queries) == 3


async def test_retries_wait_as_long_as_requested() -> None:
    clock = FakeClock()
    await wrap(ScriptedProvider(down(retry_after=1.5)), clock).embed_query("question")
    assert clock.slept == [1.5]


async def test_retries_do_not_wait_beyond_the_budget() -> None:
    inner, clock = ScriptedProvider(down(retry_after=1.5), down(retry_after=1.5)), FakeClock()
    failure = await fail_query(wrap(inner, clock))
    assert failure.attempts == 2
    assert failure.retry_after == 1.5
    assert clock.slept == [1.5]


async def test_retries_skip_permanent_failures() -> None:
    inner = ScriptedProvider(down(permanent=True))
    failure = await fail_query(wrap(inner, FakeClock()))
    assert failure.attempts == 1
    assert failure.permanent


async def test_time_limit_covers_the_whole_call() -> None:
    inner = ScriptedProvider(down())
    policy = ResiliencePolicy(query=CallBudget(timeout=0.2, first_delay=0.001))
    provider = ResilientProvider(inner, policy)
    inner.gate.clear()
    failure = await fail_query(provider)
    assert failure.reason == "no answer within 0.2 s"
    assert failure.attempts == 1
    assert inner.cancelled == 1


async def test_unexpected_error_becomes_unavailable_without_its_text(caplog: pytest.LogCaptureFixture) -> None:
    inner = ScriptedProvider(*[ValueError("private words") for _ in range(3)])
    with caplog.at_level(logging.DEBUG):
        failure = await fail_query(wrap(inner, FakeClock()))
    assert failure.reason == "unexpected ValueError"
    assert failure.attempts == 3
    assert "private words" not in caplog.text + str(failure)


async def test_documents_are_cut_into_batches_with_a_budget_each() -> None:
    provider, inner, _ = wrap_scripted()
    texts = ["a", "b", "c", "d " * 9, "e e", "f"]
    vectors = await provider.embed_documents(texts)
    assert inner.batches == [["a", "b", "c"], ["d " * 9], ["e e", "f"]]
    alone = [(await provider.embed_documents([text]))[0] for text in texts]
    assert all((one == other).all() for one, other in zip(vectors, alone, strict=True))


async def test_documents_budget_restarts_with_each_batch() -> None:
    provider, inner, clock = wrap_scripted()
    inner.failures = [down(retry_after=50)]
    inner.failures_after_success = [down(retry_after=50)]
    assert len(await provider.embed_documents(["a", "b", "c", "d"])) == 4
    assert clock.slept == [50, 50]


async def test_resilient_provider_closes_the_wrapped_one() -> None:
    provider, inner, _ = wrap_scripted()
    assert provider.model is inner.model
    assert provider.count_tokens("one two") == 2
    await provider.close()
    assert inner.closed


async def test_circuit_opens_and_fails_at_once() -> None:
    provider, inner, clock = wrap_scripted()
    await open_circuit(provider, inner)
    clock.advance(10)
    failure = await fail_query(provider)
    assert failure.attempts == 0
    assert failure.reason == "circuit open"
    assert failure.retry_after == pytest.approx(20, abs=1)
    assert inner.queries == []


async def test_circuit_counts_only_consecutive_failures() -> None:
    provider, inner, _ = wrap_scripted()
    for _ in range(3):
        inner.failures = [down() for _ in range(3)]
        await fail_query(provider)
        await provider.embed_query("question")
    assert state_of(provider.query_circuit) == "closed"


async def test_circuit_closes_after_a_good_probe(caplog: pytest.LogCaptureFixture) -> None:
    provider, inner, clock = wrap_scripted()
    with caplog.at_level(logging.WARNING, logger="app.embeddings"):
        await open_circuit(provider, inner)
        clock.advance(30)
        assert state_of(provider.query_circuit) == "half-open"
        await provider.embed_query("question")
    assert state_of(provider.query_circuit) == "closed"
    assert [record.getMessage() for record in caplog.records] == [
        "mock: circuit is now open",
        "mock: circuit is now closed",
    ]


async def test_circuit_opens_again_after_one_failed_probe() -> None:
    provider, inner, clock = wrap_scripted()
    await open_circuit(provider, inner)
    clock.advance(30)
    inner.failures = [down(), down()]
    assert (await fail_query(provider)).attempts == 1
    assert state_of(provider.query_circuit) == "open"
    assert (await fail_query(provider)).attempts == 0
    assert inner.queries == ["question", CHECK_TEXT]


async def begin_probe(provider: ResilientProvider, inner: ScriptedProvider, clock: FakeClock) -> asyncio.Task[Vector]:
    """Open the circuit, and start the call that tries again, which waits for `inner.gate`."""
    await open_circuit(provider, inner)
    clock.advance(30)
    inner.gate.clear()
    probe = asyncio.create_task(provider.embed_query("question"))
    await asyncio.sleep(0)
    return probe


async def test_circuit_lets_one_probe_through_at_a_time() -> None:
    provider, inner, clock = wrap_scripted()
    probe = await begin_probe(provider, inner, clock)
    assert (await fail_query(provider)).attempts == 0
    inner.gate.set()
    await probe
    await provider.embed_query("question")


async def test_circuit_probe_that_is_cancelled_makes_room_for_the_next() -> None:
    provider, inner, clock = wrap_scripted()
    probe = await begin_probe(provider, inner, clock)
    probe.cancel()
    with pytest.raises(asyncio.CancelledError):
        await probe
    assert state_of(provider.query_circuit) == "half-open"
    inner.gate.set()
    await provider.embed_query("question")
    assert state_of(provider.query_circuit) == "closed"


async def test_circuit_ignores_calls_that_began_before_it_opened() -> None:
    provider, inner, _ = wrap_scripted()
    inner.gate.clear()
    slow = asyncio.create_task(provider.embed_query("slow"))
    await asyncio.sleep(0)
    inner.gate.set()
    provider.query_circuit.record(is_probe=False, succeeded=False)
    provider.query_circuit.record(is_probe=False, succeeded=False)
    await slow
    assert state_of(provider.query_circuit) == "open"


async def test_circuit_is_not_opened_by_cancelled_calls() -> None:
    provider, inner, _ = wrap_scripted()
    inner.gate.clear()
    for _ in range(5):
        task = asyncio.create_task(provider.embed_query("question"))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert inner.cancelled == 5
    assert state_of(provider.query_circuit) == "closed"


async def test_circuit_of_a_model_in_this_process_is_not_opened_by_slowness() -> None:
    policy = replace(POLICY, query=CallBudget(timeout=0.01, first_delay=0.1), slow_is_down=False)
    inner, clock = ScriptedProvider(), FakeClock()
    provider = wrap(inner, clock, policy=policy)
    inner.gate.clear()
    for _ in range(2 * POLICY.failure_threshold):
        assert (await fail_query(provider)).reason == "no answer within 0.01 s"
    assert state_of(provider.query_circuit) == "closed"
    inner.gate.set()
    inner.failures = [down() for _ in range(3 * POLICY.failure_threshold + 1)]
    for _ in range(POLICY.failure_threshold):
        await fail_query(provider)
    assert state_of(provider.query_circuit) == "open", "what fails otherwise is down"


async def test_circuit_is_not_opened_by_refused_input() -> None:
    inner = ScriptedProvider(*[InputRefused("mock", "too long") for _ in range(5)])
    provider = wrap(inner, FakeClock())
    for _ in range(5):
        assert (await fail_query(provider)).attempts == 1
    assert state_of(provider.query_circuit) == "closed"


@pytest.mark.parametrize("operation", ["query", "documents"])
async def test_circuit_is_not_opened_by_texts_of_one_tenant(operation: str) -> None:
    """Some texts make the provider fail or time out; texts of other tenants do not."""
    provider, inner, _ = wrap_scripted()
    for _ in range(3 * POLICY.failure_threshold):
        inner.failures = [down() for _ in range(POLICY.attempts)]
        with pytest.raises(EmbeddingUnavailable) as caught:
            await (provider.embed_query("poison") if operation == "query" else provider.embed_documents(["poison"]))
        assert caught.value.attempts == POLICY.attempts, "the provider is called"
    assert provider.query_circuit.state == provider.document_circuit.state == "closed"
    asked = inner.queries if operation == "query" else [text for batch in inner.batches for text in batch]
    assert asked.count(CHECK_TEXT) == 3, "one check for each time that the circuit would have opened"


async def test_circuit_closes_after_a_probe_that_fails_because_of_its_text() -> None:
    provider, inner, clock = wrap_scripted()
    await open_circuit(provider, inner)
    clock.advance(30)
    inner.failures = [down()]
    assert (await fail_query(provider)).attempts == 1
    assert state_of(provider.query_circuit) == "closed"


async def test_circuit_is_checked_once_for_calls_that_fail_together() -> None:
    provider, inner, _ = wrap_scripted()
    inner.failures = [down() for _ in range(100)]
    failed = await asyncio.gather(*(provider.embed_query("question") for _ in range(10)), return_exceptions=True)
    assert all(isinstance(failure, EmbeddingUnavailable) for failure in failed)
    assert state_of(provider.query_circuit) == "open"
    assert inner.queries.count(CHECK_TEXT) == 1


async def test_circuit_of_documents_does_not_affect_queries() -> None:
    inner = ScriptedProvider(*[down() for _ in range(7)])
    provider = wrap(inner, FakeClock())
    for _ in range(2):
        with pytest.raises(EmbeddingUnavailable):
            await provider.embed_documents(["text"])
    assert state_of(provider.document_circuit) == "open"
    with pytest.raises(EmbeddingUnavailable) as caught:
        await provider.embed_documents(["text"])
    assert caught.value.attempts == 0
    await provider.embed_query("question")
