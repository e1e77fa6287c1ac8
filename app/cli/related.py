"""`knowledge related`: list the entries related to an entry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from app.cli.calls import call
from app.cli.execution import open_tenants
from app.cli.options import TenantOption, examples, json_option
from app.cli.output.text import flatten, make_console, make_text, print_json
from app.cli.target import choose_target

if TYPE_CHECKING:
    from app.cli.knowledge import Knowledge
    from app.composition.platform import Platform


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
    arguments = {"entry_id": str(entry_id), "limit": limit}
    found = call(
        choose_target(tenant), "related", arguments, answer, opening=open_tenants, doing="reading relations"
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


async def answer(knowledge: Knowledge | Platform, arguments: Mapping[str, Any]) -> Any:
    """The related entries as REST describes them. Raises KnowledgeError."""
    from app.knowledge.entries.related import describe_related

    tenant = await knowledge.tenants.find(arguments["tenant"])
    entry_id = UUID(arguments["entry_id"])
    found = await knowledge.related.related(tenant.id, entry_id, arguments["limit"], include_quarantined=True)
    return describe_related(found)
