"""Workers are killed while they create vectors of a new model; another continues with the same result."""

from __future__ import annotations

import asyncio
import random
import sys

import pytest

from app.composition.services import build_services
from app.contract.administration import NewTenant
from app.db.database import Database
from app.db.schema.owner import register_model
from app.knowledge.search.plan import SearchDefaults
from tests.fixtures.database.cluster import MODEL, TestDatabase
from tests.fixtures.embedded import PROJECT
from tests.fixtures.providers.failing import FailingProvider
from tests.knowledge.reembedding.moving import NEW, WIDER, Move

ENTRIES_A_KILL = 200


# A process takes seconds to start.
@pytest.mark.slow
@pytest.mark.parametrize("kills", [1, 8])
async def test_killed_workers_leave_the_vectors_of_an_undisturbed_change(
    database: Database, fresh_database: TestDatabase, kills: int
) -> None:
    entries = ENTRIES_A_KILL * kills
    await register_model(fresh_database.admin_dsn, WIDER)
    new = FailingProvider(WIDER)
    services = await build_services(
        database, FailingProvider(MODEL), next_provider=new, defaults=SearchDefaults(exact_limit=100)
    )
    tenant = await services.tenants.create(NewTenant("moving"), actor="test")
    move = Move(services, tenant, fresh_database, FailingProvider(MODEL), new)
    await move.add(entries)
    await move.start()
    chance = random.Random(7)  # noqa: S311
    made = 0
    for _ in range(kills):
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.knowledge.reembedding.reembedding_process",
            fresh_database.service_dsn,
            cwd=PROJECT,
        )
        try:
            async with asyncio.timeout(60):
                while await count(move) <= made:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
            await asyncio.sleep(chance.uniform(0, 0.15))
        finally:
            process.kill()
            await process.wait()
        made = await count(move)
        # Its lease expires at once.
        await move.sql("update jobs set lease_until = now() where state = 'running'")
    assert 0 < made < entries, "the workers were to be killed in the middle"

    await move.run_jobs()
    change = await move.status()
    assert (change.state, change.progress) == ("ready", 1.0)
    assert await move.pending(NEW) == 0
    vectors = await move.vectors(NEW)
    assert len(vectors) == entries
    assert len(new.documents) == entries - made, "what the killed ones had stored was not made again"
    for content in list(vectors)[::50]:
        number = next(iter(await new.embed_documents([content])))
        stored = [float(x) for x in vectors[content].strip("[]").split(",")]
        assert abs(number - stored).max() < 1e-3
    assert await move.sql("select bool_and(in_index) from embeddings where model_id = 2")
    await services.close()


async def count(move: Move) -> int:
    return int(await move.sql("select count(*) from embeddings where model_id = 2"))
