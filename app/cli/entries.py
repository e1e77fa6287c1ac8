"""`knowledge add`, `get`, `list`, `edit` and `delete`: single entries, and uploaded files."""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal
from uuid import UUID

import typer

from app.cli import options
from app.cli.door import open_door
from app.cli.execution import TenantOption, choose_target, confirm, describe_target, json_option, program
from app.cli.output.text import flatten, make_console, make_printable, make_text, print_json, print_table, remark
from app.errors import InvalidInput, NotFound
from knowledge_client import assets, entries
from knowledge_client.assets import list_assets
from knowledge_client.entries import list_entries
from knowledge_client.models import Asset, Entry

EMPTY: Mapping[str, Any] = {
    "title": None,
    "tags": [],
    "parent": None,
    "source-ids": [],
    "metadata": {},
    "language": None,
    "expires-at": None,
    "superseded-by": None,
    "external-id": None,
}
"""What `--clear` makes of each field; a cleared language is detected again."""
NAMES = {"parent": "parent_id", "superseded-by": "superseded_by_id"}


@program.add(
    'knowledge add "Routes are matched from top to bottom." --tenant demo --title "Route order" --tag routing',
    "cat lesson.txt | knowledge add - -t demo --type lesson --external-id incident-12",
)
@options.takes("entry", without={"content"})
def add(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The text; `-` reads standard input.")],
    tenant: TenantOption,
    given: options.Given,
    as_json: Annotated[bool, json_option("{created, entry}; the entry as in POST /knowledge/entries")] = False,
) -> None:
    """Store an entry. The same external id, or without one the same text, updates the existing entry: fields that
    are not given keep their values.
    """
    target = choose_target(tenant)
    content = options.read_text(text)
    with open_door(target, doing="storing the entry") as door:
        entry = door.run(entries.create_entry(content, **given))
    created = door.status == 201
    if as_json:
        print_json({"created": created, "entry": door.read_answer()})
    else:
        typer.echo(f"{'created' if created else 'exists'}: entry {entry.id}, version {entry.version}")


@program.add(
    "knowledge get 0198c5a2-6c1e-7d7e-9b3c-0a4f6f2f3b11 --tenant demo",
    "knowledge get incident-12 -t demo --json",
    "knowledge get --asset 0198c5a2-7d1e-7a60-8d0b-5b1f6a2d7c33 -t demo --text > handbook.txt",
)
def get(
    entry: options.EntryId,
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
    with open_door(choose_target(tenant), doing="reading") as door:
        if not asset:
            content = door.run(entries.get_entry(options.find_entry_id(door, entry))).content
        elif text:
            content = door.run(assets.get_asset_text(options.read_asset_id(entry)))
        else:
            door.run(assets.get_asset(options.read_asset_id(entry)))
    if as_json:
        print_json(door.answer)
    elif text:
        _print_text(content)
    else:
        _describe(door.read_answer())


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


@program.add(
    "knowledge list --tenant demo --tag routing --limit 20",
    "knowledge list -t demo --type decision --sort -updated_at",
    "knowledge list -t demo --assets --status failed",
    name="list",
)
def list_items(
    tenant: TenantOption,
    assets: Annotated[bool, typer.Option("--assets", help="List uploaded files.")] = False,
    entry_type: Annotated[str | None, typer.Option("--type", metavar="TYPE", help="Only entries of this type.")] = None,
    tag: Annotated[str | None, typer.Option(metavar="TAG", help="Only entries with this tag.")] = None,
    asset: Annotated[UUID | None, typer.Option(metavar="ID", help="Only chunks of this file.")] = None,
    status: Annotated[
        Literal["pending", "processing", "indexed", "failed"] | None, typer.Option(help="Only files in this state.")
    ] = None,
    expired: Annotated[bool, typer.Option("--include-expired", help="Include expired entries.")] = False,
    quarantined: Annotated[bool, typer.Option("--include-quarantined", help="Include entries in quarantine.")] = False,
    sort: Annotated[
        str | None, typer.Option(metavar="ORDER", help="Such as -updated_at or title; default: newest first.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", help="Maximum number of items, 1 to 200.")] = 50,
    cursor: Annotated[str | None, typer.Option(metavar="CURSOR", help="Continue a list where it ended.")] = None,
    as_json: Annotated[
        bool, json_option("{items, next_cursor}, as in GET /knowledge/entries, or with --assets of assets")
    ] = False,
) -> None:
    """List entries, by default newest first, also superseded ones; or with --assets the uploaded files."""
    target = choose_target(tenant)
    page: dict[str, Any] = {"limit": limit, "cursor": cursor, "sort": sort}
    chosen: dict[str, Any] = {"entry_type": entry_type, "tag": tag, "asset_id": asset}
    flags: dict[str, Any] = {"include_expired": expired, "include_quarantined": quarantined}
    if assets and (any(chosen.values()) or any(flags.values())):
        raise InvalidInput.of("--assets", "allows only --status, --sort, --limit and --cursor")
    if not assets and status is not None:
        raise InvalidInput.of("--status", "is allowed with --assets only")
    with open_door(target, doing="reading the list") as door:
        if assets:
            files = door.run(list_assets(**page, status=status))
            table, following = _show_assets(files.items), files.next_cursor
        else:
            found = door.run(list_entries(**page, **chosen, **flags))
            table, following = _show_entries(found.items), found.next_cursor
    if as_json:
        print_json(door.answer)
        return
    print_table(*table)
    if following is not None:
        remark(f"more: the same command with --cursor {following}")


def _show_entries(items: Sequence[Entry]) -> tuple[list[str], list[list[object]]]:
    rows: list[list[object]] = [
        [e.id, e.entry_type, f"{e.updated_at:%Y-%m-%dT%H:%M}", " ".join(e.tags), flatten(e.title or e.content, 60)]
        for e in items
    ]
    return ["id", "type", "changed", "tags", "text"], rows


def _show_assets(items: Sequence[Asset]) -> tuple[list[str], list[list[object]]]:
    rows: list[list[object]] = [
        [a.id, a.status, f"{a.updated_at:%Y-%m-%dT%H:%M}", a.chunks, flatten(a.external_id or a.name, 60)]
        for a in items
    ]
    return ["id", "status", "changed", "chunks", "file"], rows


@program.add(
    "knowledge edit 0198c5a2-6c1e-7d7e-9b3c-0a4f6f2f3b11 -t demo --tag routing --tag vercel",
    "cat lesson.txt | knowledge edit incident-12 -t demo --content - --if-version 3",
    "knowledge edit incident-12 -t demo --clear expires-at --verified",
)
@options.takes("entry")
def edit(
    entry: options.EntryId,
    tenant: TenantOption,
    given: options.Given,
    clear: Annotated[
        list[str] | None, typer.Option(metavar="FIELD", help=f"Empty a field: {', '.join(EMPTY)}; may be repeated.")
    ] = None,
    if_version: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Change the entry only if it still has this version.")
    ] = None,
    as_json: Annotated[bool, json_option("the entry, as in PATCH /knowledge/entries/{id}")] = False,
) -> None:
    """Change fields of an entry; fields that are not given keep their values. Tags, roles, sources and metadata are
    replaced as a whole.
    """
    target = choose_target(tenant)
    if "content" in given:
        given["content"] = options.read_text(given["content"])
    _clear(given, clear or [])
    if not given:
        raise InvalidInput.of("options", "name at least one field to change")
    with open_door(target, doing="changing the entry") as door:
        entry_id = options.find_entry_id(door, entry)
        changed = door.run(entries.change_entry(entry_id, if_version=if_version, **given))
    if as_json:
        print_json(door.answer)
    else:
        typer.echo(f"changed: entry {changed.id}, version {changed.version}")


def _clear(given: dict[str, Any], names: list[str]) -> None:
    """Empty the fields. Raises InvalidInput for others, and for a field that is also given."""
    for name in names:
        if name not in EMPTY:
            raise InvalidInput.of("--clear", f"must be one of {', '.join(EMPTY)}")
        field = NAMES.get(name, name.replace("-", "_"))
        if field in given:
            raise InvalidInput.of("--clear", f"{name} is also given")
        given[field] = EMPTY[name]


@program.add(
    "knowledge delete 0198c5a2-6c1e-7d7e-9b3c-0a4f6f2f3b11 --tenant demo --yes",
    "knowledge delete --asset 0198c5a2-7d1e-7a60-8d0b-5b1f6a2d7c33 -t demo",
)
def delete(
    ids: Annotated[
        list[str], typer.Argument(metavar="ID...", help="Ids or external ids of entries, or with --asset ids of files.")
    ],
    tenant: TenantOption,
    asset: Annotated[
        bool, typer.Option("--asset", help="The ids are those of uploaded files; their chunks are deleted, too.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    as_json: Annotated[bool, json_option("{deleted, missing}: lists of the ids")] = False,
) -> None:
    """Delete entries or uploaded files. `knowledge erase` also removes their traces in records.

    The exit status is 1 if one of them does not exist.
    """
    target = choose_target(tenant)
    confirm(f"Delete {', '.join(ids)} from {describe_target(target)}?", yes=yes)
    deleted: list[str] = []
    missing: list[str] = []
    with open_door(target, doing="deleting") as door:
        for given in ids:
            try:
                item_id = options.read_asset_id(given) if asset else options.find_entry_id(door, given)
                door.run(assets.delete_asset(item_id) if asset else entries.delete_entry(item_id))
            except NotFound:
                missing.append(given)
            else:
                deleted.append(str(item_id))
    if as_json:
        print_json({"deleted": deleted, "missing": missing})
    else:
        typer.echo(f"{len(deleted)} deleted")
        for each in missing:
            remark(f"there is no {'asset' if asset else 'entry'} {each}")
    if missing:
        raise typer.Exit(1)
