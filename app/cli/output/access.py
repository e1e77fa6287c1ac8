"""Permissions for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from app.cli.output.text import flatten, remark

if TYPE_CHECKING:
    from app.knowledge.permissions.overview import ItemReaders, SubjectAccess


def print_item(found: ItemReaders) -> None:
    """Print who may read and change an item."""
    typer.echo(f"{found.kind} {flatten(found.name, 80)}")
    typer.echo(f"  readers  {_names(found.readers, 'all readers of the tenant')}")
    typer.echo(f"  writers  {_names(found.writers, 'all creators among them')}")
    if found.decided_by != found.kind:
        place = found.source if found.decided_by == "source" else found.asset_id
        typer.echo(f"  decided by its {found.decided_by}, {place}")
    for caller in found.callers:
        groups = f" ({', '.join(map(flatten, caller.groups))})" if caller.groups else ""
        may = "reads and writes" if caller.writes else "reads"
        typer.echo(
            f"  {flatten(caller.subject)}{groups} {may}, last call {caller.last_at:%Y-%m-%d %H:%M} UTC"
        )


def print_subject(found: SubjectAccess) -> None:
    """Print what a person may read."""
    groups = ", ".join(map(flatten, found.groups)) or "no groups"
    unknown = "; has not called in the last 90 days" if found.groups_from == "none" else ""
    typer.echo(f"{flatten(found.subject)} ({groups}{unknown})")
    typer.echo(f"  entries  {found.readable.entries:,} of {found.total.entries:,}")
    typer.echo(f"  assets   {found.readable.assets:,} of {found.total.assets:,}")
    if found.items:
        typer.echo("  of these, not all readers may read:")
    for item in found.items:
        typer.echo(f"    {item.kind} {item.id} {flatten(item.name, 60)}: {_names(item.readers, '')}")
    if found.next_cursor is not None:
        remark("there are more: a larger --limit, or --json")


def _names(principals: Sequence[str] | None, unlisted: str) -> str:
    return unlisted if principals is None else ", ".join(map(flatten, principals))
