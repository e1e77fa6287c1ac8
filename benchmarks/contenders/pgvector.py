"""The query of pgvector's own example of hybrid search, on the same Postgres server, in its own database."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
from pgvector import Vector
from pgvector.asyncpg import register_vector

from app.embedded import SUPERUSER
from benchmarks.contender import Contender, Question, Race
from benchmarks.corpus.copies import Copy, database_exists, iterate_batches, recreate_database

VERSION = 1
SETUP = (
    "one table with a tenant column and an index on it; HNSW with iterative scans and ef 100, GIN, "
    "20 candidates from each part"
)
DATABASE = "pgvector_example"
CONNECTIONS = 10
"""The default size of the service's pool."""

TABLE = """
create extension if not exists vector;
create table documents (id bigserial primary key, tenant_id integer, number integer, rare boolean, content text,
                        embedding vector({dimensions}));
"""
INDEXES = (
    "create index on documents using gin (to_tsvector('english', content))",
    "create index on documents using hnsw (embedding vector_cosine_ops)",
    "create index on documents (tenant_id)",
    "vacuum analyze documents",
)
SETTINGS = {"hnsw.iterative_scan": "strict_order", "hnsw.ef_search": "100", "plan_cache_mode": "force_custom_plan"}
"""As pgvector's documentation recommends for filtered searches; without custom plans, the tenant's size is unknown to
the planner."""

HYBRID = """
with semantic_search as (
    select id, rank () over (order by embedding <=> $2) as rank
      from documents where tenant_id = $1
     order by embedding <=> $2 limit 20
), keyword_search as (
    select id, rank () over (order by ts_rank_cd(to_tsvector('english', content), query) desc)
      from documents, plainto_tsquery('english', $3) query
     where tenant_id = $1 and to_tsvector('english', content) @@ query
     order by ts_rank_cd(to_tsvector('english', content), query) desc limit 20
)
select documents.id, documents.content,
       coalesce(1.0 / (60 + semantic_search.rank), 0.0) + coalesce(1.0 / (60 + keyword_search.rank), 0.0) as score
  from semantic_search full outer join keyword_search on semantic_search.id = keyword_search.id
  join documents on documents.id = coalesce(semantic_search.id, keyword_search.id)
 order by score desc limit 10
"""
NEAREST = "select number from documents where tenant_id = $1 {condition} order by embedding <=> $2 limit 10"


@contextlib.asynccontextmanager
async def enter(race: Race) -> AsyncIterator[Contender]:
    """One table with the entries of all tenants; the tenant is a condition of both parts of the query."""
    copy = Copy("pgvector", VERSION, race.kept)
    dsn = race.server.dsn(SUPERUSER, DATABASE)
    if not await database_exists(race.server.dsn(), DATABASE):
        copy.discard()
    await copy.ensure(lambda _: _build(dsn, race))
    tenant = race.dataset.population.number
    async with asyncpg.create_pool(
        dsn, min_size=CONNECTIONS, max_size=CONNECTIONS, init=register_vector, server_settings=SETTINGS
    ) as pool:

        async def search(question: Question) -> int:
            return len(await pool.fetch(HYBRID, tenant, question.vector, question.text))

        async def nearest(question: Question, rare: bool) -> list[int]:
            statement = NEAREST.format(condition="and rare" if rare else "")
            return [row["number"] for row in await pool.fetch(statement, tenant, question.vector)]

        yield Contender(
            "pgvector's hybrid example",
            search,
            workloads=("cached",),
            is_peer=True,
            nearest=nearest,
            entries=sum(tenant.size for tenant in race.tenants),
            setup=SETUP,
        )


async def _build(dsn: str, race: Race) -> None:
    await recreate_database(race.server.dsn(), DATABASE)
    connection: Any = await asyncpg.connect(dsn)
    try:
        await connection.execute(TABLE.format(dimensions=race.stock.vectors.shape[1]))
        await register_vector(connection)
        done = 0
        with race.progress("copy for pgvector's example", sum(t.size for t in race.tenants)) as report:
            for tenant, batch in iterate_batches(race.stock, race.tenants):
                await connection.copy_records_to_table(
                    "documents",
                    records=[
                        (
                            tenant.number,
                            e.number,
                            bool(e.tags),
                            f"{e.title}\n{e.content}" if e.title else e.content,
                            Vector(e.vector),
                        )
                        for e in batch
                    ],
                    columns=["tenant_id", "number", "rare", "content", "embedding"],
                )
                done += len(batch)
                report(done)
        with race.progress("indexes for pgvector's example", len(INDEXES)) as report:
            for number, statement in enumerate(INDEXES):
                await connection.execute(statement)
                report(number + 1)
    finally:
        await connection.close()
