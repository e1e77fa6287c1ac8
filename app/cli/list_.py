"""`knowledge list`: list entries, or uploaded files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal
from uuid import UUID

import typer

from app.cli.calls import call
from app.cli.execution import TenantOption, choose_target, examples, json_option
from app.cli.output.tables import print_table
from app.cli.output.text import flatten, print_json, remark
from app.errors import InvalidInput

if TYPE_CHECKING:
    from app.cli.knowledge import Knowledge


def register(app: typer.Typer) -> None:
    """Add the command `list`."""
    app.command(
        "list",
        short_help="List entries, or uploaded files.",
        epilog=examples(
            "knowledge list --tenant demo --tag routing --limit 20",
            "knowledge list -t demo --type decision --sort -updated_at",
            "knowledge list -t demo --assets --status failed",
        ),
    )(list_items)


def list_items(
    tenant: TenantOption,
    assets: Annotated[bool, typer.Option("--assets", help="List uploaded files.")] = False,
    entry_type: Annotated[str | None, typer.Option("--type", metavar="TYPE", help="Only entries of this type.")] = None,
    tag: Annotated[str | None, typer.Option(metavar="TAG", help="Only entries with this tag.")] = None,
    asset: Annotated[UUID | None, typer.Option(metavar="ID", help="Only chunks of this file.")] = None,
    status: Annotated[
        Literal["pending", "processing", "indexed", "failed"] | None,
        typer.Option(help="Only files in this state."),
    ] = None,
    expired: Annotated[bool, typer.Option("--include-expired", help="Include expired entries.")] = False,
    quarantined: Annotated[bool, typer.Option("--include-quarantined", help="Include entries in quarantine.")] = False,
    sort: Annotated[
        str | None,
        typer.Option(metavar="ORDER", help="Such as -updated_at or title; default: newest first."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", help="Maximum number of items, 1 to 200.")] = 50,
    cursor: Annotated[str | None, typer.Option(metavar="CURSOR", help="Continue a list where it ended.")] = None,
    as_json: Annotated[
        bool, json_option("{items, next_cursor}, as in GET /knowledge/entries, or with --assets of assets")
    ] = False,
) -> None:
    """List entries, by default newest first, also superseded ones; or with --assets the uploaded files."""
    target = choose_target(tenant)
    page: dict[str, Any] = {"limit": limit, "cursor": cursor} | ({} if sort is None else {"sort": sort})
    chosen = {"entry_type": entry_type, "tag": tag, "asset_id": None if asset is None else str(asset)}
    flags = {"include_expired": expired, "include_quarantined": quarantined}
    if assets:
        if any(chosen.values()) or any(flags.values()):
            raise InvalidInput.of("--assets", "allows only --status, --sort, --limit and --cursor")
        arguments: dict[str, Any] = {"assets": True, "options": page | {"status": status}}
    else:
        if status is not None:
            raise InvalidInput.of("--status", "is allowed with --assets only")
        arguments = {"assets": False, "options": page | chosen | flags}
    found = call(target, "list", arguments, answer, doing="reading the list")
    if as_json:
        print_json(found)
        return
    print_table(*(_show_assets if assets else _show_entries)(found["items"]))
    if found["next_cursor"] is not None:
        remark(f"more: the same command with --cursor {found['next_cursor']}")


def _show_entries(items: list[Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    rows = [
        [
            e["id"],
            e["entry_type"],
            e["updated_at"][:16],
            " ".join(e["tags"]),
            flatten(e["title"] or e["content"], 60),
        ]
        for e in items
    ]
    return ["id", "type", "changed", "tags", "text"], rows


def _show_assets(items: list[Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    rows = [
        [
            a["id"],
            a["status"],
            a["updated_at"][:16],
            str(a["chunks"]),
            flatten(a["external_id"] or a["name"], 60),
        ]
        for a in items
    ]
    return ["id", "status", "changed", "chunks", "file"], rows


async def answer(knowledge: Knowledge, arguments: Mapping[str, Any]) -> Any:
    """A page of entries or assets. Raises KnowledgeError."""
    tenant = await knowledge.tenants.find(arguments["tenant"])
    options = dict(arguments["options"])
    if arguments["assets"]:
        return await knowledge.assets.list_assets(tenant.id, **options)
    if options["asset_id"] is not None:
        options["asset_id"] = UUID(options["asset_id"])
    return await knowledge.entries.list_entries(tenant.id, **options)
