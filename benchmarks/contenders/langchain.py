"""LangChain's PGVectorStore: hybrid search with RRF, on the same Postgres server, in its own database."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import asyncpg
from pgvector import Vector
from pgvector.asyncpg import register_vector
from sqlalchemy import URL, make_url
from sqlalchemy.ext.asyncio import create_async_engine

from app.embedded import SUPERUSER
from benchmarks.contender import Contender, Question, Race, import_peer
from benchmarks.corpus.copies import Copy, database_exists, iterate_batches, recreate_database
from benchmarks.corpus.population import entry_number
from benchmarks.corpus.stock import Stock

PACKAGE = "langchain-postgres"
HYBRID = "langchain_postgres.v2.hybrid_search_config"
VERSION = 1
SETUP = (
    "one table with a tenant column and an index on it; HNSW and GIN with its defaults, ten candidates from each leg"
)
DATABASE = "langchain"
TABLE = "entries"
METADATA = ["tenant_id", "title", "rare"]
INSERT = """
insert into entries (langchain_id, content, embedding, content_tsv, tenant_id, title, rare)
select i, c, v, to_tsvector('pg_catalog.english', c), $5, t, r
  from unnest($1::uuid[], $2::text[], $3::vector[], $4::text[], $6::boolean[]) u (i, c, v, t, r)
"""
CONNECTIONS = 10
"""The default size of the service's pool."""


@contextlib.asynccontextmanager
async def enter(race: Race) -> AsyncIterator[Contender]:
    """A table with the entries of all tenants; the tenant is a metadata column, as its documentation recommends."""
    library, hybrid = import_peer("langchain_postgres", PACKAGE), import_peer(HYBRID, PACKAGE)
    import_peer("psycopg", PACKAGE)
    copy = Copy("langchain", VERSION, race.kept)
    dsn = race.server.dsn(SUPERUSER, DATABASE)
    if not await database_exists(race.server.dsn(), DATABASE):
        copy.discard()
    await copy.ensure(lambda _: _build(dsn, race))
    engine = create_async_engine(psycopg_url(dsn), pool_size=CONNECTIONS, max_overflow=0)
    store = await library.PGVectorStore.create(
        library.PGEngine.from_engine(engine), _embeddings(race.stock), TABLE, metadata_columns=METADATA
    )

    def configuration(text: str) -> Any:
        # One for each query: the store saves the first query's words in the configuration that it
        # receives.
        return hybrid.HybridSearchConfig(
            tsv_column="content_tsv",
            fts_query=text,
            fusion_function=hybrid.reciprocal_rank_fusion,
            primary_top_k=10,
            secondary_top_k=10,
        )

    own = {"tenant_id": race.dataset.population.number}

    async def search(question: Question) -> int:
        assert question.vector is not None
        found = await store.asimilarity_search_by_vector(
            question.vector.tolist(), k=10, filter=own, hybrid_search_config=configuration(question.text)
        )
        return len(found)

    async def nearest(question: Question, rare: bool) -> list[int]:
        assert question.vector is not None
        chosen = {**own, "rare": True} if rare else own
        found = await store.asimilarity_search_by_vector(question.vector.tolist(), k=10, filter=chosen)
        return [entry_number(UUID(document.id)) for document in found]

    yield Contender(
        "LangChain PGVectorStore hybrid",
        search,
        workloads=("cached",),
        is_peer=True,
        nearest=nearest,
        entries=sum(tenant.size for tenant in race.tenants),
        setup=SETUP,
    )
    await engine.dispose()


def psycopg_url(dsn: str) -> URL:
    """The driver of its own examples. Over asyncpg, its queries sort a whole tenant instead of using the index."""
    return make_url(dsn).set(drivername="postgresql+psycopg")


def _embeddings(stock: Stock) -> Any:
    """The embedding model that the store requires but never calls, because vectors are given."""
    fake = import_peer("langchain_core.embeddings", PACKAGE)
    return fake.DeterministicFakeEmbedding(size=stock.vectors.shape[1])


async def _build(dsn: str, race: Race) -> None:
    library, hybrid = import_peer("langchain_postgres", PACKAGE), import_peer(HYBRID, PACKAGE)
    index = import_peer("langchain_postgres.v2.indexes", PACKAGE)
    await recreate_database(race.server.dsn(), DATABASE)
    dimensions = race.stock.vectors.shape[1]
    pool = create_async_engine(psycopg_url(dsn))
    engine, configuration = (library.PGEngine.from_engine(pool), hybrid.HybridSearchConfig(tsv_column="content_tsv"))
    await engine.ainit_vectorstore_table(
        TABLE,
        dimensions,
        metadata_columns=[
            library.Column("tenant_id", "INTEGER"),
            library.Column("title", "TEXT", nullable=True),
            library.Column("rare", "BOOLEAN"),
        ],
        hybrid_search_config=configuration,
        store_metadata=False,
    )
    await _fill(dsn, race)
    store = await library.PGVectorStore.create(
        engine, _embeddings(race.stock), TABLE, metadata_columns=METADATA, hybrid_search_config=configuration
    )
    with race.progress("indexes for LangChain", 2) as report:
        await store.aapply_vector_index(index.HNSWIndex())
        report(1)
        await store.aapply_hybrid_search_index()
        report(2)
    await pool.dispose()
    connection = await asyncpg.connect(dsn)
    await connection.execute(f"create index on {TABLE} (tenant_id)")
    await connection.execute(f"vacuum analyze {TABLE}")
    await connection.close()


async def _fill(dsn: str, race: Race) -> None:
    """Copy rows in the form in which the store inserts them; its own inserts, one by one, take ten times as long."""
    connection = await asyncpg.connect(dsn)
    await register_vector(connection)
    done = 0
    with race.progress("copy for LangChain", sum(t.size for t in race.tenants)) as report:
        for tenant, batch in iterate_batches(race.stock, race.tenants):
            await connection.execute(
                INSERT,
                [e.id for e in batch],
                [f"{e.title}\n{e.content}" if e.title else e.content for e in batch],
                [Vector(e.vector) for e in batch],
                [e.title for e in batch],
                tenant.number,
                [bool(e.tags) for e in batch],
            )
            done += len(batch)
            report(done)
    await connection.close()
