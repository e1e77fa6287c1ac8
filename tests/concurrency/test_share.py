"""A share of the event loop for charged requests."""

import asyncio
import contextlib

import pytest

from app.concurrency.share import DEEPEST, FREE, SHARE, LoopShare


class Scene:
    """A share with a clock that stands still, and the order in which requests passed."""

    def __init__(self) -> None:
        self.now = 0.0
        self.calm = False
        self.share = LoopShare(lambda tenant: self.calm, clock=lambda: self.now)
        self.passed: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def arrive(self, *names: str, tenant: str = "a") -> None:
        """Let requests wait."""
        self.tasks += [asyncio.create_task(self._pass(tenant, name)) for name in names]
        for _ in range(3):
            await asyncio.sleep(0)

    async def _pass(self, tenant: str, name: str) -> None:
        await self.share.wait(tenant)
        self.passed.append(name)

    async def leave(self, tenant: str = "a") -> None:
        """Answer the request that passed last."""
        self.share.leave(tenant)
        for _ in range(3):
            await asyncio.sleep(0)

    async def end(self) -> None:
        """Give up what still waits."""
        for task in self.tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


def test_a_tenant_without_charged_requests_never_waits() -> None:
    scene = Scene()
    assert scene.share.may_pass("a")
    assert not scene.share._accounts


def test_the_first_charged_requests_are_free() -> None:
    scene = Scene()
    scene.share.charge("a", FREE - 0.01)
    assert scene.share.may_pass("a")
    scene.share.charge("a", 0.02)
    assert not scene.share.may_pass("a")
    assert scene.share.may_pass("b"), "another tenant pays for itself"


def test_an_only_active_tenant_does_not_wait() -> None:
    scene = Scene()
    scene.share.charge("a", FREE + 1)
    scene.calm = True
    assert scene.share.may_pass("a")


def test_a_debt_is_bounded_and_paid_off_by_the_share() -> None:
    scene = Scene()
    scene.share.charge("a", 1_000)
    scene.now += DEEPEST / SHARE - 0.01
    assert not scene.share.may_pass("a")
    scene.now += 0.02
    assert scene.share.may_pass("a")
    scene.now += FREE / SHARE
    assert scene.share.may_pass("a")
    assert not scene.share._accounts, "a full account is forgotten"


async def test_requests_in_debt_pass_one_after_the_other() -> None:
    scene = Scene()
    scene.share.charge("a", FREE + 0.001)
    await scene.arrive("1", "2", "3")
    assert scene.passed == []
    scene.now += 0.001 / SHARE + 0.001
    async with asyncio.timeout(60):
        while not scene.passed:  # noqa: ASYNC110 (a timer of the share looks again)
            await asyncio.sleep(0.001)
    assert scene.passed == ["1"], "the next one follows when this one was charged"
    scene.share.charge("a", 0.0)
    await scene.leave()
    assert scene.passed == ["1", "2"]
    scene.share.charge("a", 0.01)
    await scene.leave()
    assert scene.passed == ["1", "2"], "the second one was refused"
    await scene.end()


async def test_waiting_requests_pass_when_other_tenants_become_inactive() -> None:
    scene = Scene()
    scene.share.charge("a", FREE + DEEPEST)
    await scene.arrive("1")
    assert scene.passed == []
    scene.calm = True
    async with asyncio.timeout(60):
        await scene.tasks[0]
    assert scene.passed == ["1"]


@pytest.mark.parametrize("passes", [False, True])
async def test_a_request_that_is_given_up_lets_the_next_one_pass(passes: bool) -> None:
    scene = Scene()
    scene.share.charge("a", FREE + 0.001)
    await scene.arrive("1", "2")
    scene.now += 1
    if passes:
        scene.share._hand_out("a")
    scene.tasks[0].cancel()
    async with asyncio.timeout(60):
        await scene.tasks[1]
    assert scene.passed == ["2"]
