"""`knowledge quarantine`: list and release entries that searches do not find because of their flags."""

import contextlib
from typing import Annotated
from uuid import UUID

import typer

from app.cli.door import Door, open_door
from app.cli.execution import Commands, TenantOption, choose_target, json_option
from app.cli.output.text import flatten, print_json, print_table, remark
from app.errors import NotFound
from knowledge_client import assets, entries, oversight

Ids = Annotated[list[UUID], typer.Argument(metavar="ID...", help="Ids of entries, or with --asset of assets.")]

group = Commands(
    "quarantine", "List and release entries with suspicious content.", "knowledge quarantine list --tenant demo"
)


@group.add("knowledge quarantine list --tenant demo --limit 100", name="list")
def list_quarantined(
    tenant: TenantOption,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", help="Maximum number of entries, 1 to 200.")] = 50,
    as_json: Annotated[bool, json_option("a list of entries, as in GET /admin/quarantine")] = False,
) -> None:
    """List the newest entries and chunks that searches do not find because of their flags."""
    with open_door(choose_target(tenant), doing="reading the quarantine", platform=True) as door:
        found = door.run(oversight.list_quarantined(limit=limit)).items
    if as_json:
        print_json(door.read_answer()["items"])
        return
    rows = [
        [
            e.id,
            ", ".join(e.metadata.get("flags", ())),
            flatten(e.asset_name or "", 40),
            flatten(e.title or e.content, 60),
        ]
        for e in found
    ]
    print_table(["id", "flags", "asset", "text"], rows)


@group.add(
    "knowledge quarantine release 0198c5a2-6c1e-7d7e-9b3c-0a4f6f2f3b11 --tenant demo",
    "knowledge quarantine release --asset 0198c5a2-6c1e-7d7e-9b3c-0a4f6f2f3b11 --tenant demo",
    name="release",
)
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
    wanted, other = ("asset", "entry") if asset else ("entry", "asset")
    with open_door(choose_target(tenant), doing="releasing entries") as door:
        released = door.run(oversight.release(asset_ids=ids) if asset else oversight.release(entry_ids=ids))
        left = [each for each in ids if each not in released]
        wrong = [each for each in left if not _exists(door, wanted, each)]
        misnamed = {each for each in wrong if _exists(door, other, each)}
    if as_json:
        print_json(released)
    else:
        typer.echo(f"{len(released)} released")
    for each in wrong:
        if each not in misnamed:
            remark(f"there is no {wanted} {each}")
        elif asset:
            remark(f"{each} is an entry: to release it, leave out --asset")
        else:
            remark(f"{each} is an asset: to release its chunks, add --asset")
    if wrong:
        raise typer.Exit(1)


def _exists(door: Door, kind: str, item: UUID) -> bool:
    with contextlib.suppress(NotFound):
        door.run(assets.get_asset(item) if kind == "asset" else entries.get_entry(item))
        return True
    return False
