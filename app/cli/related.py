"""`knowledge related`: list the entries related to an entry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from app.cli.execution import open_tenant, read_settings, run_async
from app.cli.options import TenantOption, examples, json_option
from app.cli.output.text import flatten, make_console, make_text, print_json

if TYPE_CHECKING:
    from app.knowledge.entries.related import Related
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
    found = run_async(_related(read_settings(), tenant, entry_id, limit), doing="reading relations")
    if as_json:
        from app.knowledge.entries.related import describe_related

        print_json(describe_related(found))
        return
    console = make_console()
    if not len(found):
        console.print("there are no related entries")
    for item in found:
        entry = item.entry
        shared = f" ({item.overlap_count} shared tags)" if item.overlap_count else ""
        console.print(make_text((flatten(entry.title or entry.content, 80), "bold")))
        console.print(
            make_text(
                (f"   {item.relationship}{shared}", "cyan"), (f" · {entry.entry_type} · {entry.id}", "dim")
            )
        )
        console.print(make_text((f"   {flatten(entry.content, 160)}\n", "")))


async def _related(settings: Settings, slug: str, entry_id: UUID, limit: int) -> Related:
    async with open_tenant(settings, slug) as (services, tenant):
        return await services.related.related(tenant.id, entry_id, limit)
