"""A worker in a separate process, to be killed: python -m tests.knowledge.reembedding.reembedding_process DSN."""

import asyncio
import sys
from datetime import timedelta

from app.composition.services import build_services
from app.db.database import Database
from app.knowledge.search.plan import SearchDefaults
from tests.fixtures.database.cluster import MODEL
from tests.fixtures.providers.failing import FailingProvider
from tests.fixtures.workers import change_runner
from tests.knowledge.reembedding.moving import WIDER


async def work(dsn: str) -> None:
    """Serve both models, the new one slowly, until killed."""
    slow = FailingProvider(WIDER)
    slow.delay = 0.1
    services = await build_services(
        Database(dsn, pool_size=4), FailingProvider(MODEL), next_provider=slow, defaults=SearchDefaults(exact_limit=100)
    )
    await change_runner(services.worker, lease=timedelta(seconds=2)).run()


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1]))
