"""The application over a database behind a proxy."""

import asyncio
from dataclasses import dataclass

import httpx

from app.db.database import Database
from tests.faults.proxy import FaultProxy
from tests.fixtures.database.cluster import TestDatabase, connected
from tests.fixtures.http.callers import Caller
from tests.fixtures.http.expectations import expect_problem

POOL = 3


LIMIT = 3.0
"""Time limit in seconds for statements and for waiting for a connection: long enough on a busy machine."""


CONNECT_LIMIT = 6.0
"""Time limit in seconds for connecting; only a silent server reaches it."""


CONNECTIONS = """
select count(*) from pg_stat_activity where datname = current_database() and usename = 'kb_service'"""


AWAY = "the database is not reachable at the moment"


@dataclass(frozen=True, slots=True)
class Scene:
    """The application over a database behind a proxy, with one caller and one entry."""

    caller: Caller
    database: Database
    proxy: FaultProxy
    made: TestDatabase

    async def write(self, number: int) -> httpx.Response:
        return await self.caller.post("/knowledge/entries/bulk", {"entries": [{"content": f"Berth {number}"}]})

    async def look(self) -> httpx.Response:
        return await self.caller.post("/knowledge/search", {"query": "harbour", "mode": "keyword"})

    async def expect_refusal(self, answer: httpx.Response, reason: str) -> None:
        assert expect_problem(answer, 503)["detail"] == reason
        assert int(answer.headers["retry-after"]) >= 1

    async def expect_service(self) -> None:
        """Every request works at the first attempt, and every connection is free again."""
        for answer in await asyncio.gather(*(self.look() for _ in range(POOL))):
            assert answer.status_code == 200, answer.text
            assert len(answer.json()["results"]) == 1
        assert (await self.write(0)).status_code == 200
        assert (await self.caller.http.get("/readyz")).status_code == 200
        await self.expect_no_leak()

    async def expect_no_leak(self) -> None:
        async with asyncio.timeout(60), connected(self.made.superuser_dsn) as superuser:
            # The server takes a moment to close discarded connections, and records of searches are still being written.
            while self._taken() or await superuser.fetchval(CONNECTIONS) > POOL:  # noqa: ASYNC110
                await asyncio.sleep(0.05)

    def _taken(self) -> int:
        return self.database.engine.pool.checkedout()  # type: ignore[attr-defined, no-any-return]
