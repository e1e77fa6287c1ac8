"""Transactions: waiting for a turn, choosing a connection, and ending the transaction."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from datetime import timedelta
from uuid import UUID

import asyncpg
from sqlalchemy.pool import PoolProxiedConnection

from app.concurrency.turns import Turns
from app.db.outage import AWAY, BUSY
from app.db.principals import Rights
from app.db.server.connections import Connections
from app.errors import DatabaseUnavailable


class Transactions:
    """Opens transactions on the connections of a pool, for callers that take turns."""

    def __init__(
        self,
        connections: Connections,
        turns: Turns,
        *,
        pool_timeout: float,
        statement_timeout: float,
        patience: float,
    ) -> None:
        """Times are in seconds: for waiting for a turn, for one statement on the server, and for a silent server."""
        self._connections = connections
        self._outage = connections.outage
        self._turns = turns
        self._pool_timeout = pool_timeout
        self._statement_timeout = statement_timeout
        self._patience = patience

    @asynccontextmanager
    async def open(
        self, begin: str, turn: Hashable, time_limit: timedelta | None, rights: Rights = Rights.ALL
    ) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
        """A transaction that begins with the SQL text `begin`; commits on leaving, rolls back on error.

        `rights` are those that `begin` sets: the connection should have plans for them. `turn` identifies who takes the
        turn. `time_limit` applies to each statement; None: the usual limit.
        Raises DatabaseUnavailable.
        """
        await self._outage.settle()
        if not self._turns.take(turn):
            await self._wait_for_turn(turn)
        try:
            seconds = self._statement_timeout if time_limit is None else time_limit.total_seconds()
            pooled, driver = await self._connections.begin(
                f"begin;set local statement_timeout='{int(seconds * 1000)}ms';set local jit=off;{begin}",
                rights.value,
            )
            self._connections.in_use.add(driver)
            try:
                yield driver
                await self._outage.listen(driver.execute("commit", timeout=self._patience))
            except BaseException as error:
                await self._abandon(pooled, driver, error)
                raise
            finally:
                self._connections.in_use.discard(driver)
            pooled.close()
        finally:
            self._turns.release(turn)

    async def _wait_for_turn(self, turn: Hashable) -> None:
        """Raises DatabaseUnavailable after the time limit, when all turns are in use or hang."""
        came = time.monotonic()
        # Early enough to have an answer before the time limit.
        asking = asyncio.get_running_loop().call_later(
            self._pool_timeout / 4, self._outage.ask_if_silent, came
        )
        try:
            async with asyncio.timeout(self._pool_timeout):
                await self._turns.acquire(turn)
        except TimeoutError as error:
            if self._outage.is_silent(came):
                raise self._outage.refuse(error) from error
            raise DatabaseUnavailable(BUSY) from None
        finally:
            asking.cancel()

    async def _abandon(
        self,
        pooled: PoolProxiedConnection,
        driver: asyncpg.Connection[asyncpg.Record],
        error: BaseException,
    ) -> None:
        """End a transaction that failed. Raises DatabaseUnavailable if the database was the reason."""
        if isinstance(error, DatabaseUnavailable) and isinstance(error.__cause__, OSError):
            self._connections.end(driver)  # otherwise the rollback would wait for the silent server again
        await self._connections.abandon(pooled, driver, reusable=isinstance(error, Exception))
        # asyncpg's DataError, a ValueError, means a wrong argument, not a missing database. An OSError does not
        # come from this connection: `listen` converts those.
        if isinstance(error, AWAY) and not isinstance(error, ValueError | OSError):
            raise self._outage.refuse(error) from error


def set_tenant(tenant_id: UUID) -> str:
    """The SQL text that sets the tenant of a transaction."""
    # The type makes the literal safe: only the text of a UUID reaches the statement.
    return f"select set_config('app.current_tenant', '{UUID(int=tenant_id.int)}', true);"
