"""`knowledge access`: show and change who may read and change entries, assets and sources."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from app.cli import query
from app.cli.calls import open_knowledge
from app.cli.execution import (
    ACTOR,
    Target,
    TenantOption,
    choose_target,
    command_group,
    examples,
    json_option,
    run_async,
)
from app.cli.output.tables import print_item, print_subject
from app.cli.output.text import flatten, print_json, remark
from app.errors import AssetNotFound, EntryNotFound

if TYPE_CHECKING:
    from app.cli.knowledge import Knowledge
    from app.contract.access import (
        AccessPatch,
        AccessSelection,
        ChangedAccess,
        ItemReaders,
        ListChange,
        SubjectAccess,
    )

Principals = Annotated[
    list[str], typer.Argument(metavar="PRINCIPAL...", help="group:NAME or user:SUB, as tokens have them.")
]
Ids = Annotated[
    list[UUID] | None,
    typer.Option("--id", metavar="ID", help="An entry or an asset; may be repeated."),
]
Named = Annotated[
    str | None,
    typer.Option("--principal", metavar="PRINCIPAL", help="Only those whose readers or writers name it."),
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


def register(app: typer.Typer) -> None:
    """Add the commands `access show`, `grant`, `revoke` and `set`."""
    group = command_group(
        "Show and change who may read and change entries and assets.",
        "knowledge access show --subject jane --tenant demo",
        "knowledge access grant group:hr --tag payroll --tenant demo",
    )
    group.command(
        "show",
        short_help="Show who may read an item, or what a person may read.",
        epilog=examples(
            "knowledge access show 0198c5a2-6c1e-7d7e-9b3c-0a4f6f2f3b11 --tenant demo",
            "knowledge access show --source handbook --tenant demo",
            "knowledge access show --subject jane --group finance --tenant demo",
        ),
    )(show)
    group.command(
        "grant",
        short_help="Let groups and users read entries and assets, or change them.",
        epilog=examples(
            "knowledge access grant group:hr --tag payroll --tenant demo",
            "knowledge access grant user:jane --write --id 0198c5a2-6c1e-7d7e-9b3c-0a4f6f2f3b11 --tenant demo",
        ),
    )(_changing(GRANT, _add))
    group.command(
        "revoke",
        short_help="Take that from groups and users.",
        epilog=examples("knowledge access revoke user:jane --principal user:jane --tenant demo"),
    )(_changing(REVOKE, _remove))
    group.command(
        "set",
        short_help="Set the lists of readers, or of writers.",
        epilog=examples(
            "knowledge access set group:finance group:hr --tag payroll --tenant demo",
            "knowledge access set all --tag announcements --tenant demo",
        ),
    )(_changing(SET, _set))
    app.add_typer(group, name="access")


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
        bool,
        json_option("the response of GET /admin/access/entries/ID, or for a person of GET /admin/access/subject"),
    ] = False,
) -> None:
    """Show who may read and change an item, with the callers of the last 90 days that may; or what a person may read,
    as the database would answer it. At a remote service in a tenant with permissions, set KB_ACCESS=all.
    """
    if sum(given is not None for given in (item, source, subject)) != 1:
        raise typer.BadParameter("give either an ID, --source or --subject", param_hint="ID")
    target = choose_target(tenant)
    if subject is not None:
        found = run_async(_what(target, subject, groups, limit), doing="reading permissions")
        if as_json:
            print_json(asdict(found))
        else:
            print_subject(found)
        return
    readers = run_async(_who(target, item, source), doing="reading permissions")
    if as_json:
        print_json(asdict(readers))
    else:
        print_item(readers)


def _changing(description: str, make: Callable[[list[str]], ListChange]) -> Callable[..., None]:
    """A command that makes of its principals a change of the lists that its filters select."""

    def command(
        principals: Principals,
        tenant: TenantOption,
        ids: Ids = None,
        tags: query.Tags = None,
        all_tags: query.AllTags = False,
        entry_types: query.EntryTypes = None,
        condition: query.Condition = None,
        principal: Named = None,
        write: OfWriters = False,
        dry_run: DryRun = False,
        as_json: AsJson = False,
    ) -> None:
        from app.contract.access import AccessPatch

        change = make(principals)
        where = _selection(ids, tags, all_tags, entry_types, condition, principal)
        readers, writers = (None, change) if write else (change, None)
        patch = AccessPatch(where=where, readers=readers, writers=writers, dry_run=dry_run)
        _change(tenant, patch, as_json)

    command.__doc__ = description
    return command


def _add(principals: list[str]) -> ListChange:
    from app.contract.access import ListChange

    _require_principals(principals)
    return ListChange(add=principals)


def _remove(principals: list[str]) -> ListChange:
    from app.contract.access import ListChange

    _require_principals(principals)
    return ListChange(remove=principals)


def _set(principals: list[str]) -> ListChange:
    from app.contract.access import ListChange

    given = None if principals == ["all"] else principals
    _require_principals(given or (), more=" (or all, and no other)")
    return ListChange(set=given)


def _require_principals(given: Sequence[str], more: str = "") -> None:
    """Raise BadParameter for a name that is not a principal."""
    from app.contract.fields import PRINCIPAL_RULE, is_principal

    if not all(map(is_principal, given)):
        raise typer.BadParameter(f"each {PRINCIPAL_RULE}{more}", param_hint="PRINCIPAL")


def _selection(
    ids: list[UUID] | None,
    tags: list[str] | None,
    all_tags: bool,
    entry_types: list[str] | None,
    condition: str | None,
    principal: str | None,
) -> AccessSelection:
    from app.contract.access import AccessSelection

    if not (ids or tags or entry_types or condition is not None or principal is not None):
        raise typer.BadParameter("one of --id, --tag, --type, --filter and --principal is required", param_hint="--id")
    return AccessSelection(
        ids=ids or None,
        tags=tags or None,
        tags_match="all" if all_tags else "any",
        entry_type=entry_types or None,  # type: ignore[arg-type]  # checked by AccessSelection
        filter=query.read_condition(condition),
        principal=principal,
    )


def _change(tenant: str, patch: AccessPatch, as_json: bool) -> None:
    pages = run_async(_change_pages(choose_target(tenant), patch), doing="changing permissions")
    matched, changed = sum(p.matched for p in pages), sum(p.changed for p in pages)
    refused = [each for page in pages for each in page.refused]
    if as_json:
        print_json({"matched": matched, "changed": changed, "refused": [asdict(each) for each in refused]})
    else:
        verb = "would be changed" if patch.dry_run else "changed"
        typer.echo(f"{matched} found, {changed} {verb}, {len(refused)} refused")
        for each in refused[:MOST_SHOWN]:
            remark(f"refused: {each.kind} {each.id}: {flatten(each.reason)}")
        if len(refused) > MOST_SHOWN:
            remark(f"refused: and {len(refused) - MOST_SHOWN} more")
    if refused:
        raise typer.Exit(1)


async def _change_pages(target: Target, patch: AccessPatch) -> list[ChangedAccess]:
    pages: list[ChangedAccess] = []
    async with open_knowledge(target) as (knowledge, tenant_id):
        while not pages or pages[-1].next_cursor is not None:
            following = replace(patch, cursor=pages[-1].next_cursor) if pages else patch
            pages.append(await knowledge.access.change(tenant_id, following, actor=ACTOR))
    return pages


async def _who(target: Target, item: UUID | None, source: str | None) -> ItemReaders:
    async with open_knowledge(target) as (knowledge, tenant_id):
        if source is not None:
            return await knowledge.access.overview.who(tenant_id, "source", source, reader=ACTOR)
        assert item is not None
        return await _find(knowledge, tenant_id, item)


async def _find(knowledge: Knowledge, tenant_id: UUID, item: UUID) -> ItemReaders:
    try:
        return await knowledge.access.overview.who(tenant_id, "entry", item, reader=ACTOR)
    except EntryNotFound:
        try:
            return await knowledge.access.overview.who(tenant_id, "asset", item, reader=ACTOR)
        except AssetNotFound:
            raise EntryNotFound("there is no entry or asset with this id") from None


async def _what(target: Target, subject: str, groups: Sequence[str] | None, limit: int) -> SubjectAccess:
    async with open_knowledge(target) as (knowledge, tenant_id):
        return await knowledge.access.overview.what(tenant_id, subject, groups or None, limit=limit, reader=ACTOR)
