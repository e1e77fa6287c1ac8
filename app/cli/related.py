"""`knowledge related`: list the entries related to an entry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from app.cli.execution import open_tenants, read_settings
from app.cli.local.client import ask_or_open
from app.cli.options import TenantOption, examples, json_option
from app.cli.output.text import flatten, make_console, make_text, print_json

if TYPE_CHECKING:
    from app.composition.platform import Platform
    from app.composition.services import Services
    from app.settings import Settings


def register(app: typer.Typer) -> None:
    """Add the command `related`."""
    app.command(
        short_help="Show the entries related to an entry.",
        epilog=examples(
            "knowledge related 0198c5a2-6c1e-7d7e-9b3c-0a4f6f2f3b11 --tenant demo",
            "knowledge related 0198c5a2-6c1e-7d7e-9b3c-0a4f6f2f3b11 -t demo --limit 20 --json",
        ),
    )(related)


def related(
    entry_id: Annotated[UUID, typer.Argument(metavar="ID", help="Id of an entry.")],
    tenant: TenantOption,
    limit: Annotated[
        int, typer.Option("--limit", "-n", metavar="N", help="Maximum number of entries, 1 to 20.")
    ] = 5,
    as_json: Annotated[
        bool, json_option("the response of GET /knowledge/entries/{id}/related, {results, metadata}")
    ] = False,
) -> None:
    """Show the entries related to an entry: its parent, siblings and children, its sources, entries
    derived from it, and those that share two or more tags.
    """
    settings = read_settings()
    arguments = {"tenant": tenant, "entry_id": str(entry_id), "limit": limit}
    found = ask_or_open(
        settings, "related", arguments, lambda: _related(settings, arguments), doing="reading relations"
    )
    if as_json:
        print_json(found)
        return
    console = make_console()
    if not found["results"]:
        console.print("there are no related entries")
    for entry in found["results"]:
        count = entry["overlap_count"]
        shared = f" ({count} shared tags)" if count else ""
        console.print(make_text((flatten(entry["title"] or entry["content"], 80), "bold")))
        kind = f" · {entry['entry_type']} · {entry['id']}"
        console.print(make_text((f"   {entry['relationship']}{shared}", "cyan"), (kind, "dim")))
        console.print(make_text((f"   {flatten(entry['content'], 160)}\n", "")))


async def answer(services: Services | Platform, arguments: Mapping[str, Any]) -> Any:
    """The related entries as REST describes them. Raises KnowledgeError."""
    from app.knowledge.entries.related import describe_related

    tenant = await services.tenants.find(arguments["tenant"])
    entry_id = UUID(arguments["entry_id"])
    return describe_related(await services.related.related(tenant.id, entry_id, arguments["limit"]))


async def _related(settings: Settings, arguments: Mapping[str, Any]) -> Any:
    async with open_tenants(settings) as platform:
        return await answer(platform, arguments)
