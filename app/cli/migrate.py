"""`knowledge migrate`: migrate the database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.execution import is_database_absent, json_option, program, read_settings, run_async
from app.cli.output.text import print_json
from app.errors import ConfigurationError

if TYPE_CHECKING:
    from app.settings import Settings


@program.add("knowledge migrate", "knowledge migrate --service-role kb_service", "knowledge migrate --check")
def migrate(
    service_role: Annotated[
        str | None, typer.Option(metavar="ROLE", help="Login role of the service; it gets the rights it needs.")
    ] = None,
    shards: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            max=4096,
            help="On Citus, at the first migration: shards of each table, 32 by default. A move takes a whole one.",
        ),
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Change nothing; fail if migrations are missing.")] = False,
    as_json: Annotated[bool, json_option("{before, revision, latest, current}")] = False,
) -> None:
    """Migrate the database to this version's schema, and register the configured embedding model.

    Reads DATABASE_ADMIN_URL. Every start migrates the embedded database, so it rarely needs this. On the coordinator of
    a Citus cluster, the tables are distributed over its nodes, and each node gets its roles, functions and rights.
    """
    settings = read_settings(serves=True)
    before, after, wanted = run_async(
        _check(settings) if check else _migrate(settings, service_role, shards),
        doing="looking" if check else "migrating",
    )
    if as_json:
        print_json({"before": before, "revision": after, "latest": wanted, "current": after == wanted})
    elif after != wanted:
        raise ConfigurationError(
            None,
            f"the database is at revision {after or 'none'}, this version needs {wanted}",
            "run: knowledge migrate",
        )
    elif check or before == after:
        typer.echo(f"up to date at revision {after}")
    else:
        typer.echo(f"migrated from revision {before or 'none'} to {after}")
    if after != wanted:
        raise typer.Exit(1)


async def _check(settings: Settings) -> tuple[str | None, str | None, str]:
    from app.composition.database import embedded_database
    from app.db.schema.lineage import read_revision
    from app.db.schema.scripts import latest_revision

    database = settings.database
    url = database.admin_url or database.url
    if url is not None:
        revision = await read_revision(url.get_secret_value(), "DATABASE_ADMIN_URL")
    elif is_database_absent(settings):
        revision = None
    else:
        async with embedded_database(database.data_dir) as addresses:
            revision = await read_revision(addresses.service, "KB_DATA_DIR")
    return revision, revision, latest_revision()


async def _migrate(
    settings: Settings, service_role: str | None, shards: int | None
) -> tuple[str | None, str | None, str]:
    from app.composition.database import SERVICE, embedded_database

    database = settings.database
    if database.admin_url is not None:
        dsn = database.admin_url.get_secret_value()
        return await _prepare(settings, dsn, service_role, shards, "DATABASE_ADMIN_URL")
    if not database.embedded:
        raise ConfigurationError(
            "DATABASE_ADMIN_URL", "must be set to the role that owns the tables", "see deploy/roles.sql"
        )
    async with embedded_database(database.data_dir) as addresses:
        assert addresses.admin is not None
        return await _prepare(settings, addresses.admin, service_role or SERVICE, shards, "KB_DATA_DIR")


async def _prepare(
    settings: Settings, dsn: str, service_role: str | None, shards: int | None, setting: str
) -> tuple[str | None, str | None, str]:
    from app.composition.database import prepare
    from app.composition.providers import configured_model
    from app.db.cluster.distribution import DEFAULT_SHARDS
    from app.db.schema.lineage import read_revision
    from app.db.schema.scripts import latest_revision

    before = await read_revision(dsn, setting)
    await prepare(
        dsn,
        service_role=service_role,
        model=configured_model(settings),
        shards=shards or DEFAULT_SHARDS,
        setting=setting,
    )
    return before, await read_revision(dsn, setting), latest_revision()
