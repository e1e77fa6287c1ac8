"""Sessions: the only way to run a query, in a transaction that `Database` has opened.

In a `TenantSession` only the rows of one tenant are visible, and the session binds `:tenant_id`. Query functions take
a `TenantSession`, so a query without a tenant is a type error.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar, cast
from uuid import UUID

import asyncpg

from app.db.outage import Outage
from app.db.principals import current_principals, set_principals
from app.db.rows import Connection, read_rows
from app.db.statements import Statement

Row = asyncpg.Record
T = TypeVar("T")

OPENED = object()
"""Proof that a session's transaction is open; only `Database` passes it."""


class _Session:
    """Runs statements on one connection, in a transaction that `Database` has opened.

    Attributes:
        has_written: whether it has run a statement that may write.
    """

    def __init__(
        self,
        connection: Connection,
        opened_by: object,
        outage: Outage,
        patience: float | None,
        write: Callable[[str], str] | None = None,
    ) -> None:
        """`write` writes the text of a statement as the node of a cluster needs it; None: as it is."""
        if opened_by is not OPENED:
            raise TypeError("sessions are created by Database, which opens their transaction")
        self._connection = connection
        self._outage = outage
        self._patience = patience
        self.has_written = False
        self._write = write

    async def fetch(self, statement: Statement, **parameters: Any) -> Sequence[Row]:
        """All rows. Raises asyncpg.PostgresError."""
        return await self._run(self._connection.fetch, statement, parameters)

    async def fetch_as(self, row_type: type[T], statement: Statement, /, **parameters: Any) -> list[T]:
        """All rows as instances of a dataclass whose fields are the statement's columns."""
        return read_rows(row_type, await self._run(self._connection.fetch, statement, parameters))

    async def fetch_one_as(self, row_type: type[T], statement: Statement, /, **parameters: Any) -> T | None:
        """The first row as an instance, like in `fetch_as`, or None."""
        row = await self._run(self._connection.fetchrow, statement, parameters)
        return None if row is None else read_rows(row_type, (row,))[0]

    async def fetch_only_as(self, row_type: type[T], statement: Statement, /, **parameters: Any) -> T:
        """The row of a statement that always has one, as an instance, like in `fetch_as`."""
        (row,) = await self.fetch_as(row_type, statement, **parameters)
        return row

    async def fetch_row(self, statement: Statement, **parameters: Any) -> Row | None:
        """The first row, or None."""
        return await self._run(self._connection.fetchrow, statement, parameters)

    async def fetch_value(self, statement: Statement, **parameters: Any) -> Any:
        """The first column of the first row, or None."""
        return await self._run(self._connection.fetchval, statement, parameters)

    async def fetch_value_as(self, _type: type[T], statement: Statement, /, **parameters: Any) -> T | None:
        """As `fetch_value`, of a column that has values of this type, which is not checked."""
        return cast("T | None", await self.fetch_value(statement, **parameters))

    async def fetch_column(self, statement: Statement, **parameters: Any) -> list[Any]:
        """The first column of all rows."""
        return [row[0] for row in await self.fetch(statement, **parameters)]

    async def fetch_pairs(self, statement: Statement, **parameters: Any) -> dict[Any, Any]:
        """The second column of all rows by the first."""
        return {row[0]: row[1] for row in await self.fetch(statement, **parameters)}

    async def execute(self, statement: Statement, **parameters: Any) -> int:
        """Run a statement without a result; returns the number of affected rows."""
        status = await self._run(self._connection.execute, statement, parameters)
        count = status.rpartition(" ")[2]
        return int(count) if count.isdigit() else 0

    async def stream(self, statement: Statement, batch: int, **parameters: Any) -> AsyncIterator[Sequence[Row]]:
        """Rows from a cursor, `batch` at a time, for results that are too large for memory or not read to the end.

        The first batch takes one round trip, like `fetch`.
        """
        values = self._values(statement, parameters)
        cursor = aiter(self._connection.cursor(self._text(statement), *values, prefetch=batch, timeout=self._patience))
        while rows := await self._outage.await_answer(_read(cursor, batch)):
            yield rows

    async def _run(self, call: Callable[..., Awaitable[T]], statement: Statement, parameters: dict[str, Any]) -> T:
        values = self._values(statement, parameters)
        return await self._outage.await_answer(call(self._text(statement), *values, timeout=self._patience))

    def _text(self, statement: Statement) -> str:
        return statement.sql if self._write is None else self._write(statement.sql)

    def _values(self, statement: Statement, parameters: dict[str, Any]) -> list[Any]:
        """The values of a statement's parameters in its order, for running it now."""
        self.has_written |= statement.writes
        self._bind(parameters)
        return [parameters[name] for name in statement.parameters]

    def _bind(self, parameters: dict[str, Any]) -> None:
        """Add the parameters that the session itself binds in every statement."""


async def _read(cursor: AsyncIterator[Row], count: int) -> list[Row]:
    """The next rows of a cursor, at most `count`."""
    rows: list[Row] = []
    async for row in cursor:
        rows.append(row)
        if len(rows) == count:
            break
    return rows


class TenantSession(_Session):
    """A transaction in which only one tenant's rows are visible; `:tenant_id` is that tenant in every statement."""

    def __init__(
        self,
        connection: Connection,
        opened_by: object,
        outage: Outage,
        patience: float | None,
        tenant_id: UUID,
        write: Callable[[str], str] | None = None,
    ) -> None:
        super().__init__(connection, opened_by, outage, patience, write)
        self.tenant_id = tenant_id

    @asynccontextmanager
    async def acting_as(self, principals: Sequence[str]) -> AsyncIterator[None]:
        """In the block, the transaction is of these principals; only for the service's own work."""
        await self._set_principals(principals)
        yield
        await self._set_principals(current_principals())

    async def _set_principals(self, principals: Sequence[str]) -> None:
        text = set_principals(principals)
        await self._outage.await_answer(self._connection.execute(text, timeout=self._patience))

    def _bind(self, parameters: dict[str, Any]) -> None:
        if "tenant_id" in parameters:
            raise TypeError("a tenant's session binds tenant_id itself")
        parameters["tenant_id"] = self.tenant_id


class PlatformSession(_Session):
    """A transaction without a tenant: tables appear empty, and only functions that work across tenants can be used."""
