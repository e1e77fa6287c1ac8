"""Begin transactions on pooled connections, return connections, and detect that the database is down."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

import asyncpg
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.pool import PoolProxiedConnection
from sqlalchemy.util import greenlet_spawn

from app.concurrency.turns import PLATFORM, Turns
from app.db.engine import take_connection
from app.db.outage import AWAY, Outage


@dataclass(frozen=True, slots=True)
class PoolUse:
    """The size of a pool, its connections in use, and the callers that wait for one."""

    size: int
    in_use: int
    waiting: int


class Connections:
    """The connections of an engine to one database. Each caller with a turn may take one.

    Attributes:
        outage: whether the database can be reached.
        in_use: the connections of open transactions.
    """

    def __init__(
        self,
        engine: AsyncEngine,
        turns: Turns,
        *,
        size: int,
        timeout: float,
        lent: bool,
        make_apart: Callable[[], AsyncEngine],
    ) -> None:
        """`timeout` is in seconds, for connecting and beginning a transaction.

        `lent`: the engine has other users. `make_apart` creates an engine whose connections are not in the pool.
        """
        self._engine = engine
        self._turns = turns
        self._size = size
        self._timeout = timeout
        self._lent = lent
        self._make_apart = make_apart
        self._drivers: WeakSet[asyncpg.Connection[asyncpg.Record]] = WeakSet()
        self.in_use: set[asyncpg.Connection[asyncpg.Record]] = set()
        self.outage = Outage(self._ask, self._cut)

    async def begin(
        self, statement: str, role: str | None = None
    ) -> tuple[PoolProxiedConnection, asyncpg.Connection[asyncpg.Record]]:
        """Run the statement that opens a transaction, which sets `role`. A pooled connection that died is replaced.

        Raises DatabaseUnavailable for every failure to connect, since callers cannot fix any of them.
        """
        deadline = asyncio.get_running_loop().time() + self._timeout
        for left in range(self._size, -1, -1):
            await self.outage.wait_until_reachable()
            pooled: PoolProxiedConnection | None = None
            driver: Any = None
            try:
                async with self.outage.limit(deadline):
                    pooled = await take_connection(self._engine, None if self._lent else role)
                    driver = pooled.driver_connection
                    self._watch(driver)
                    asked = time.monotonic()
                    await driver.execute(statement)
            except BaseException as error:
                if pooled is None:
                    if isinstance(error, (*AWAY, asyncpg.PostgresError)):
                        raise self.outage.refuse(error) from error
                    raise
                died = driver is not None and driver.is_closed()
                if isinstance(error, TimeoutError) and driver is not None:
                    self.end(driver)
                await self.abandon(pooled, driver, reusable=isinstance(error, Exception) and not died)
                if not isinstance(error, AWAY) or isinstance(error, ValueError):
                    raise
                if not died or not left:
                    raise self.outage.refuse(error) from error
            else:
                self.outage.record_answer(asked)
                return pooled, driver
        raise AssertionError("the last try returns or raises")

    async def _ask(self) -> None:
        """Query the database on a connection of the pool or, when all are in use, on a separate one."""
        if self._turns.taken < self._size:
            async with self._turns.turn(PLATFORM):
                opened, _ = await self.begin("select 1")
                opened.close()
            return
        asked = time.monotonic()
        engine = self._make_apart()
        try:
            async with asyncio.timeout(self._timeout), engine.connect():
                self.outage.record_answer(asked)
        except (*AWAY, asyncpg.PostgresError) as error:
            raise self.outage.refuse(error) from error
        finally:
            await engine.dispose()

    def _watch(self, driver: asyncpg.Connection[asyncpg.Record]) -> None:
        """Treat the database as doubtful if it closes this connection."""
        if driver not in self._drivers and not driver.is_closed():
            self._drivers.add(driver)
            driver.add_termination_listener(self._note_end)

    def _note_end(self, driver: Any) -> None:
        if driver in self._drivers:
            self._drivers.discard(driver)
            self.outage.mark_suspect()

    def end(self, driver: asyncpg.Connection[asyncpg.Record]) -> None:
        """Close a connection immediately; this is not counted against the database."""
        self._drivers.discard(driver)
        driver.terminate()

    def _cut(self) -> None:
        """Close all connections; with a lent engine, only those in use here."""
        for driver in list(self.in_use if self._lent else self._drivers):
            self.end(driver)

    async def abandon(
        self,
        pooled: PoolProxiedConnection,
        driver: asyncpg.Connection[asyncpg.Record] | None,
        *,
        reusable: bool,
    ) -> None:
        """Roll back and give the connection back, or throw it away when its state is not certain."""
        if driver is not None and not reusable:
            self._drivers.discard(driver)
        await asyncio.shield(_abandon(pooled, driver, reusable=reusable))


async def _abandon(
    pooled: PoolProxiedConnection, driver: asyncpg.Connection[asyncpg.Record] | None, *, reusable: bool
) -> None:
    """Roll back and give the connection back, or throw it away when its state is not certain."""
    if reusable and driver is not None:
        try:
            await asyncio.wait_for(driver.execute("rollback"), 2)
        except Exception:  # whatever it is, this connection is not used again
            reusable = False
    if not reusable or driver is None:
        await greenlet_spawn(pooled.invalidate)
    pooled.close()
