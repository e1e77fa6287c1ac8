"""How the ranker uses connections."""

from __future__ import annotations

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.search import SearchQuery
from app.db.database import Database
from tests.fixtures.searching import make_search
from tests.knowledge.writing import write


async def test_legs_run_in_parallel_only_with_enough_free_connections(
    services: Services, tenant: Tenant, service_dsn: str
) -> None:
    await write(services, tenant, "harbour words", "sailing boats", "words of boats")
    query = SearchQuery(query="harbour boats", similarity_threshold=0.0)
    found = []
    for size, opened in ((1, 1), (3, 1), (4, 2), (10, 2)):
        database = Database(service_dsn, pool_size=size)
        search = make_search(services, database)
        try:
            found.append([(hit.id, hit.score) for hit in await search.search(tenant.id, query)])
            assert database.engine.pool.checkedin() == opened  # type: ignore[attr-defined]
        finally:
            await database.close()
    assert len(found[0]) == 3
    assert all(others == found[0] for others in found)
