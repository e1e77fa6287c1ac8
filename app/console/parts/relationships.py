"""The entries around an entry, each once, under its closest relationship."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from app.db.queries.knowledge.inspection import Connection
from app.knowledge.entries.related import RelatedEntry
from app.knowledge.vocabulary import Relationship

RELATIONSHIPS: Mapping[Relationship | Literal["superseded_by", "supersedes"], str] = {
    "parent": "Part of",
    "superseded_by": "Superseded by",
    "sibling": "Other parts of the same entry",
    "child": "Parts",
    "source": "Derived from",
    "derived": "Source of",
    "tag_overlap": "Same tags",
    "supersedes": "Supersedes",
}
"""In the order in which pages show them."""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """An entry next to another one; `overlap` is the number of tags that they share, if that is why."""

    id: UUID
    title: str | None
    text: str
    entry_type: str
    overlap: int | None = None


def group_neighbours(
    connections: Iterable[Connection], related: Iterable[RelatedEntry]
) -> list[tuple[str, Sequence[Neighbour]]]:
    """The entries by relationship, in the order of RELATIONSHIPS; one that has several is under the first."""
    found = [(c.relation, Neighbour(c.id, c.title, c.excerpt, c.entry_type)) for c in connections]
    found += [
        (r.relationship, Neighbour(e.id, e.title, e.content, e.entry_type, r.overlap_count))
        for r in related
        for e in (r.entry,)
    ]
    order = list(RELATIONSHIPS)
    found.sort(key=lambda pair: order.index(pair[0]))  # type: ignore[arg-type]  # both name relationships of the table
    first: dict[UUID, tuple[str, Neighbour]] = {}
    for relation, neighbour in found:
        first.setdefault(neighbour.id, (relation, neighbour))
    groups = [
        (name, [n for r, n in first.values() if r == relation]) for relation, name in RELATIONSHIPS.items()
    ]
    return [(name, group) for name, group in groups if group]
