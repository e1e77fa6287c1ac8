"""Find entries related to an entry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from uuid import UUID

from app.contract.entries import (
    MAX_COUNTED,
    MAX_RELATED,
    Entry,
    RelatedEntry,
    RelatedMetadata,
    RelatedResponse,
)
from app.contract.vocabulary import Relationship
from app.db.database import Database
from app.db.queries import entries as db
from app.errors import InvalidInput, Quarantined
from app.knowledge.quarantine.service import HELD_ENTRY


class RelatedService:
    """Finds the entries related to an entry by its own fields, and those that share tags with it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def related(
        self, tenant_id: UUID, entry_id: UUID, limit: int = 5, *, include_quarantined: bool = False
    ) -> RelatedResponse:
        """Find related entries: parent, siblings (for a chunk, its neighbours), children, sources, derived, tags.

        `parent` is the given entry's parent, `child` an entry whose parent it is, `source` one that it was derived
        from, `derived` one that was derived from it, and `tag_overlap` one that shares tags with it.
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
            relate(found[relation.id], relation.relationship, relation.overlap_count)
            for relation in relations
            if relation.id in found
        ]
        kinds = list(dict.fromkeys(item.relationship for item in results))
        return RelatedResponse(results, RelatedMetadata(relations[0].total if relations else 0, kinds))


def relate(entry: Entry, relationship: Relationship, overlap_count: int | None) -> RelatedEntry:
    """The entry with its relationship to another."""
    return RelatedEntry(
        **{f.name: getattr(entry, f.name) for f in fields(entry)},
        relationship=relationship,
        overlap_count=overlap_count,
    )
