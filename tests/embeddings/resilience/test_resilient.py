"""Retries and time limits, with a clock that the test advances."""

from __future__ import annotations

import logging

import pytest

from app.embeddings.resilience import ResiliencePolicy, ResilientProvider
from app.resilience import CallBudget
from tests.embeddings.resilience.wrapping import down, fail_query, wrap
from tests.fixtures.providers.scripted import FakeClock, ScriptedProvider


async def test_retries_stop_after_three_tries() -> None:
    inner, clock = ScriptedProvider(*[down() for _ in range(9)]), FakeClock()
    failure = await fail_query(wrap(inner, clock))
    assert failure.attempts == 3
    assert len(inner.queries) == 3


async def test_retries_back_off_exponentially_with_full_jitter() -> None:
    clock = FakeClock()
    await fail_query(wrap(ScriptedProvider(*[down() for _ in range(3)]), clock, jitter=1.0))
    assert clock.slept == pytest.approx([0.1, 0.2])
    clock = FakeClock()
    await fail_query(wrap(ScriptedProvider(*[down() for _ in range(3)]), clock, jitter=0.25))
    assert clock.slept == pytest.approx([0.025, 0.05])


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


async def test_unexpected_error_becomes_unavailable_without_its_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    inner = ScriptedProvider(*[ValueError("private words") for _ in range(3)])
    with caplog.at_level(logging.DEBUG):
        failure = await fail_query(wrap(inner, FakeClock()))
    assert failure.reason == "unexpected ValueError"
    assert failure.attempts == 3
    assert "private words" not in caplog.text + str(failure)


async def test_documents_are_cut_into_batches_with_a_budget_each() -> None:
    inner, clock = ScriptedProvider(), FakeClock()
    provider = wrap(inner, clock)
    texts = ["a", "b", "c", "d " * 9, "e e", "f"]
    vectors = await provider.embed_documents(texts)
    assert inner.batches == [["a", "b", "c"], ["d " * 9], ["e e", "f"]]
    alone = [(await provider.embed_documents([text]))[0] for text in texts]
    assert all((one == other).all() for one, other in zip(vectors, alone, strict=True))


async def test_documents_budget_restarts_with_each_batch() -> None:
    inner, clock = ScriptedProvider(), FakeClock()
    provider = wrap(inner, clock)
    inner.failures = [down(retry_after=50)]
    inner.failures_after_success = [down(retry_after=50)]
    assert len(await provider.embed_documents(["a", "b", "c", "d"])) == 4
    assert clock.slept == [50, 50]


async def test_resilient_provider_closes_the_wrapped_one() -> None:
    inner = ScriptedProvider()
    provider = wrap(inner, FakeClock())
    assert provider.model is inner.model
    assert provider.count_tokens("one two") == 2
    await provider.close()
    assert inner.closed
