"""Options for the fields of an entry, and for an entry's id."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal
from uuid import UUID

import typer

from app.errors import EntryNotFound, InvalidInput

if TYPE_CHECKING:
    from app.cli.knowledge import Knowledge
    from app.contract.validation import Unset

MAX_TEXT = 400_000
"""Bytes that are read from standard input: more than the longest entry of 100,000 characters has."""

EntryId = Annotated[str, typer.Argument(metavar="ID", help="The id of the entry, or its external id.")]
Title = Annotated[str | None, typer.Option(help="The subject in a few words.")]
Type = Annotated[
    str | None,
    typer.Option("--type", metavar="TYPE", help="fact, summary, template, decision, lesson, temp_note or insight."),
]
Tags = Annotated[list[str] | None, typer.Option("--tag", metavar="TAG", help="A tag; may be repeated.")]
Roles = Annotated[
    list[str] | None,
    typer.Option("--role", metavar="ROLE", help="Audience: pm, dev, qa or all; may be repeated."),
]
Confidence = Annotated[float | None, typer.Option(metavar="X", help="The author's confidence, 0 to 1.")]
Scope = Annotated[Literal["global", "project"] | None, typer.Option(help="Where the entry applies.")]
Parent = Annotated[UUID | None, typer.Option("--parent", metavar="ID", help="The entry of which this one is a part.")]
SourceIds = Annotated[
    list[UUID] | None,
    typer.Option("--source-id", metavar="ID", help="An entry from which this one was derived; may be repeated."),
]
Metadata = Annotated[str | None, typer.Option(metavar="JSON", help="Any other data, as a JSON object.")]
Language = Annotated[str | None, typer.Option(help="The language, such as english; otherwise detected.")]
ExpiresAt = Annotated[
    str | None, typer.Option(metavar="TIME", help="The entry is hidden from this time on; with a time zone.")
]
SupersededBy = Annotated[
    UUID | None, typer.Option("--superseded-by", metavar="ID", help="The entry that replaces this one.")
]
Verified = Annotated[
    bool | None,
    typer.Option("--verified/--not-verified", help="Whether a person has verified it.", show_default=False),
]
ExternalId = Annotated[str | None, typer.Option(help="Your own id of the entry.")]


Readers = Annotated[
    list[str] | None,
    typer.Option(
        "--reader",
        metavar="PRINCIPAL",
        help="Who may read it: group:NAME or user:SUB, may be repeated; all: all readers of the tenant.",
    ),
]
Writers = Annotated[
    list[str] | None,
    typer.Option(
        "--writer",
        metavar="PRINCIPAL",
        help="Who of them may change it, in the same form; all: all creators of the tenant.",
    ),
]


def read_principals(given: list[str] | None) -> Sequence[str] | Unset | None:
    """The list of an option: unset without one, None for `all`."""
    from app.contract.validation import UNSET

    if not given:
        return UNSET
    return None if given == ["all"] else given


def read_pattern(given: str) -> tuple[str, Sequence[str]]:
    """A pattern of paths and its readers. Raises InvalidInput."""
    pattern, mark, principals = given.rpartition("=")
    from app.contract.fields import is_principal

    if not mark or not pattern or not all(map(is_principal, principals.split(","))):
        raise InvalidInput.of(
            "--readers-of",
            "must be PATTERN=PRINCIPAL,PRINCIPAL with principals such as group:NAME and user:SUB",
        )
    return pattern, principals.split(",")


def given_fields(**values: Any) -> dict[str, Any]:
    """The fields that the options set, in JSON. Raises InvalidInput for metadata that is not JSON."""
    found = {name: value for name, value in values.items() if value is not None}
    if "metadata" in found:
        try:
            found["metadata"] = json.loads(found["metadata"])
        except ValueError:
            raise InvalidInput.of("metadata", "must be a JSON object") from None
    for name, value in found.items():
        if name in ("readers", "writers") and value == ["all"]:
            found[name] = None
        elif isinstance(value, UUID):
            found[name] = str(value)
        elif isinstance(value, list):
            found[name] = [str(item) for item in value]
    return found


def read_text(given: str | None) -> str | None:
    """The text of an argument; `-` means standard input. Raises InvalidInput."""
    if given != "-":
        return given
    data = sys.stdin.buffer.read(MAX_TEXT + 1)
    if len(data) > MAX_TEXT:
        raise InvalidInput.of("content", f"standard input has more than {MAX_TEXT} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise InvalidInput.of("content", "standard input must be UTF-8 text") from None


def is_id(given: str) -> bool:
    """Whether an entry is given by its id; otherwise, it is its external id."""
    try:
        UUID(given)
    except ValueError:
        return False
    return True


async def find_id(knowledge: Knowledge, tenant_id: UUID, given: str) -> UUID:
    """The id of an entry that is given by its id or its external id. Raises EntryNotFound."""
    if is_id(given):
        return UUID(given)
    page = await knowledge.entries.list_entries(
        tenant_id, external_id=given, limit=1, include_expired=True, include_quarantined=True
    )
    if not page.items:
        raise EntryNotFound("there is no entry with this id")
    return page.items[0].id


def read_asset_id(given: str) -> UUID:
    """The id of an asset. Raises InvalidInput for a text that is not a UUID."""
    try:
        return UUID(given)
    except ValueError:
        raise InvalidInput.of("ID", "must be the UUID of an asset; knowledge list --assets shows them") from None
