"""What the owner of the tables does: register embedding models, and rewrite the files of a tenant."""

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from app.db.rows import Connection
from app.db.schema.catalog import connect, using
from app.db.statements import load_statements
from app.embeddings.provider import EmbeddingModel


async def register_model(admin_dsn: str, model: EmbeddingModel, *, actor: str | None = None) -> tuple[int, bool]:
    """Register a model as the table owner; returns its number and whether it is new.

    With `actor`, a new model is recorded in the platform's audit trail.

    Can be called again after an interruption: it creates only what is missing. Raises ConfigurationError and
    DatabaseUnavailable.
    """
    async with using(await connect(admin_dsn, "DATABASE_ADMIN_URL")) as connection:
        known = await connection.fetchval(
            "select id from embedding_models where provider = $1 and name = $2 and dimensions = $3",
            model.provider,
            model.name,
            model.dimensions,
        )
        model_id: int = known or await _insert_model(connection, model, actor)
        await _guard_dimension(connection, model_id, model.dimensions)
        return model_id, known is None


async def _insert_model(connection: Connection, model: EmbeddingModel, actor: str | None) -> int:
    async with connection.transaction():
        model_id: int = await connection.fetchval(
            "insert into embedding_models (provider, name, dimensions, max_tokens, similarity_threshold, centre)"
            " values ($1, $2, $3, $4, $5, $6) returning id",
            model.provider,
            model.name,
            model.dimensions,
            model.max_tokens,
            model.similarity_threshold,
            model.centre,
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


async def store_centre(admin_dsn: str, model: EmbeddingModel, centre: float, *, actor: str) -> None:
    """Store a registered model's measured centre as the table owner, recorded in the platform's audit trail.

    Raises ConfigurationError and DatabaseUnavailable.
    """
    named = (model.provider, model.name, model.dimensions)
    async with using(await connect(admin_dsn, "DATABASE_ADMIN_URL")) as connection, connection.transaction():
        await connection.execute(
            "update embedding_models set centre = $4 where provider = $1 and name = $2 and dimensions = $3",
            *named,
            centre,
        )
        await connection.execute(
            "insert into platform_audit (actor, action, detail) values ($1, 'model.calibrate',"
            " jsonb_build_object('provider', $2::text, 'model', $3::text, 'dimensions', $4::integer,"
            " 'centre', $5::double precision))",
            actor,
            *named,
            centre,
        )


async def _guard_dimension(connection: Connection, model_id: int, dimensions: int) -> None:
    name = f"embeddings_model_{model_id:d}"
    if not await connection.fetchval("select exists (select from pg_constraint where conname = $1)", name):
        await connection.execute(
            f"alter table embeddings add constraint {name}"
            f" check (model_id <> {model_id:d} or vector_dims(embedding) = {dimensions:d})"
        )


SQL = load_statements(__name__)

STATISTICS = "pg_catalog.pg_statistic"


@dataclass(frozen=True, slots=True)
class RewrittenFiles:
    """The rewritten tables, and the tables that need a role with more rights."""

    rewritten: list[str]
    refused: list[str]


async def rewrite_files(admin_dsn: str, tenant_id: UUID, setting: str, tell: Callable[[str], object]) -> RewrittenFiles:
    """Rewrite the files of all tables that hold rows of a tenant, and of the statistics of columns, as their owner.

    Each table is locked while it is rewritten, also for reads: `tell` gets its name before. Raises ConfigurationError,
    which names `setting`, DatabaseUnavailable, and asyncpg.PostgresError.
    """
    rewritten: list[str] = []
    refused: list[str] = []
    async with using(await connect(admin_dsn, setting)) as connection:
        can_clear = await connection.fetchval(SQL["can_clear"].sql)
        places = [row["place"] for row in await connection.fetch(SQL["places"].sql, tenant_id)]
        parents = [row["place"] for row in await connection.fetch(SQL["parents"].sql)]
        for place in (*places, *parents, STATISTICS):
            tell(place)
            if can_clear and place != STATISTICS:
                await connection.fetch(SQL["clear_statistics"].sql, place)
            if place in parents:
                await connection.execute(f"analyze {place}")
                continue
            before = await connection.fetchval(SQL["file"].sql, place)
            await connection.execute(f"vacuum ({'full' if place == STATISTICS else 'full, analyze'}) {place}")
            # Without the right, Postgres only issues a warning.
            changed = before != await connection.fetchval(SQL["file"].sql, place)
            (rewritten if changed else refused).append(place)
    return RewrittenFiles(rewritten, refused)
