"""`knowledge get`: show an entry, or an uploaded file."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli import fields
from app.cli.calls import call
from app.cli.execution import TenantOption, choose_target, examples, json_option
from app.cli.output.text import make_console, make_printable, make_text, print_json
from app.errors import InvalidInput

if TYPE_CHECKING:
    from app.cli.knowledge import Knowledge


def register(app: typer.Typer) -> None:
    """Add the command `get`."""
    app.command(
        short_help="Show an entry, or an uploaded file.",
        epilog=examples(
            "knowledge get 0198c5a2-6c1e-7d7e-9b3c-0a4f6f2f3b11 --tenant demo",
            "knowledge get incident-12 -t demo --json",
            "knowledge get --asset 0198c5a2-7d1e-7a60-8d0b-5b1f6a2d7c33 -t demo --text > handbook.txt",
        ),
    )(get)


def get(
    entry: fields.EntryId,
    tenant: TenantOption,
    asset: Annotated[bool, typer.Option("--asset", help="The id is that of an uploaded file.")] = False,
    text: Annotated[bool, typer.Option("--text", help="Print only the text.")] = False,
    as_json: Annotated[
        bool, json_option("the entry, as in GET /knowledge/entries/{id}; with --asset the asset")
    ] = False,
) -> None:
    """Show an entry with its fields and its text, also one that searches skip. With --asset, show the state of an
    uploaded file, and with --text its extracted text.
    """
    if as_json and text:
        raise InvalidInput.of("--text", "must be omitted with --json")
    arguments = {"id": entry, "asset": asset, "text": asset and text}
    found = call(choose_target(tenant), "get", arguments, answer, doing="reading")
    if as_json:
        print_json(found)
    elif text:
        _print_text(found["text"] if asset else found["content"])
    else:
        _describe(found)


def _describe(found: Mapping[str, Any]) -> None:
    """Print the fields that are set, and the text."""
    console = make_console()
    for name, value in found.items():
        if name == "content" or value in (None, [], {}, ""):
            continue
        console.print(make_text((f"{name.replace('_', ' ')}: ", "dim"), (_show(value), "")))
    if "content" in found:
        typer.echo()
        _print_text(found["content"])


def _show(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_show, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else str(value)


def _print_text(text: str) -> None:
    """Print a stored text as it is; on a terminal, which it could control, with its control characters visible."""
    typer.echo(make_printable(text) if sys.stdout.isatty() else text)


async def answer(knowledge: Knowledge, arguments: Mapping[str, Any]) -> Any:
    """The entry, the asset, or the asset's text. Raises KnowledgeError."""
    tenant = await knowledge.tenants.find(arguments["tenant"])
    if not arguments["asset"]:
        entry_id = await fields.find_id(knowledge, tenant.id, arguments["id"])
        return await knowledge.entries.read(tenant.id, entry_id)
    asset_id = fields.read_asset_id(arguments["id"])
    if arguments["text"]:
        return {"text": await knowledge.assets.text(tenant.id, asset_id)}
    return await knowledge.assets.get(tenant.id, asset_id)
