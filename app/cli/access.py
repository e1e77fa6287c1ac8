"""`knowledge access`: show and change who may read and change entries, assets and sources."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any
from uuid import UUID

import typer

from app.cli import options
from app.cli.door import Door, open_door
from app.cli.execution import Commands, TenantOption, choose_target, json_option
from app.cli.output.text import flatten, print_item, print_json, print_subject, remark
from app.errors import AssetNotFound, EntryNotFound
from knowledge_client import access
from knowledge_client.models import ItemReaders

Principals = Annotated[
    list[str], typer.Argument(metavar="PRINCIPAL...", help="group:NAME or user:SUB, as tokens have them.")
]
Ids = Annotated[list[UUID] | None, typer.Option("--id", metavar="ID", help="An entry or an asset; may be repeated.")]
Named = Annotated[
    str | None, typer.Option("--principal", metavar="PRINCIPAL", help="Only those whose readers or writers name it.")
]
OfWriters = Annotated[bool, typer.Option("--write", help="Change who may change them, instead of who may read them.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Change nothing, and only count.")]
AsJson = Annotated[bool, json_option("{matched, changed, refused}; refused is a list of {kind, id, reason}")]
MOST_SHOWN = 10

GRANT = """Add groups and users to the readers, or with --write to the writers, of the entries and assets that pass all
filters. A list that is null means all, and stays null. The exit status is 1 if one was refused.
"""
REVOKE = """Remove groups and users from the readers, or with --write from the writers, of the entries and assets that
pass all filters. Items without a list, or with no other principal in it, are refused. The exit status is 1 then.
"""
SET = """Replace the readers, or with --write the writers, of the entries and assets that pass all filters. `all` is for
all readers, or creators, of the tenant. The exit status is 1 if an item was refused.
"""

group = Commands(
    "access",
    "Show and change who may read and change entries and assets.",
    "knowledge access show --subject jane --tenant demo",
    "knowledge access grant group:hr --tag payroll --tenant demo",
)


@group.add(
    "knowledge access show 0198c5a2-6c1e-7d7e-9b3c-0a4f6f2f3b11 --tenant demo",
    "knowledge access show --source handbook --tenant demo",
    "knowledge access show --subject jane --group finance --tenant demo",
    name="show",
    short_help="Show who may read an item, or what a person may read.",
)
def show(
    tenant: TenantOption,
    item: Annotated[UUID | None, typer.Argument(metavar="ID", help="An entry or an asset.")] = None,
    source: Annotated[str | None, typer.Option(metavar="NAME", help="A source.")] = None,
    subject: Annotated[str | None, typer.Option(metavar="SUB", help="A person, by the `sub` of its tokens.")] = None,
    groups: Annotated[
        list[str] | None,
        typer.Option("--group", metavar="NAME", help="The person's groups; default: those of its last token."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", help="Items of a person, 1 to 200.")] = 50,
    as_json: Annotated[
        bool, json_option("the response of GET /admin/access/entries/ID, or for a person of GET /admin/access/subject")
    ] = False,
) -> None:
    """Show who may read and change an item, with the callers of the last 90 days that may; or what a person may read,
    as the database would answer it. At a remote service in a tenant with permissions, set KB_ACCESS=all.
    """
    if sum(given is not None for given in (item, source, subject)) != 1:
        raise typer.BadParameter("give either an ID, --source or --subject", param_hint="ID")

    with open_door(choose_target(tenant), doing="reading permissions") as door:
        if subject is not None:
            person = door.run(access.get_subject_access(subject, groups=groups, limit=limit))
        elif source is not None:
            readers = door.run(access.get_source_readers(source))
        elif item is not None:
            readers = _find(door, item)
    if as_json:
        print_json(door.answer)
    elif subject is not None:
        print_subject(person)
    else:
        print_item(readers)


def _find(door: Door, item: UUID) -> ItemReaders:
    try:
        return door.run(access.get_entry_readers(item))
    except EntryNotFound:
        try:
            return door.run(access.get_asset_readers(item))
        except AssetNotFound:
            raise EntryNotFound("there is no entry or asset with this id") from None


def _changing(description: str, verb: str) -> Callable[..., None]:
    """A command that changes the lists of the items that its filters select: `add`, `remove` or `set` principals."""

    def command(
        principals: Principals,
        tenant: TenantOption,
        given: options.Given,
        ids: Ids = None,
        principal: Named = None,
        write: OfWriters = False,
        dry_run: DryRun = False,
        as_json: AsJson = False,
    ) -> None:
        change = {verb: _read_principals(principals, verb)}
        where = given | ({"ids": ids} if ids else {}) | ({} if principal is None else {"principal": principal})
        if not where.keys() - {"tags_match"}:
            raise typer.BadParameter(
                "one of --id, --tag, --type, --filter and --principal is required", param_hint="--id"
            )
        _change(tenant, {"where": where, "writers" if write else "readers": change, "dry_run": dry_run}, as_json)

    command.__doc__ = description
    return options.takes("search", {"tags", "tags_match", "entry_type", "filter"})(command)


def _read_principals(given: Sequence[str], verb: str) -> Sequence[str] | None:
    """The principals; None for `all` of `set`. Raises BadParameter for a name that is not a principal."""
    from app.contract.fields import PRINCIPAL_RULE, is_principal

    if verb == "set" and given == ["all"]:
        return None
    if not all(map(is_principal, given)):
        more = " (or all, and no other)" if verb == "set" else ""
        raise typer.BadParameter(f"each {PRINCIPAL_RULE}{more}", param_hint="PRINCIPAL")
    return given


def _change(tenant: str, wanted: dict[str, Any], as_json: bool) -> None:
    with open_door(choose_target(tenant), doing="changing permissions") as door:
        done = door.run(access.change_access(**wanted))
    if as_json:
        print_json(done.model_dump(mode="json", include={"matched", "changed", "refused"}))
    else:
        verb = "would be changed" if wanted["dry_run"] else "changed"
        typer.echo(f"{done.matched} found, {done.changed} {verb}, {len(done.refused)} refused")
        for each in done.refused[:MOST_SHOWN]:
            remark(f"refused: {each.kind} {each.id}: {flatten(each.reason)}")
        if len(done.refused) > MOST_SHOWN:
            remark(f"refused: and {len(done.refused) - MOST_SHOWN} more")
    if done.refused:
        raise typer.Exit(1)


group.add(
    "knowledge access grant group:hr --tag payroll --tenant demo",
    "knowledge access grant user:jane --write --id 0198c5a2-6c1e-7d7e-9b3c-0a4f6f2f3b11 --tenant demo",
    name="grant",
    short_help="Let groups and users read entries and assets, or change them.",
)(_changing(GRANT, "add"))
group.add(
    "knowledge access revoke user:jane --principal user:jane --tenant demo",
    name="revoke",
    short_help="Take that from groups and users.",
)(_changing(REVOKE, "remove"))
group.add(
    "knowledge access set group:finance group:hr --tag payroll --tenant demo",
    "knowledge access set all --tag announcements --tenant demo",
    name="set",
    short_help="Set the lists of readers, or of writers.",
)(_changing(SET, "set"))
