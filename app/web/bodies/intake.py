"""The turn that a request has to have its body parsed, until its endpoint runs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from app.knowledge.tenants.admission import Intake

_intake: ContextVar[Intake | None] = ContextVar("intake", default=None)


@contextmanager
def holding_intake(intake: Intake) -> Iterator[None]:
    """The request that runs in the block has this turn."""
    token = _intake.set(intake)
    try:
        yield
    finally:
        _intake.reset(token)


def end_intake(endpoint: Callable[..., Any]) -> Callable[..., Any]:
    """The endpoint, which runs once its body was accepted: the turn to have it parsed is over."""

    @functools.wraps(endpoint)
    async def accepted(*args: Any, **values: Any) -> Any:
        end_own_intake()
        return await endpoint(*args, **values)

    return accepted


def end_own_intake() -> None:
    """End the turn that the current request has to have its body parsed, if it has one."""
    if (intake := _intake.get()) is not None:
        intake.end()
