"""Doing queued work at once, instead of when it is due."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from app.composition import Services
from app.knowledge.tenants import Tenant
from tests.db.cluster import connected
from tests.knowledge.provider import FailingProvider
from tests.knowledge.workers import Bench

RunJobs = Callable[[], Awaitable[int]]


@pytest.fixture
def run_jobs(services: Services, superuser_dsn: str) -> RunJobs:
    """Make all queued work due, end pauses, and do what there is; returns the number of jobs taken up."""

    async def run() -> int:
        async with connected(superuser_dsn) as superuser:
            await superuser.execute("update jobs set run_at = clock_timestamp() where state = 'queued'")
            await superuser.execute("update embedding_models set paused_until = null")
        done = 0
        while await services.worker.run_once():
            done += 1
        return done

    return run


@pytest.fixture
def bench(services: Services, tenant: Tenant, superuser_dsn: str, failing_provider: FailingProvider) -> Bench:
    """Workers for the files of `tenant`, and a look at their jobs."""
    return Bench(services, tenant, superuser_dsn, failing_provider)
