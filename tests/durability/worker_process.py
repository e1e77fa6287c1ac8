"""A worker in a separate process that waits at a chosen stage until it is killed.

It is the service's own worker. The additions wrap its parts and only observe: a database that recognises the
transaction of the swap, a provider that observes requests for vectors, an ingestion whose parser runs.
"""

import asyncio
import multiprocessing
import os
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any, Literal, Self
from uuid import UUID

import psutil

from app.composition.services import build_services
from app.db.database import Database
from app.db.queries.jobs import Job
from app.db.session import TenantSession
from app.documents.parsed import ParsedDocument
from app.embeddings.provider import Vector
from app.embeddings.providers.mock import MockProvider
from app.knowledge.ingestion.pipeline import STORING, Ingestion
from app.knowledge.queue import Lease
from tests.fixtures.database.cluster import MODEL
from tests.fixtures.workers import change_runner

STAGES = ("claimed", "parsing", "embedding", "before the swap", "within the swap", "after the swap")
LEASE_SECONDS = 0.5
PATIENCE = 120.0
"""Seconds until a test stops waiting for a process."""

Manner = Literal["wait", "freeze", "report"]
"""What a worker does at its stage: it waits and still renews its lease, stops like a suspended machine, or only reports
the stage."""


class Stages:
    """Tells the test once which stage was reached."""

    def __init__(self, target: str | None, pipe: Connection, manner: Manner) -> None:
        self._target = target
        self._pipe = pipe
        self._manner = manner

    async def reach(self, stage: str) -> None:
        if stage != self._target:
            return
        self._target = None
        self._pipe.send(stage)
        if self._manner == "freeze":
            os.kill(os.getpid(), signal.SIGSTOP)
        elif self._manner == "wait":
            await asyncio.Event().wait()


class WatchedDatabase(Database):
    def __init__(self, dsn: str, stages: Stages) -> None:
        super().__init__(dsn, pool_size=6)
        self._stages = stages

    @asynccontextmanager
    async def tenant_session(
        self, tenant_id: UUID, *, setup: str = "", background: timedelta | None = None, aside: bool = False
    ) -> AsyncIterator[TenantSession]:
        swaps = background == STORING
        if swaps:
            await self._stages.reach("before the swap")
        async with super().tenant_session(tenant_id, setup=setup, background=background, aside=aside) as session:
            yield session
            if swaps:
                await self._stages.reach("within the swap")
        if swaps:
            await self._stages.reach("after the swap")


class WatchedProvider(MockProvider):
    def __init__(self, stages: Stages) -> None:
        super().__init__(MODEL)
        self._stages = stages

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        await self._stages.reach("embedding")
        return await super().embed_documents(texts)


class WatchedIngestion(Ingestion):
    stages: Stages

    async def ingest(self, job: Job, lease: Lease) -> None:
        await self.stages.reach("claimed")
        await super().ingest(job, lease)

    async def _parse(self, asset: Any, lease: Lease) -> ParsedDocument:
        parsing = asyncio.create_task(super()._parse(asset, lease))
        while not psutil.Process().children() and not parsing.done():  # noqa: ASYNC110 (nothing tells)
            await asyncio.sleep(0)
        await self.stages.reach("parsing")
        return await parsing


async def _work(dsn: str, stages: Stages, concurrency: int) -> None:
    database, provider = WatchedDatabase(dsn, stages), WatchedProvider(stages)
    services = await build_services(database, provider)
    ingestion = WatchedIngestion(database, {1: provider}, services.tenants)
    ingestion.stages = stages
    lease = timedelta(seconds=LEASE_SECONDS)
    await stages.reach("started")
    worker = change_runner(services.worker, ingestion=ingestion, lease=lease)
    await replace(worker, concurrency=concurrency).run()


def _main(dsn: str, target: str | None, pipe: Connection, manner: Manner, concurrency: int) -> None:
    asyncio.run(_work(dsn, Stages(target, pipe, manner), concurrency))


# A server that has imported everything forks each worker: there are hundreds, each in a separate process.
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload([__name__])


class WorkerProcess:
    """A worker that is killed when the block ends, if it still runs."""

    def __init__(self, dsn: str, target: str | None = None, *, manner: Manner = "wait", concurrency: int = 2) -> None:
        self._pipe, end = _processes.Pipe()
        # Not a daemon: daemons may not have children, and a worker's parsers are children.
        self._process = _processes.Process(target=_main, args=(dsn, target, end, manner, concurrency))
        self._process.start()
        end.close()

    async def reach_stage(self) -> str:
        """Wait until the worker is at its stage."""
        assert await asyncio.to_thread(self._pipe.poll, PATIENCE), "the stage was not reached"
        stage: str = self._pipe.recv()
        return stage

    def go_on(self) -> None:
        """Wake a frozen worker."""
        assert self._process.pid
        os.kill(self._process.pid, signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL: the process does nothing more, and leaves everything in its current state."""
        self._process.kill()
        self._process.join(PATIENCE)
        assert self._process.exitcode == -signal.SIGKILL, "it ended by itself before"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join(PATIENCE)
        self._process.close()
        self._pipe.close()
