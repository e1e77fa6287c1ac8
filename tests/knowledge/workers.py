"""Workers that differ from the service's own in a part or two, and what becomes of their work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import psutil

from app.composition.services import Services
from app.db.queries.work import jobs as db
from app.db.queries.work.jobs import Job
from app.documents.parsed import ParseLimits
from app.embeddings.provider import EmbeddingProvider
from app.knowledge.ingestion.assets import Asset, Upload
from app.knowledge.ingestion.ingestion import Ingestion
from app.knowledge.tenants.directory import Tenant
from app.knowledge.worker.runner import KINDS
from app.knowledge.worker.worker import Worker
from tests.db.cluster import connected
from tests.knowledge.provider import FailingProvider

FILE = Upload("a.md", b"# Harbour\n\nBoats lie here.")
MINUTE = timedelta(minutes=1)
PATIENCE = 20.0
"""Seconds until a test gives up; none takes that long."""


async def claim(services: Services, lease: timedelta = MINUTE) -> Job | None:
    """Take the next job, as a worker does."""
    async with services.database.platform_session() as session:
        return await db.claim_job(session, KINDS, lease)


async def expire_leases(superuser_dsn: str) -> None:
    """As if the workers that hold jobs had died a while ago."""
    async with connected(superuser_dsn) as superuser:
        await superuser.execute("update jobs set lease_until = clock_timestamp() - interval '1 second'")


def change_runner(worker: Worker, **parts: Any) -> Worker:
    """The same worker, whose runner has other parts: `ingestion`, `lease`, `slice_seconds`, …"""
    return replace(worker, runner=replace(worker.runner, **parts))


@dataclass
class Bench:
    """Workers over the test's services, and what the database says of their jobs."""

    services: Services
    tenant: Tenant
    superuser_dsn: str
    provider: FailingProvider
    limits: ParseLimits = field(default_factory=ParseLimits)

    def make_worker(self, *, ingestion: Ingestion | None = None, lease: float = 60.0, **parts: Any) -> Worker:
        return change_runner(
            self.services.worker,
            ingestion=ingestion or self.make_ingestion(),
            lease=timedelta(seconds=lease),
            **parts,
        )

    def make_ingestion(self, provider: EmbeddingProvider | None = None) -> Ingestion:
        return Ingestion(
            self.services.database,
            {1: provider or self.provider},
            self.services.tenants,
            limits=self.limits,
        )

    async def upload(self, file: Upload = FILE) -> UUID:
        asset, _ = await self.services.assets.upload(self.tenant.id, file)
        return asset.id

    async def get(self, asset_id: UUID) -> Asset:
        return await self.services.assets.get(self.tenant.id, asset_id)

    async def change(self, sql: str, *values: Any) -> None:
        async with connected(self.superuser_dsn) as superuser:
            await superuser.execute(sql, *values)

    async def jobs(self) -> list[dict[str, Any]]:
        async with connected(self.superuser_dsn) as superuser:
            rows = await superuser.fetch(
                "select kind, state, attempts, lost, postponed from jobs order by kind"
            )
        return [dict(row) for row in rows]

    async def wait_until(self, asset_id: UUID, true: Callable[[Asset], bool]) -> Asset:
        async with asyncio.timeout(PATIENCE):
            while not true(asset := await self.get(asset_id)):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        return asset


async def find_parser() -> psutil.Process:
    """The process that reads a file for this one, as soon as there is one."""
    me = psutil.Process()
    async with asyncio.timeout(PATIENCE):
        while True:
            for child in me.children():
                if "app.documents.process.child" in " ".join(child.cmdline()):
                    return child
            await asyncio.sleep(0)
