"""Entries around an entry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any
from uuid import UUID

from app.db.database import Database
from app.db.queries.knowledge import entries as db
from app.db.queries.knowledge.entries import Entry
from app.errors import InvalidInput

MAX_RELATED = 20


@dataclass(frozen=True, slots=True)
class RelatedEntry:
    """An entry and how it is related.

    `parent`, `sibling`, `source` (it was made from that one), `derived` (that one was made from it), or `tag_overlap`,
    with the number of shared tags.
    """

    entry: Entry
    relationship: str
    overlap_count: int | None


class RelatedService:
    """Finds the parent, the siblings, what an entry was made from and what was made from it, and shared tags."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def related(self, tenant_id: UUID, entry_id: UUID, limit: int = 5) -> Sequence[RelatedEntry]:
        """The parent first, then siblings (a chunk's neighbours), then sources in the entry's own order, then entries
        derived from it, the newest first, then entries sharing two or more tags; each under the first that fits.

        An unknown id has no relations. Raises InvalidInput for a limit outside 1 to 20.
        """
        if not 1 <= limit <= MAX_RELATED:
            raise InvalidInput.of("limit", f"must be between 1 and {MAX_RELATED}")
        async with self._database.tenant_session(tenant_id) as session:
            relations = await db.related_entries(session, entry_id, limit)
            found = await db.fetch_entries(session, [relation.id for relation in relations])
        return [
            RelatedEntry(found[relation.id], relation.relationship, relation.overlap_count)
            for relation in relations
            if relation.id in found
        ]


def describe_related(found: Sequence[RelatedEntry]) -> dict[str, Any]:
    """Related entries as every way in answers them: each entry with its relationship, and which kinds there are."""
    results = [
        {
            **{f.name: getattr(item.entry, f.name) for f in fields(item.entry)},
            "relationship": item.relationship,
            "overlap_count": item.overlap_count,
        }
        for item in found
    ]
    kinds = list(dict.fromkeys(item.relationship for item in found))
    return {"results": results, "metadata": {"total": len(results), "relationship_types": kinds}}
