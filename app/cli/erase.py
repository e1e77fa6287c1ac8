"""`knowledge erase`: erase an asset, an entry or everything of a subject, and rewrite the files of the database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from app.cli.door import open_door
from app.cli.execution import (
    TenantOption,
    choose_target,
    confirm,
    describe_target,
    json_option,
    open_tenants,
    program,
    read_settings,
    require_database,
    run_async,
)
from app.cli.output.text import print_json, remark
from app.errors import ConfigurationError, InvalidInput
from knowledge_client import oversight

if TYPE_CHECKING:
    from app.db.schema.owner import RewrittenFiles
    from app.settings import Settings
    from knowledge_client.models import Erasure


@program.add(
    "knowledge erase --tenant demo --entry 0198c5a2-7d1e-7a60-8d0b-5b1f6a2d7c33 --yes",
    "knowledge erase --tenant demo --subject ada@example.com",
    "knowledge erase --tenant demo --files",
)
def erase(
    tenant: TenantOption,
    asset: Annotated[UUID | None, typer.Option(help="Erase this asset, with its chunks.")] = None,
    entry: Annotated[UUID | None, typer.Option(help="Erase this entry.")] = None,
    subject: Annotated[
        str | None, typer.Option(metavar="SUB", help="Erase what this `sub` created, searched and saved.")
    ] = None,
    files: Annotated[
        bool, typer.Option("--files", help="Rewrite the files of the tenant's tables; each is locked for that time.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    as_json: Annotated[
        bool, json_option("the receipt: {id, state, places, derived, …}; with --files {rewritten, refused}")
    ] = False,
) -> None:
    """Erase an asset, an entry or everything of a subject, in every place where the service keeps it.

    Prints a receipt: what was removed from each table, and what a second look found there. Items that depend on erased
    ones are named and stay. The service looks again a minute later.

    Postgres keeps the bytes of removed rows in its files. --files writes new files for the tables that hold the tenant,
    as their owner (DATABASE_ADMIN_URL). Reads and writes of a table wait while it is rewritten.
    """
    given = sum(value is not None for value in (asset, entry, subject)) + files
    if given != 1:
        raise InvalidInput.of("--asset, --entry, --subject, --files", "exactly one is needed")
    if files:
        result = run_async(_rewrite(read_settings(), tenant), doing="rewriting files")
        if as_json:
            print_json(result)
        else:
            typer.echo(f"{len(result.rewritten)} tables have new files")
        for place in result.refused:
            remark(f"{place} needs a superuser or the owner of the database: vacuum full {place}")
        if result.refused:
            raise typer.Exit(1)
        return

    target = choose_target(tenant)
    confirm(f"Erase it from {describe_target(target)}? This cannot be undone.", yes=yes)
    with open_door(target, doing="erasing") as door:
        erasure = door.run(oversight.erase(asset_id=asset, entry_id=entry, subject=subject))
    if as_json:
        print_json(door.answer)
    else:
        for line in describe_erasure(erasure):
            typer.echo(line)


def describe_erasure(erasure: Erasure) -> list[str]:
    """Describe a receipt in a few lines."""
    lines = [f"erasure {erasure.id}: {erasure.state}"]
    for place in erasure.places:
        if place.removed or place.found:
            left = "not looked at yet" if place.found is None else f"{place.found} found afterwards"
            lines.append(f"  {place.place}: {place.removed} removed, {left}")
    if erasure.derived_total:
        lines.append(f"{erasure.derived_total} items that depend on these were not erased:")
        for named in erasure.derived[:20]:
            version = "" if named.version is None else f" version {named.version}"
            lines.append(f"  {named.kind} {named.id}{version} ({named.relation})")
    lines += ["by design, these remain:", *(f"  {each.place}: {each.reason}" for each in erasure.remains)]
    return lines


async def _rewrite(settings: Settings, slug: str) -> RewrittenFiles:
    from app.composition.database import embedded_database
    from app.db.schema.owner import rewrite_files

    require_database(settings)
    async with open_tenants(settings) as platform:
        tenant = await platform.tenants.find(slug)
    database = settings.database
    if database.admin_url is not None:
        return await rewrite_files(database.admin_url.get_secret_value(), tenant.id, "DATABASE_ADMIN_URL", _tell)
    if not database.embedded:
        raise ConfigurationError(
            "DATABASE_ADMIN_URL", "must be set to the role that owns the tables", "see deploy/roles.sql"
        )
    async with embedded_database(database.data_dir) as addresses:
        assert addresses.admin is not None
        return await rewrite_files(addresses.admin, tenant.id, "KB_DATA_DIR", _tell)


def _tell(place: str) -> None:
    remark(f"rewriting {place}")
