"""The command line's wait for a model change."""

from __future__ import annotations

import asyncio

import pytest

from app.cli.reembed import ChangeStalled, watch_change
from tests.fixtures.door import at_door
from tests.knowledge.reembedding.moving import Move


async def test_a_wait_for_a_failing_provider_ends_and_names_the_reason(move: Move) -> None:
    await move.add(3)
    move.new.down = True
    await move.start()
    assert await move.run_job()
    async with asyncio.timeout(30):
        with pytest.raises(
            ChangeStalled, match=r"^mock unavailable: told to fail; the change is at 0% and continues in the"
        ):
            await at_door(move.services, move.tenant.slug, lambda door: watch_change(door, stalled=0.0))
    move.new.down = False
    await move.run_jobs()
    change = await at_door(move.services, move.tenant.slug, lambda door: watch_change(door, stalled=0.0))
    assert change is not None
    assert (change.state, change.failure) == ("ready", None)


async def test_a_wait_ends_when_the_change_waits_for_its_admin_again(move: Move) -> None:
    await move.add(3)
    await move.move()
    await move.services.reembedding.switch(move.tenant.id, back=True)
    change = await at_door(move.services, move.tenant.slug, watch_change)
    assert change is not None
    assert change.state == "ready"
