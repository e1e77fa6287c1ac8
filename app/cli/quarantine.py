"""`knowledge quarantine`: list and release entries that searches do not find because of their flags."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from app.cli.execution import (
    ACTOR,
    Local,
    Target,
    TenantOption,
    choose_target,
    command_group,
    examples,
    json_option,
    open_tenants,
    run_async,
)
from app.cli.output.tables import print_table
from app.cli.output.text import flatten, print_json, remark

if TYPE_CHECKING:
    from app.cli.remote.knowledge import RemoteQuarantine
    from app.contract.access import ItemKind
    from app.contract.entries import Entry
    from app.knowledge.quarantine import QuarantineService

Ids = Annotated[list[UUID], typer.Argument(metavar="ID...", help="Ids of entries, or with --asset of assets.")]


def register(app: typer.Typer) -> None:
    """Add the commands `quarantine list` and `quarantine release`."""
    group = command_group(
        "List and release entries with suspicious content.", "knowledge quarantine list --tenant demo"
    )
    group.command("list", epilog=examples("knowledge quarantine list --tenant demo --limit 100"))(list_quarantined)
    group.command(
        "release",
        epilog=examples(
            "knowledge quarantine release 0198c5a2-6c1e-7d7e-9b3c-0a4f6f2f3b11 --tenant demo",
            "knowledge quarantine release --asset 0198c5a2-6c1e-7d7e-9b3c-0a4f6f2f3b11 --tenant demo",
        ),
    )(release)
    app.add_typer(group, name="quarantine")


def list_quarantined(
    tenant: TenantOption,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", help="Maximum number of entries, 1 to 200.")] = 50,
    as_json: Annotated[bool, json_option("a list of entries, as in GET /admin/quarantine")] = False,
) -> None:
    """List the newest entries and chunks that searches do not find because of their flags."""
    found = run_async(_list(choose_target(tenant), limit), doing="reading the quarantine")
    if as_json:
        print_json(found)
        return
    rows = [
        [
            str(e.id),
            ", ".join(e.metadata.get("flags", ())),
            flatten(e.asset_name or "", 40),
            flatten(e.title or e.content, 60),
        ]
        for e in found
    ]
    print_table(["id", "flags", "asset", "text"], rows)


def release(
    ids: Ids,
    tenant: TenantOption,
    asset: Annotated[bool, typer.Option("--asset", help="The ids are those of assets: release their chunks.")] = False,
    as_json: Annotated[bool, json_option("a list of the ids of the released entries")] = False,
) -> None:
    """Let searches find entries again. Their texts are not quarantined again for the same flags.

    The exit status is 1 if an id is not that of an entry, or with --asset of an asset. An entry that is not in
    quarantine stays as it is.
    """
    released, kinds = run_async(_release(choose_target(tenant), ids, asset), doing="releasing entries")
    if as_json:
        print_json(released)
    else:
        typer.echo(f"{len(released)} released")
    wanted: ItemKind = "asset" if asset else "entry"
    wrong = [each for each in ids if each not in released and kinds.get(each) != wanted]
    for each in wrong:
        remark(_describe_wrong(each, kinds.get(each), wanted))
    if wrong:
        raise typer.Exit(1)


def _describe_wrong(given: UUID, kind: ItemKind | None, wanted: ItemKind) -> str:
    match kind:
        case "asset":
            return f"{given} is an asset: to release its chunks, add --asset"
        case "entry":
            return f"{given} is an entry: to release it, leave out --asset"
    return f"there is no {wanted} {given}"


async def _list(target: Target, limit: int) -> Sequence[Entry]:
    async with _quarantine_of(target) as (service, tenant_id):
        return (await service.list_quarantined(tenant_id, limit=limit, reader=ACTOR)).items


async def _release(
    target: Target, ids: Sequence[UUID], of_assets: bool
) -> tuple[Sequence[UUID], Mapping[UUID, ItemKind]]:
    """The released entries, and what those of the given ids are that are not among them."""
    from app.contract.erasures import Release

    wanted = Release(asset_ids=ids) if of_assets else Release(entry_ids=ids)
    async with _quarantine_of(target) as (service, tenant_id):
        released = await service.release(tenant_id, wanted, actor=ACTOR)
        return released, await service.find_kinds(tenant_id, [each for each in ids if each not in released])


@asynccontextmanager
async def _quarantine_of(target: Target) -> AsyncIterator[tuple[QuarantineService | RemoteQuarantine, UUID]]:
    if not isinstance(target, Local):
        from app.cli.remote.knowledge import open_remote

        async with open_remote(target) as knowledge:
            yield knowledge.quarantine, (await knowledge.tenants.find("")).id
        return
    from app.knowledge.audit import AuditTrail
    from app.knowledge.quarantine import QuarantineService

    async with open_tenants(target.settings) as platform:
        tenant = await platform.tenants.find(target.slug)
        yield QuarantineService(platform.database, AuditTrail(platform.database)), tenant.id
