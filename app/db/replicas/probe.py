"""Asks one server for its position in the write-ahead log, on a connection of its own."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import asyncpg

ANSWER_SECONDS = 1.0
"""A server that has not answered by then is treated as absent."""

_QUESTION = """
select (select system_identifier from pg_control_system()) as cluster, current_database() as database,
       pg_is_in_recovery() as replays,
       (case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_insert_lsn() end
        - '0/0'::pg_lsn)::bigint as position
"""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server says of itself.

    Attributes:
        place: the cluster and the database, the same for a primary and its replicas.
        replays: whether it is a replica.
        position: bytes of the log that it has written or, as a replica, replayed; None before the first.
    """

    place: tuple[int, str]
    replays: bool
    position: int | None


class Probe:
    """A connection that is opened when it is needed, and again after a failure."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._connection: asyncpg.Connection[asyncpg.Record] | None = None

    async def ask(self) -> Answer:
        """Raises OSError, TimeoutError, asyncpg.PostgresError and asyncpg.InterfaceError."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                if self._connection is None:
                    self._connection = await asyncpg.connect(self._dsn, statement_cache_size=0)
                row = await self._connection.fetchrow(_QUESTION)
        except BaseException:
            self.close()
            raise
        assert row is not None
        return Answer((row["cluster"], row["database"]), row["replays"], row["position"])

    def close(self) -> None:
        """Close the connection at once."""
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None


async def ask_once(dsn: str) -> Answer:
    """Ask on a new connection, and close it. Raises as `Probe.ask`."""
    probe = Probe(dsn)
    try:
        return await probe.ask()
    finally:
        probe.close()
