"""Notifications of jobs that other processes queue, from every server that holds tenants."""

import asyncio
import logging

from app.db.database import Database
from app.db.queries.jobs import Unheard, listen_for_jobs
from app.db.server import Server
from app.errors import DatabaseUnavailable
from app.knowledge.queue import JobQueue

log = logging.getLogger("app.knowledge.worker")

AGAIN_SECONDS = 5.0
"""Pause after a connection ended or could not be made, and interval at which the servers of a cluster are listed."""
UNHEARD_AGAIN_SECONDS = 300.0


class Announcements:
    """Wakes the workers of this process when a job is due that a process has queued.

    `direct_dsn` is the address to listen at, if `database` uses a pooler that does not pass notifications.
    """

    def __init__(self, database: Database, jobs: JobQueue, direct_dsn: str | None) -> None:
        self._database = database
        self._jobs = jobs
        self._direct_dsn = direct_dsn
        self._heard: set[Server] = set()
        self._listening: dict[Server, asyncio.Task[None]] = {}

    async def arrive(self) -> bool:
        """Whether the notifications of all servers arrive. Raises DatabaseUnavailable."""
        return self._heard.issuperset(await self._database.holders())

    async def hear(self) -> None:
        """Listen at all servers until cancelled; a connection that ends is replaced."""
        async with asyncio.TaskGroup() as group:
            while True:
                try:
                    nodes = await self._database.holders()
                except DatabaseUnavailable:
                    nodes = ()
                for node in nodes:
                    if node not in self._listening or self._listening[node].done():
                        self._listening[node] = group.create_task(self._listen(node))
                if self._listening:
                    await asyncio.wait(
                        self._listening.values(), timeout=AGAIN_SECONDS, return_when=asyncio.FIRST_COMPLETED
                    )
                else:
                    await asyncio.sleep(AGAIN_SECONDS)

    async def _listen(self, node: Server) -> None:
        direct_dsn = self._direct_dsn if node is self._database else None

        def note_heard() -> None:
            self._heard.add(node)
            self._jobs.wake()  # for jobs that were queued before

        try:
            await listen_for_jobs(node, self._jobs.wake_in, direct_dsn, note_heard)
        except Unheard:
            log.warning("no notifications of new jobs arrive: a pooler shares connections; jobs are looked for instead")
            await asyncio.sleep(UNHEARD_AGAIN_SECONDS)
        except Exception as error:
            log.debug("no notifications of new jobs: %s", type(error).__name__)
            self._note_unheard(node)
            await asyncio.sleep(AGAIN_SECONDS)
        finally:
            self._note_unheard(node)

    def _note_unheard(self, node: Server) -> None:
        if node in self._heard:
            self._heard.discard(node)
            self._jobs.wake()  # so that they no longer wait for notifications
