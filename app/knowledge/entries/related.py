"""Entries related to an entry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, cast
from uuid import UUID

from app.contract.vocabulary import Relationship
from app.db.database import Database
from app.db.queries.knowledge import entries as db
from app.db.queries.knowledge.entries import Entry
from app.errors import InvalidInput, Quarantined
from app.knowledge.quarantine.service import HELD_ENTRY

MAX_RELATED = 20
MAX_COUNTED = 1_000
"""Maximum number of related entries of one kind that are counted."""


@dataclass(frozen=True, slots=True)
class RelatedEntry:
    """A related entry with its relationship.

    The relationship is `parent`, `sibling`, `child` (its parent is the given entry), `source` (the given entry was
    derived from this one), `derived` (this one was derived from the given entry), or `tag_overlap`, with the number of
    shared tags.
    """

    entry: Entry
    relationship: Relationship
    overlap_count: int | None


@dataclass(frozen=True, slots=True)
class Related:
    """The first related entries, and the number of all: of each kind, at most 1,000 are counted."""

    results: Sequence[RelatedEntry]
    total: int

    def __iter__(self) -> Iterator[RelatedEntry]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)


class RelatedService:
    """Finds the entries related to an entry by its own fields, and those that share tags with it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def related(
        self, tenant_id: UUID, entry_id: UUID, limit: int = 5, *, include_quarantined: bool = False
    ) -> Related:
        """Find related entries: parent, siblings (for a chunk, its neighbours), children, sources, derived, tags.

        The groups come in this order: children oldest first, sources as the entry lists them, derived entries newest
        first, then entries that share two or more tags. Each entry appears once, under its first relationship. An
        unknown id has no related entries. Raises InvalidInput for a limit outside 1 to 20, and Quarantined for a
        quarantined entry without `include_quarantined`.
        """
        if not 1 <= limit <= MAX_RELATED:
            raise InvalidInput.of("limit", f"must be between 1 and {MAX_RELATED}")

        async def read() -> tuple[Sequence[db.Relation], Mapping[UUID, Entry]]:
            async with self._database.read_session(tenant_id) as session:
                relations = await db.related_entries(session, entry_id, limit, MAX_COUNTED)
                ids = [entry_id, *(relation.id for relation in relations)]
                return relations, await db.fetch_entries(session, ids)

        relations, found = await self._database.reading(tenant_id, read)
        if not include_quarantined and entry_id in found and found[entry_id].quarantined:
            raise Quarantined(HELD_ENTRY)
        results = [
            RelatedEntry(
                found[relation.id], cast("Relationship", relation.relationship), relation.overlap_count
            )
            for relation in relations
            if relation.id in found
        ]
        return Related(results, relations[0].total if relations else 0)


def describe_related(found: Related) -> dict[str, Any]:
    """The response of REST and MCP: each entry with its relationship, and the kinds of relationship found."""
    results = [
        {
            **{f.name: getattr(item.entry, f.name) for f in fields(item.entry)},
            "relationship": item.relationship,
            "overlap_count": item.overlap_count,
        }
        for item in found
    ]
    kinds = list(dict.fromkeys(item.relationship for item in found))
    return {"results": results, "metadata": {"total": found.total, "relationship_types": kinds}}
