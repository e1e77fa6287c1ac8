"""Doing queued work at once, instead of when it is due."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from app.composition import Services
from tests.db.cluster import connected

RunJobs = Callable[[], Awaitable[int]]


@pytest.fixture
def run_jobs(services: Services, superuser_dsn: str) -> RunJobs:
    """Make all queued work due and do what there is; returns the number of jobs taken up."""

    async def run() -> int:
        async with connected(superuser_dsn) as superuser:
            await superuser.execute("update jobs set run_at = clock_timestamp() where state = 'queued'")
        done = 0
        while await services.worker.run_once():
            done += 1
        return done

    return run
