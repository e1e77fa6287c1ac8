"""`knowledge add`: store an entry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli import fields
from app.cli.calls import call
from app.cli.execution import ACTOR, TenantOption, choose_target, examples, json_option
from app.cli.output.text import print_json

if TYPE_CHECKING:
    from app.cli.knowledge import Knowledge
    from app.contract.entries import NewEntry


def register(app: typer.Typer) -> None:
    """Add the command `add`."""
    app.command(
        short_help="Store an entry.",
        epilog=examples(
            'knowledge add "Routes are matched from top to bottom." --tenant demo --title "Route order" --tag routing',
            "cat lesson.txt | knowledge add - -t demo --type lesson --external-id incident-12",
        ),
    )(add)


def add(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The text; `-` reads standard input.")],
    tenant: TenantOption,
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
    as_json: Annotated[bool, json_option("{created, entry}; the entry as in POST /knowledge/entries")] = False,
) -> None:
    """Store an entry. The same external id, or without one the same text, updates the existing entry: fields that
    are not given keep their values.
    """
    target = choose_target(tenant)
    wanted = fields.given_fields(
        content=fields.read_text(text),
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
    arguments = {"fields": wanted}
    found = call(
        target,
        "add",
        arguments,
        answer,
        check=lambda: _read(wanted),
        doing="storing the entry",
        writes=True,
    )
    if as_json:
        print_json(found)
        return
    entry = found["entry"]
    done = "created" if found["created"] else "exists"
    typer.echo(f"{done}: entry {entry['id']}, version {entry['version']}")


async def answer(knowledge: Knowledge, arguments: Mapping[str, Any]) -> Any:
    """Store the entry. Raises KnowledgeError."""
    draft = _read(arguments["fields"])
    tenant = await knowledge.tenants.find(arguments["tenant"])
    entry, created = await knowledge.entries.create(tenant.id, draft, actor=ACTOR)
    return {"created": created, "entry": entry}


def _read(wanted: Mapping[str, Any]) -> NewEntry:
    """The new entry. Raises InvalidInput."""
    from app.contract.entries import NewEntry
    from app.contract.validation import validate

    return validate(NewEntry, wanted)
