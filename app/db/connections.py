"""Open connections of a pool, keep them open, begin transactions on them, and detect that the database is down."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any
from uuid import UUID
from weakref import WeakKeyDictionary, WeakSet

import asyncpg
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.pool import PoolProxiedConnection, QueuePool
from sqlalchemy.util import greenlet_spawn

from app.concurrency.background import start_background
from app.concurrency.turns import PLATFORM, Turns
from app.db.engine import ROLE, take_connection
from app.db.outage import AWAY, PATIENCE, Outage
from app.db.principals import Rights, set_rights
from app.db.rows import Connection
from app.db.session import OPENED, TenantSession
from app.errors import DatabaseUnavailable


@dataclass(frozen=True, slots=True)
class PoolUse:
    """The size of a pool, its connections in use, and the callers that wait for one."""

    size: int
    in_use: int
    waiting: int


@dataclass(eq=False)
class Connections:
    """The connections of an engine to one database. Each caller with a turn may take one.

    Attributes:
        outage: whether the database can be reached.
        in_use: the connections of open transactions.
        timeout: in seconds, for connecting and beginning a transaction.
        lent: whether the engine has other users.
        make_apart: creates an engine whose connections are not in the pool.
    """

    engine: AsyncEngine
    turns: Turns
    _: KW_ONLY
    size: int
    timeout: float
    lent: bool
    make_apart: Callable[[], AsyncEngine]

    def __post_init__(self) -> None:
        self._drivers: WeakSet[Connection] = WeakSet()
        self.in_use: set[Connection] = set()
        self.outage = Outage(self._ask, self._cut)

    async def begin(self, statement: str, role: str | None = None) -> tuple[PoolProxiedConnection, Connection]:
        """Run the statement that opens a transaction, which sets `role`. A pooled connection that died is replaced.

        Raises DatabaseUnavailable for every failure to connect, since callers cannot fix any of them.
        """
        deadline = asyncio.get_running_loop().time() + self.timeout
        for left in range(self.size, -1, -1):
            await self.outage.wait_until_reachable()
            pooled: PoolProxiedConnection | None = None
            driver: Any = None
            try:
                async with self.outage.limit(deadline):
                    pooled = await take_connection(self.engine, None if self.lent else role)
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
        if self.turns.taken < self.size:
            async with self.turns.turn(PLATFORM):
                opened, _ = await self.begin("select 1")
                opened.close()
            return
        asked = time.monotonic()
        engine = self.make_apart()
        try:
            async with asyncio.timeout(self.timeout), engine.connect():
                self.outage.record_answer(asked)
        except (*AWAY, asyncpg.PostgresError) as error:
            raise self.outage.refuse(error) from error
        finally:
            await engine.dispose()

    def _watch(self, driver: Connection) -> None:
        """Treat the database as doubtful if it closes this connection."""
        if driver not in self._drivers and not driver.is_closed():
            self._drivers.add(driver)
            driver.add_termination_listener(self._note_end)

    def _note_end(self, driver: Any) -> None:
        if driver in self._drivers:
            self._drivers.discard(driver)
            self.outage.mark_suspect()

    def end(self, driver: Connection) -> None:
        """Close a connection immediately; this is not counted against the database."""
        self._drivers.discard(driver)
        driver.terminate()

    def _cut(self) -> None:
        """Close all connections; with a lent engine, only those in use here."""
        for driver in list(self.in_use if self.lent else self._drivers):
            self.end(driver)

    async def abandon(self, pooled: PoolProxiedConnection, driver: Connection | None, *, reusable: bool) -> None:
        """Roll back and give the connection back, or throw it away when its state is not certain."""
        if driver is not None and not reusable:
            self._drivers.discard(driver)
        await asyncio.shield(_abandon(pooled, driver, reusable=reusable))


async def _abandon(pooled: PoolProxiedConnection, driver: Connection | None, *, reusable: bool) -> None:
    if reusable and driver is not None:
        try:
            await asyncio.wait_for(driver.execute("rollback"), 2)
        except Exception:  # whatever it is, this connection is not used again
            reusable = False
    if not reusable or driver is None:
        await greenlet_spawn(pooled.invalidate)
    pooled.close()


log = logging.getLogger("app.db")

Rehearse = Callable[[TenantSession], Awaitable[None]]

NO_TENANT = UUID(int=0)
"""A tenant that does not exist."""

PAUSE = 1.0
"""Seconds between two checks of the pool."""

LONGEST_AGE = 1_500.0
"""Seconds after which a connection is replaced here, before its next user would have to."""

START_SECONDS = 10.0
"""How long the start waits for the connections."""


@dataclass(eq=False)
class Warmth:
    """Opens the connections of a pool in advance."""

    engine: AsyncEngine
    turns: Turns
    outage: Outage
    size: int
    opened: WeakKeyDictionary[Any, float] = field(default_factory=WeakKeyDictionary)

    def note(self, dbapi_connection: Any, _record: Any) -> None:
        """Note a new connection before anything else runs on it; a listener for SQLAlchemy's event `connect`."""
        self.opened[dbapi_connection.driver_connection] = time.monotonic()

    def end_all(self) -> None:
        """End the connections that are still open after the pool was closed.

        The pool does not know a connection whose opening was cancelled.
        """
        for driver in list(self.opened):
            if not driver.is_closed():
                driver.terminate()

    @asynccontextmanager
    async def keep(self) -> AsyncIterator[None]:
        """Open all connections; while the block runs, replace those that end or grow old."""
        with suppress(TimeoutError):
            async with asyncio.timeout(START_SECONDS):
                await self.look()
        keeping = start_background(self._keep())
        try:
            yield
        finally:
            keeping.cancel()
            with suppress(asyncio.CancelledError):
                await keeping

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(PAUSE)
            await self.look()

    async def look(self) -> None:
        """Open the connections that are missing, ended or old; those in use are left alone."""
        if sum(self._is_good(driver) for driver in self.opened) >= self.size:
            return
        if self.outage.is_suspect and not await self.outage.answers(PATIENCE):
            return
        renewals = []
        for place in await self._take_cold():
            renewals.append(asyncio.create_task(self._renew(place)))
            # Also if it is cancelled before it begins.
            renewals[-1].add_done_callback(partial(self._give_back, place))
        outcomes = await asyncio.gather(*renewals, return_exceptions=True)
        for error in outcomes:
            if isinstance(error, Exception):
                # The database is down, or nearly so: callers report it.
                log.debug("a connection was not opened in advance", extra={"error": type(error).__name__})

    def _is_good(self, driver: Connection | None) -> bool:
        return (
            driver is not None
            and not driver.is_closed()
            and time.monotonic() - self.opened.get(driver, 0.0) < LONGEST_AGE
        )

    async def _take_cold(self) -> list[PoolProxiedConnection | None]:
        """Take every connection that is not in use, and return the good ones. None stands for one that is not open."""
        cold: list[PoolProxiedConnection | None] = []
        good: list[PoolProxiedConnection] = []
        try:
            while len(cold) + len(good) < self.size and self.turns.take(PLATFORM):
                cold.append(None)
                idle = None
                pool = self.engine.sync_engine.pool
                if isinstance(pool, QueuePool) and pool.checkedin():
                    # It was closed before, and cannot be opened again.
                    with suppress(*AWAY, asyncpg.PostgresError):
                        idle = await take_connection(self.engine)
                if idle is not None and self._is_good(idle.driver_connection):
                    cold.pop()
                    good.append(idle)
                else:
                    cold[-1] = idle
        except BaseException:  # a cancellation: no caller will renew the cold ones
            for place in cold:
                self._give_back(place)
            raise
        finally:
            for connection in good:
                self._give_back(connection)
        return cold

    def _give_back(self, connection: PoolProxiedConnection | None, _: object = None) -> None:
        if connection is not None:
            connection.close()  # does nothing if it was closed
        self.turns.release(PLATFORM)

    async def _renew(self, connection: PoolProxiedConnection | None) -> None:
        if connection is not None:
            await greenlet_spawn(connection.invalidate)
            connection.close()
        (await take_connection(self.engine)).close()  # the pool gives out the last one that it got back


@dataclass(eq=False)
class Rehearsal:
    """Runs statements on each new connection, in a session of no tenant, so that it has their plans.

    `patience` is the time limit of a statement in seconds.
    """

    outage: Outage
    patience: float
    _rehearse: Rehearse | None = field(default=None, init=False)
    _begin: str = field(default="", init=False)
    _rights: Rights = field(default=Rights.ALL, init=False)

    @asynccontextmanager
    async def held(self, rehearse: Rehearse, begin: str, rights: Rights) -> AsyncIterator[None]:
        """While the block runs, new connections rehearse in a transaction with these rights, after the text `begin`."""
        self._rehearse, self._rights = rehearse, rights
        self._begin = f"{begin}{set_rights(rights)}"
        try:
            yield
        finally:
            self._rehearse = None

    def prepare(self, dbapi_connection: Any, record: Any) -> None:
        """Prepare a new connection; a listener for SQLAlchemy's event `connect`."""
        if self._rehearse is not None:
            dbapi_connection.run_async(self._run)
            record.info[ROLE] = self._rights.value

    async def _run(self, driver: Connection) -> None:
        try:
            await driver.execute(f"begin;{self._begin}")
            with suppress(DatabaseUnavailable, asyncpg.PostgresError):  # then it is ready, but not fast
                assert self._rehearse is not None
                await self._rehearse(TenantSession(driver, OPENED, self.outage, self.patience, NO_TENANT))
            await driver.execute("rollback")
        except BaseException:
            driver.terminate()  # the pool closes only connections that it has accepted
            raise
