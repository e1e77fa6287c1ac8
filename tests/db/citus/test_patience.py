"""How long a caller waits for a tenant that is being moved."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from app.db.cluster import sessions
from app.db.cluster.sessions import HELD, MOVED, FoundPlace, Nodes
from app.errors import DatabaseUnavailable

TENANT = UUID(int=1)
PATIENCE = 5.0


@dataclass
class Moving:
    """A tenant that is held for some seconds on each of two nodes; each try to enter takes a second.

    It stands for the coordinator and both nodes.
    """

    held: list[int]
    time: float = 0.0
    dsn: str = "postgresql://coordinator/knowledge"

    def monotonic(self) -> float:
        return self.time

    @asynccontextmanager
    async def platform_session(self) -> AsyncIterator[Any]:
        yield self

    async def fetch_one_as(self, *_: Any, **__: Any) -> FoundPlace:
        return FoundPlace(10 + len(self.held), "node", len(self.held), [], [], [])

    @asynccontextmanager
    async def open_tenant(self, *_: Any, **__: Any) -> AsyncIterator[str]:
        self.time += 1
        self.held[0] -= 1
        if self.held[0] >= 0:
            raise asyncpg.PostgresError.new({"C": HELD, "M": "held"})
        if len(self.held) > 1:
            del self.held[0]
            raise asyncpg.PostgresError.new({"C": MOVED, "M": "moved"})
        yield "served"


async def enter(moving: Moving, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(sessions, "time", moving)
    fake: Any = moving
    async with Nodes(fake, lambda _: fake, patience=PATIENCE).open(TENANT, "", None) as session:
        return session


async def test_a_caller_waits_again_at_each_place(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await enter(Moving([4, 4]), monkeypatch) == "served"


async def test_a_caller_does_not_wait_longer_at_one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DatabaseUnavailable, match="the tenant is being moved"):
        await enter(Moving([7]), monkeypatch)
