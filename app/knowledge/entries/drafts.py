"""Entries that are about to be written: their identity, their references, and merging them into stored ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from app.db.queries.knowledge import entries as db
from app.db.session import TenantSession
from app.errors import FieldError, InvalidInput
from app.knowledge.entries.entry import content_hash
from app.knowledge.languages import detect


@dataclass(frozen=True, slots=True)
class Draft:
    """One entry of a write: its place in the request and its checked, given fields."""

    index: int
    given: Mapping[str, Any]

    @property
    def key(self) -> tuple[str | None, bytes]:
        """The entry's identity: its external_id, else the hash of its content."""
        external_id = self.given.get("external_id")
        return (external_id, b"" if external_id else content_hash(self.given["content"]))

    def references(self) -> list[tuple[str, UUID]]:
        """The ids of other entries that the draft contains, each with its field."""
        single = [
            (n, self.given[n]) for n in ("parent_id", "superseded_by_id") if self.given.get(n) is not None
        ]
        return single + [("source_ids", i) for i in self.given.get("source_ids") or ()]

    def self_reference(self, entry_id: UUID) -> FieldError | None:
        """Return the error if the draft, written to `entry_id`, would refer to itself."""
        for field, reference in self.references():
            if reference == entry_id:
                return FieldError(field, "must be another entry")
        return None


def merge(stored: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Overwrite stored fields with given ones. The language of a changed text is detected unless it is given."""
    wanted = {**stored, **given}
    if wanted["language"] is None or (differs(stored, wanted) and "language" not in given):
        wanted["language"] = detect(wanted["title"], wanted["content"])
    return wanted


def differs(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether the searchable text has changed."""
    return any(wanted[name] != stored[name] for name in ("content", "title"))


def size(values: Mapping[str, Any]) -> int:
    """Count characters as the database does: those of a title count twice."""
    return len(values["content"]) + 2 * len(values.get("title") or "")


def growth(stored: Mapping[str, Any], given: Mapping[str, Any]) -> int:
    """Characters that a change adds to the tenant's text."""
    return max(0, size({**stored, **given}) - size(stored))


async def find_unresolved(session: TenantSession, drafts: Sequence[Draft]) -> list[tuple[Draft, FieldError]]:
    """Find drafts that refer to entries which do not exist in the tenant, each with its first such field."""
    wanted = {i for draft in drafts for _, i in draft.references()}
    missing = await db.find_missing(session, sorted(wanted)) if wanted else set()
    found: list[tuple[Draft, FieldError]] = []
    for draft in drafts:
        field = next((name for name, reference in draft.references() if reference in missing), None)
        if field is not None:
            found.append((draft, FieldError(field, "there is no entry with this id")))
    return found


async def check_references(session: TenantSession, draft: Draft, entry_id: UUID | None = None) -> None:
    """Raise InvalidInput if the draft refers to an entry that does not exist, or to `entry_id` itself."""
    errors = [error for _, error in await find_unresolved(session, [draft])]
    itself = draft.self_reference(entry_id) if entry_id is not None else None
    if itself is not None:
        errors.append(itself)
    if errors:
        raise InvalidInput(errors)
