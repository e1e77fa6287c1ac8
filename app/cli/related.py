"""`knowledge related`: list the entries related to an entry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from app.cli import fields
from app.cli.calls import call
from app.cli.execution import TenantOption, choose_target, examples, json_option, open_service, open_tenants
from app.cli.output.text import flatten, make_console, make_text, print_json


def register(app: typer.Typer) -> None:
    """Add the command `related`."""
    app.command(
        short_help="Show the entries related to an entry.",
        epilog=examples(
            "knowledge related 0198c5a2-6c1e-7d7e-9b3c-0a4f6f2f3b11 --tenant demo",
            "knowledge related incident-12 -t demo --limit 20 --json",
        ),
    )(related)


def related(
    entry: fields.EntryId,
    tenant: TenantOption,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", help="Maximum number of entries, 1 to 20.")] = 5,
    as_json: Annotated[
        bool, json_option("the response of GET /knowledge/entries/{id}/related, {results, metadata}")
    ] = False,
) -> None:
    """Show the entries related to an entry: its parent, siblings and children, its sources, entries
    derived from it, and those that share two or more tags.
    """
    arguments = {"entry": entry, "limit": limit}
    # Only an external id has to be looked up.
    opening = open_tenants if fields.is_id(entry) else open_service
    found = call(choose_target(tenant), "related", arguments, answer, opening=opening, doing="reading relations")
    if as_json:
        print_json(found)
        return
    console = make_console()
    if not found["results"]:
        console.print("there are no related entries")
    for item in found["results"]:
        count = item["overlap_count"]
        shared = f" ({count} shared tags)" if count else ""
        console.print(make_text((flatten(item["title"] or item["content"], 80), "bold")))
        kind = f" · {item['entry_type']} · {item['id']}"
        console.print(make_text((f"   {item['relationship']}{shared}", "cyan"), (kind, "dim")))
        console.print(make_text((f"   {flatten(item['content'], 160)}\n", "")))


async def answer(knowledge: Any, arguments: Mapping[str, Any]) -> Any:
    """The related entries as REST describes them; `knowledge` is a Platform or, for an external id, a Knowledge.

    Raises KnowledgeError.
    """
    tenant = await knowledge.tenants.find(arguments["tenant"])
    entry_id = await fields.find_id(knowledge, tenant.id, arguments["entry"])
    return await knowledge.related.related(tenant.id, entry_id, arguments["limit"], include_quarantined=True)
