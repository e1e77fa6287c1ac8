"""The floor: only the statements of a hybrid search over asyncpg, with their transactions and round trips."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import asyncpg
from pgvector.asyncpg import register_vector

from app.contract.search import SearchQuery
from app.contract.vocabulary import MOST_PENDING
from app.db.queries import hits, vectors
from app.db.queries.search import SQL
from app.db.statements import Statement
from app.knowledge.paging import PAGE_BYTES
from app.knowledge.search.legs.semantic import session_setup
from app.knowledge.search.plan import SearchDefaults, make_plan
from benchmarks.contender import FLOOR, Contender, Question, Race

CONNECTIONS = 10
"""The default size of the service's pool."""


@contextlib.asynccontextmanager
async def enter(race: Race) -> AsyncIterator[Contender]:
    """A pool of connections of the service's role."""
    tenant = await race.services.tenants.context(race.dataset.tenant_id)
    defaults = SearchDefaults()
    plan = make_plan(SearchQuery(query="?"), tenant, defaults)
    indexed = tenant.indexed and tenant.passages > defaults.exact_limit
    integers = {"model_id": tenant.space.model_id, "dimensions": tenant.space.dimensions}
    nearest = (
        vectors.SQL["indexed"].literal(tenant_id=tenant.tenant_id, **integers)
        if indexed
        else vectors.SQL["exact_all"].literal(**integers)
    )
    hydrate = hits.SQL["hydrate"].literal(**integers)
    begin = f"begin;select set_config('app.current_tenant', '{tenant.tenant_id}', true);"
    end = "set local statement_timeout='30000ms';set local jit=off"
    start = begin + session_setup(None, tenant.passages) + end
    taken = 0
    fixed = {
        "tenant_id": tenant.tenant_id,
        "filter": plan.entry_filter.as_row(),
        "max_distance": 1 - plan.threshold + 1e-4,
        "budget": defaults.keyword_budget,
        "limit": plan.wanted,
        "most_pending": MOST_PENDING,
        "most_bytes": PAGE_BYTES,
        "phrases": [],
        "misspelt": [],
        "corrections": [],
        "correction_weight": 1.0,
        "completions": [],
        "completed": [],
        "completion_weight": 1.0,
        "compound_words": [],
        "compound_weight": 1.0,
        "spelt": [],
        "spellings": [],
        "synonym_terms": [],
        "synonyms": [],
        "synonym_weight": 1.0,
        "compound_limit": 4,
        "parts": [],
        "unknown_parts": [],
        "part_weight": 1.0,
    }

    async with asyncpg.create_pool(
        race.addresses.service, min_size=CONNECTIONS, max_size=CONNECTIONS, init=register_vector
    ) as pool:

        async def nearest_passages(connection: Any, given: dict[str, Any]) -> list[asyncpg.Record]:
            return await _fetch(connection, nearest if not indexed else _limited(nearest, plan.wanted), given)

        async def nearest_in_parallel(given: dict[str, Any]) -> list[asyncpg.Record]:
            async with pool.acquire() as connection:
                await connection.execute(start)
                meanings = await nearest_passages(connection, given)
                await connection.execute("commit")
            return meanings

        async def search(question: Question) -> int:
            nonlocal taken
            given = {**fixed, "query": question.text, "words": question.text, "vector": question.vector}
            taken += 1
            # The service's rule, `Database.has_spare_connections`: run in parallel while few connections are in use.
            parallel = asyncio.create_task(nearest_in_parallel(given)) if 4 * taken <= CONNECTIONS else None
            try:
                async with pool.acquire() as connection:
                    await connection.execute(start)
                    words = await _fetch(connection, SQL["keyword_leg"], given)
                    meanings = await (parallel or nearest_passages(connection, given))
                    # It does not matter which hits are read, only how many.
                    ids = list(dict.fromkeys(row["entry_id"] for row in (*meanings, *words) if row["entry_id"]))[:10]
                    hits = await _fetch(connection, hydrate, {**given, "ids": ids})
                    await connection.execute("commit")
            finally:
                taken -= 1
            return len(hits)

        yield Contender(FLOOR, search, workloads=("cached",), is_floor=True)


async def _fetch(connection: Any, statement: Statement, values: dict[str, Any]) -> list[asyncpg.Record]:
    rows: list[asyncpg.Record] = await connection.fetch(statement.sql, *[values[name] for name in statement.parameters])
    return rows


def _limited(statement: Statement, limit: int) -> Statement:
    """Limit the statement. The service reads a cursor until it has enough; a limit reads the same rows in
    one round trip less.
    """
    return replace(statement, sql=f"{statement.sql} limit {limit:d}")
