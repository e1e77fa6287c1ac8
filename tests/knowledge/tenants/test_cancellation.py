"""Whatever is cancelled at any of its steps gives back what it has taken."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from app.contract.settings import Limits
from app.knowledge.tenants.admission import BODY_BYTES, PARSED_AT_ONCE, Admission

TENANT: Any = SimpleNamespace(tenant_id=UUID(int=1), limits=Limits(concurrent_searches=1))
OTHER: Any = SimpleNamespace(tenant_id=UUID(int=2), limits=Limits(concurrent_searches=1))
STEPS = 12
"""Turns of the event loop: more than any of these needs."""

Use = Callable[[Admission, Any], AbstractAsyncContextManager[Any]]


@asynccontextmanager
async def receive(admission: Admission, tenant: Any) -> AsyncIterator[None]:
    async with admission.holding(tenant, BODY_BYTES) as arrival:
        await asyncio.sleep(0)
        await admission.receive(arrival, BODY_BYTES)
        arrival.complete()
        yield


USES: dict[str, tuple[Use, int]] = {
    "search": (lambda admission, tenant: admission.search(tenant), 1),
    "reading": (lambda admission, tenant: admission.reading(tenant), 1),
    "intake": (lambda admission, tenant: admission.intake(tenant, 0), PARSED_AT_ONCE),
    "body": (receive, 1),
    "file": (lambda admission, tenant: admission.storing(tenant, BODY_BYTES), 1),
    "answer": (lambda admission, tenant: admission.answering(tenant, 1 << 40), 1),
}
"""Each with the number of those that fill it."""


def count_held(admission: Admission) -> list[int]:
    return [
        *(turns.taken + turns.waited_for for turns in (admission._turns, admission._readings, admission._intakes)),
        *(b.held(t.tenant_id) for b in (admission._bodies, admission._answers) for t in (TENANT, OTHER)),
        admission._arrivals.held,
        *(queue.elsewhere for queue in admission._intakes._queues.values()),
    ]


@pytest.mark.parametrize("name", USES)
async def test_work_that_is_cancelled_at_any_step_holds_nothing(name: str) -> None:
    use, most = USES[name]
    admission = Admission(crowd=1)

    async def work(tenant: Any) -> None:
        async with use(admission, tenant):
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    for before in range(STEPS):
        for tenants in ([TENANT] * (most + 2), [TENANT] * (most + 1) + [OTHER] * (most + 1)):
            for victim in range(len(tenants)):
                tasks = [asyncio.ensure_future(work(tenant)) for tenant in tenants]
                for _ in range(before):
                    await asyncio.sleep(0)
                tasks[victim].cancel()
                await asyncio.wait(tasks)
                ended = [task.cancelled() or task.exception() for n, task in enumerate(tasks) if n != victim]
                assert not any(ended), (before, victim)
                assert not any(count_held(admission)), (before, victim)


async def test_a_wait_for_a_share_of_the_loop_that_is_cancelled_at_any_step_lets_the_next_pass() -> None:
    admission = Admission()
    for tenant in (TENANT, OTHER):
        admission._intakes.note(tenant.tenant_id)
    loop = admission._loop

    async def work() -> None:
        await loop.wait(TENANT.tenant_id)
        try:
            await asyncio.sleep(0)
        finally:
            loop.leave(TENANT.tenant_id)

    for before in range(STEPS):
        for victim in range(3):
            tasks = [asyncio.ensure_future(work()) for _ in range(3)]
            for _ in range(before):
                await asyncio.sleep(0)
            tasks[victim].cancel()
            await asyncio.wait(tasks, timeout=60)
            assert all(task.done() for task in tasks), (before, victim)
            account = loop._accounts.get(TENANT.tenant_id)
            assert account is None or (account.passing, list(account.waiting)) == (0, [])
