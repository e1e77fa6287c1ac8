"""`knowledge edit`: change an entry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli import fields
from app.cli.calls import call
from app.cli.execution import ACTOR, TenantOption, choose_target, examples, json_option
from app.cli.output.text import print_json
from app.errors import InvalidInput

if TYPE_CHECKING:
    from app.cli.knowledge import Knowledge
    from app.contract.entries import EntryDraft

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


def register(app: typer.Typer) -> None:
    """Add the command `edit`."""
    app.command(
        short_help="Change fields of an entry.",
        epilog=examples(
            "knowledge edit 0198c5a2-6c1e-7d7e-9b3c-0a4f6f2f3b11 -t demo --tag routing --tag vercel",
            "cat lesson.txt | knowledge edit incident-12 -t demo --content - --if-version 3",
            "knowledge edit incident-12 -t demo --clear expires-at --verified",
        ),
    )(edit)


def edit(
    entry: fields.EntryId,
    tenant: TenantOption,
    content: Annotated[str | None, typer.Option(metavar="TEXT", help="The new text; `-` reads standard input.")] = None,
    title: fields.Title = None,
    entry_type: fields.Type = None,
    tags: fields.Tags = None,
    roles: fields.Roles = None,
    confidence: fields.Confidence = None,
    scope: fields.Scope = None,
    parent_id: fields.Parent = None,
    source_ids: fields.SourceIds = None,
    metadata: fields.Metadata = None,
    language: fields.Language = None,
    expires_at: fields.ExpiresAt = None,
    superseded_by_id: fields.SupersededBy = None,
    is_verified: fields.Verified = None,
    external_id: fields.ExternalId = None,
    readers: fields.Readers = None,
    writers: fields.Writers = None,
    clear: Annotated[
        list[str] | None,
        typer.Option(metavar="FIELD", help=f"Empty a field: {', '.join(EMPTY)}; may be repeated."),
    ] = None,
    if_version: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="Change the entry only if it still has this version."),
    ] = None,
    as_json: Annotated[bool, json_option("the entry, as in PATCH /knowledge/entries/{id}")] = False,
) -> None:
    """Change fields of an entry; fields that are not given keep their values. Tags, roles, sources and metadata are
    replaced as a whole.
    """
    target = choose_target(tenant)
    wanted = fields.given_fields(
        content=fields.read_text(content),
        title=title,
        entry_type=entry_type,
        tags=tags,
        roles=roles,
        confidence=confidence,
        scope=scope,
        parent_id=parent_id,
        source_ids=source_ids,
        metadata=metadata,
        language=language,
        expires_at=expires_at,
        superseded_by_id=superseded_by_id,
        is_verified=is_verified,
        external_id=external_id,
        readers=readers,
        writers=writers,
    )
    _clear(wanted, clear or [])
    if not wanted:
        raise InvalidInput.of("options", "name at least one field to change")
    arguments = {"entry": entry, "fields": wanted, "if_version": if_version}
    changed = call(
        target,
        "edit",
        arguments,
        answer,
        check=lambda: _read(wanted),
        doing="changing the entry",
        writes=True,
    )
    if as_json:
        print_json(changed)
    else:
        typer.echo(f"changed: entry {changed['id']}, version {changed['version']}")


def _clear(wanted: dict[str, Any], names: list[str]) -> None:
    """Empty the fields. Raises InvalidInput for others, and for a field that is also given."""
    for name in names:
        if name not in EMPTY:
            raise InvalidInput.of("--clear", f"must be one of {', '.join(EMPTY)}")
        field = NAMES.get(name, name.replace("-", "_"))
        if field in wanted:
            raise InvalidInput.of("--clear", f"{name} is also given")
        wanted[field] = EMPTY[name]


async def answer(knowledge: Knowledge, arguments: Mapping[str, Any]) -> Any:
    """Change the entry. Raises KnowledgeError."""
    draft = _read(arguments["fields"])
    tenant = await knowledge.tenants.find(arguments["tenant"])
    entry_id = await fields.find_id(knowledge, tenant.id, arguments["entry"])
    return await knowledge.entries.change(tenant.id, entry_id, draft, if_version=arguments["if_version"], actor=ACTOR)


def _read(wanted: Mapping[str, Any]) -> EntryDraft:
    """The draft of a change. Raises InvalidInput."""
    from app.contract.entries import EntryDraft
    from app.contract.validation import validate

    return validate(EntryDraft, wanted)
