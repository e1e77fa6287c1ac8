"""LangChain's `PGVectorStore.add_documents` with the same chunks and model, on the same Postgres server."""

import time
from collections.abc import Sequence
from typing import Any

import asyncpg
from sqlalchemy.ext.asyncio import create_async_engine

from app.embedded import SUPERUSER
from app.embedded.server import EmbeddedPostgres
from app.embeddings.provider import EmbeddingProvider
from benchmarks.contender import import_peer
from benchmarks.contenders.langchain import CONNECTIONS, HYBRID, PACKAGE, psycopg_url
from benchmarks.ingestion.ceilings import Prepared
from benchmarks.ingestion.line import DIMENSIONS

DATABASE = "langchain_ingestion"
TABLE = "entries"


async def add_documents(server: EmbeddedPostgres, provider: EmbeddingProvider, files: Sequence[Prepared]) -> float:
    """Add the chunks of the files to a new table with a word index, one call for each file; returns the
    seconds.

    Raises Absent if the package is missing. There is no vector index, because the service defers its own.
    """
    library, hybrid = import_peer("langchain_postgres", PACKAGE), import_peer(HYBRID, PACKAGE)
    documents = import_peer("langchain_core.documents", PACKAGE)
    address = server.start()
    try:
        connection = await asyncpg.connect(address.dsn())
        await connection.execute(f"drop database if exists {DATABASE}")
        await connection.execute(f"create database {DATABASE}")
        await connection.close()
        pool = create_async_engine(psycopg_url(address.dsn(SUPERUSER, DATABASE)), pool_size=CONNECTIONS, max_overflow=0)
        engine = library.PGEngine.from_engine(pool)
        words = hybrid.HybridSearchConfig(tsv_column="content_tsv")
        await engine.ainit_vectorstore_table(TABLE, DIMENSIONS, hybrid_search_config=words)
        store = await library.PGVectorStore.create(engine, _wrap(provider), TABLE, hybrid_search_config=words)
        await store.aapply_hybrid_search_index()
        started = time.perf_counter()
        for file in files:
            chunks = [
                documents.Document(page_content=text, metadata={"title": row.title, **row.place})
                for text, row in zip(file.texts, file.rows, strict=False)
            ]
            await store.aadd_documents(chunks)
        took = time.perf_counter() - started
        await pool.dispose()
        return took
    finally:
        server.stop()


def _wrap(provider: EmbeddingProvider) -> Any:
    """The provider behind LangChain's interface; the base class exists only if the package is installed."""
    interface: Any = import_peer("langchain_core.embeddings", PACKAGE).Embeddings

    class Wrapped(interface):  # type: ignore[misc]  # its types are not followed
        async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
            return [vector.tolist() for vector in await provider.embed_documents(texts)]

        async def aembed_query(self, text: str) -> list[float]:
            vector: list[float] = (await provider.embed_query(text)).tolist()
            return vector

        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            raise NotImplementedError("only the asynchronous calls are measured")

        def embed_query(self, text: str) -> list[float]:
            raise NotImplementedError("only the asynchronous calls are measured")

    return Wrapped()
