"""Registers embedding models: a row, a check constraint on the dimension, and a separate HNSW index."""

from __future__ import annotations

import asyncpg

from app.db.schema.catalog import connect
from app.embeddings.provider import EmbeddingModel

M = 16
EF_CONSTRUCTION = 128
"""HNSW build parameters. With `hnsw.ef_search` 100, pgvector's default of 64 for the second finds 0.94 of the ten
nearest of 100,000 passages; 128 finds 0.99 and doubles the build time."""


async def register_model(
    admin_dsn: str, model: EmbeddingModel, *, actor: str | None = None
) -> tuple[int, bool]:
    """Register a model as the table owner; returns its number and whether it is new.

    With `actor`, a new model is recorded in the platform's audit trail.

    Can be called again after an interruption: it creates only what is missing. The index is built partition by
    partition, because CONCURRENTLY does not work on a partitioned parent and writers must not be blocked.
    """
    connection = await connect(admin_dsn, "DATABASE_ADMIN_URL")
    try:
        known = await connection.fetchval(
            "select id from embedding_models where provider = $1 and name = $2 and dimensions = $3",
            model.provider,
            model.name,
            model.dimensions,
        )
        model_id: int = known or await _insert_model(connection, model, actor)
        await _guard_dimension(connection, model_id, model.dimensions)
        await _build_index(connection, model_id, model.dimensions)
        return model_id, known is None
    finally:
        await connection.close()


async def _insert_model(
    connection: asyncpg.Connection[asyncpg.Record], model: EmbeddingModel, actor: str | None
) -> int:
    async with connection.transaction():
        model_id: int = await connection.fetchval(
            "insert into embedding_models (provider, name, dimensions, max_tokens, similarity_threshold)"
            " values ($1, $2, $3, $4, $5) returning id",
            model.provider,
            model.name,
            model.dimensions,
            model.max_tokens,
            model.similarity_threshold,
        )
        if actor is not None:
            await connection.execute(
                "insert into platform_audit (actor, action, detail) values ($1, 'model.add',"
                " jsonb_build_object('provider', $2::text, 'model', $3::text, 'dimensions', $4::integer))",
                actor,
                model.provider,
                model.name,
                model.dimensions,
            )
    return model_id


async def _guard_dimension(
    connection: asyncpg.Connection[asyncpg.Record], model_id: int, dimensions: int
) -> None:
    name = f"embeddings_model_{model_id:d}"
    if not await connection.fetchval("select exists (select from pg_constraint where conname = $1)", name):
        await connection.execute(
            f"alter table embeddings add constraint {name}"
            f" check (model_id <> {model_id:d} or vector_dims(embedding) = {dimensions:d})"
        )


async def _build_index(
    connection: asyncpg.Connection[asyncpg.Record], model_id: int, dimensions: int
) -> None:
    parent = f"embeddings_hnsw_{model_id:d}"
    definition = (
        f"using hnsw ((embedding::halfvec({dimensions:d})) halfvec_cosine_ops)"
        f" with (m = {M}, ef_construction = {EF_CONSTRUCTION}) where model_id = {model_id:d} and in_index"
    )
    if await connection.fetchval(
        "select indisvalid from pg_index where indexrelid = to_regclass($1)", parent
    ):
        return
    await connection.execute(f"create index if not exists {parent} on only embeddings {definition}")
    partitions = await connection.fetch(
        "select relid::regclass::text as name from pg_partition_tree('embeddings') where isleaf order by 1"
    )
    for partition in partitions:
        index = f"{partition['name']}_hnsw_{model_id:d}"
        valid = await connection.fetchval(
            "select indisvalid from pg_index where indexrelid = to_regclass($1)", index
        )
        if valid is False:
            await connection.execute(f"drop index concurrently {index}")
        if not valid:
            await connection.execute(f"create index concurrently {index} on {partition['name']} {definition}")
        attached = await connection.fetchval(
            "select exists (select from pg_inherits where inhrelid = to_regclass($1))", index
        )
        if not attached:
            await connection.execute(f"alter index {parent} attach partition {index}")
