"""`knowledge delete`: delete entries, or uploaded files."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli import fields
from app.cli.calls import call
from app.cli.execution import ACTOR, TenantOption, choose_target, describe_target, examples, json_option
from app.cli.output.text import print_json, remark
from app.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from app.cli.knowledge import Knowledge


def register(app: typer.Typer) -> None:
    """Add the command `delete`."""
    app.command(
        short_help="Delete entries, or uploaded files.",
        epilog=examples(
            "knowledge delete 0198c5a2-6c1e-7d7e-9b3c-0a4f6f2f3b11 --tenant demo --yes",
            "knowledge delete --asset 0198c5a2-7d1e-7a60-8d0b-5b1f6a2d7c33 -t demo",
        ),
    )(delete)


def delete(
    ids: Annotated[
        list[str],
        typer.Argument(metavar="ID...", help="Ids or external ids of entries, or with --asset ids of files."),
    ],
    tenant: TenantOption,
    asset: Annotated[
        bool,
        typer.Option("--asset", help="The ids are those of uploaded files; their chunks are deleted, too."),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    as_json: Annotated[bool, json_option("{deleted, missing}: lists of the ids")] = False,
) -> None:
    """Delete entries or uploaded files. `knowledge erase` also removes their traces in records.

    The exit status is 1 if one of them does not exist.
    """
    target = choose_target(tenant)
    if not yes:
        if not sys.stdin.isatty():
            raise InvalidInput.of("--yes", "is required without a terminal")
        typer.confirm(f"Delete {', '.join(ids)} from {describe_target(target)}?", abort=True, err=True)
    done = call(target, "delete", {"ids": ids, "asset": asset}, answer, doing="deleting", writes=True)
    if as_json:
        print_json(done)
    else:
        typer.echo(f"{len(done['deleted'])} deleted")
        for missing in done["missing"]:
            remark(f"there is no {'asset' if asset else 'entry'} {missing}")
    if done["missing"]:
        raise typer.Exit(1)


async def answer(knowledge: Knowledge, arguments: Mapping[str, Any]) -> Any:
    """Delete them in order. Raises KnowledgeError, after those before were deleted."""
    tenant = await knowledge.tenants.find(arguments["tenant"])
    deleted, missing = [], []
    for given in arguments["ids"]:
        try:
            if arguments["asset"]:
                item_id = fields.read_asset_id(given)
                await knowledge.assets.delete(tenant.id, item_id, actor=ACTOR)
            else:
                item_id = await fields.find_id(knowledge, tenant.id, given)
                await knowledge.entries.delete(tenant.id, item_id, actor=ACTOR)
        except NotFound:
            missing.append(given)
        else:
            deleted.append(item_id)
    return {"deleted": deleted, "missing": missing}
