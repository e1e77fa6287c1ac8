"""The look that keeps connections open, cancelled at any of its steps."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy.pool import QueuePool

from app.db.database import Database

STEPS = (*range(12), 15, 20, 30, 50)
"""Turns of the event loop before the cancellation."""


@pytest.mark.parametrize("old", [False, True], ids=["missing connections", "old connections"])
async def test_a_look_that_is_cancelled_gives_all_its_turns_back(pool: Database, old: bool) -> None:
    warmth = pool._warmth
    pooled = pool.engine.sync_engine.pool
    assert isinstance(pooled, QueuePool)
    cancelled = 0
    for steps in STEPS:
        if old:
            await warmth.look()
            for driver in warmth._opened:
                warmth._opened[driver] = -1e9
        else:
            warmth.end_all()
        look = asyncio.ensure_future(warmth.look())
        for _ in range(steps):
            await asyncio.sleep(0)
        cancelled += look.cancel()
        await asyncio.wait((look,))
        await asyncio.sleep(0)
        assert (pool._turns.taken, pooled.checkedout()) == (0, 0), f"after {steps} steps"
    assert cancelled > 5
