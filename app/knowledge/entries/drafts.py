"""Entries as callers write them: typed fields, each of which may be unset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Final
from uuid import UUID

from app.db.queries.knowledge import entries as db
from app.errors import FieldError, InvalidInput
from app.knowledge.entries.entry import MAX_CONTENT, NULLABLE, RULES, content_hash
from app.knowledge.principals import own_list
from app.knowledge.quarantine.flagging import with_flags


class Unset(Enum):
    """The type of `UNSET`, the value of a field that the caller did not send."""

    UNSET = "unset"

    def __repr__(self) -> str:
        return self.name


UNSET: Final = Unset.UNSET


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryDraft:
    """The fields of a new or changed entry. An unset field gets its default in a new entry, and keeps its value in an
    existing one. None clears a field that may be empty, and has the language detected again.
    """

    content: str | Unset = UNSET
    entry_type: str | Unset = UNSET
    title: str | Unset | None = UNSET
    tags: Sequence[str] | Unset = UNSET
    roles: Sequence[str] | Unset = UNSET
    confidence: float | Unset = UNSET
    scope: str | Unset = UNSET
    parent_id: UUID | Unset | None = UNSET
    source_ids: Sequence[UUID] | Unset = UNSET
    metadata: Mapping[str, Any] | Unset = UNSET
    language: str | Unset | None = UNSET
    expires_at: datetime | Unset | None = UNSET
    superseded_by_id: UUID | Unset | None = UNSET
    is_verified: bool | Unset = UNSET
    external_id: str | Unset | None = UNSET
    readers: Sequence[str] | Unset | None = UNSET
    writers: Sequence[str] | Unset | None = UNSET

    def given(self) -> dict[str, Any]:
        """The fields that are set."""
        return {name: value for name in FIELDS if (value := getattr(self, name)) is not UNSET}

    @property
    def restricts(self) -> bool:
        """Whether it changes who may read or change the entry."""
        return self.readers is not UNSET or self.writers is not UNSET

    @property
    def key(self) -> db.EntryKey:
        """The identity of a new entry: its external_id, else the hash of its content; among those with its readers."""
        given = not isinstance(self.readers, Unset)
        readers = None if isinstance(self.readers, Unset) or self.readers is None else tuple(self.readers)
        if isinstance(self.external_id, str):
            return db.EntryKey(self.external_id, b"", readers, given)
        assert isinstance(self.content, str)
        return db.EntryKey(None, content_hash(self.content), readers, given)

    def references(self) -> list[tuple[str, UUID]]:
        """The ids of other entries that the draft contains, each with its field."""
        single = (("parent_id", self.parent_id), ("superseded_by_id", self.superseded_by_id))
        sources = () if isinstance(self.source_ids, Unset) else self.source_ids
        return [(n, i) for n, i in single if isinstance(i, UUID)] + [("source_ids", i) for i in sources]

    def self_reference(self, entry_id: UUID) -> FieldError | None:
        """Return the error if the draft, written to `entry_id`, would refer to itself."""
        for field, reference in self.references():
            if reference == entry_id:
                return FieldError(field, "must be another entry")
        return None


FIELDS: Final = tuple(field.name for field in fields(EntryDraft))

DEFAULTS: Final = EntryDraft(
    entry_type="fact",
    title=None,
    tags=[],
    roles=["all"],
    confidence=1.0,
    scope="global",
    parent_id=None,
    source_ids=[],
    metadata={},
    language=None,
    expires_at=None,
    superseded_by_id=None,
    is_verified=False,
    external_id=None,
    readers=None,
    writers=None,
)
"""What the unset fields of a new entry are; its content has no default, and its language is detected."""


def read_draft(values: Mapping[str, Any]) -> EntryDraft:
    """A draft of these fields. Raises InvalidInput for names that an entry does not have."""
    unknown = [name for name in values if name not in FIELDS]
    if unknown:
        raise InvalidInput([FieldError(str(name), "unknown field") for name in unknown])
    return EntryDraft(**values)


def check_draft(draft: EntryDraft) -> EntryDraft:
    """Validate and normalise the fields that are set. Raises InvalidInput with all bad fields."""
    given = draft.given()
    errors = [
        FieldError(name, message)
        for name, value in given.items()
        for test, message in (RULES[name],)
        if not (value is None and name in NULLABLE) and not test(value)
    ]
    if errors:
        raise InvalidInput(errors)
    for name in ("tags", "roles", "source_ids"):
        if name in given:
            given[name] = list(dict.fromkeys(given[name]))
    for name in ("readers", "writers"):
        if given.get(name) is not None:
            given[name] = own_list(name, given[name])
    if "metadata" in given:  # only the service sets flags
        given["metadata"] = with_flags(given["metadata"], ())
    if given.get("expires_at") is not None:  # Postgres refuses offsets beyond 16 hours
        given["expires_at"] = given["expires_at"].astimezone(UTC)
    return EntryDraft(**given)


def check_new_draft(draft: EntryDraft) -> EntryDraft:
    """Like `check_draft`, for a whole entry. Raises InvalidInput also when there is no content.

    A draft whose external_id is None has none, and leaves the one of an existing entry with its content.
    """
    checked = check_draft(draft)
    if checked.content is UNSET:
        raise InvalidInput.of("content", f"is required, 1 to {MAX_CONTENT} characters")
    return replace(checked, external_id=UNSET) if checked.external_id is None else checked
