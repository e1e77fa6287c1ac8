"""Show entries in lists: excerpts, relationships, and links to other pages of the list."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlencode
from uuid import UUID

from app.contract.entries import Entry, RelatedEntry
from app.contract.fields import Page
from app.contract.vocabulary import Relationship
from app.db.queries.entries import Connection
from app.knowledge.search.answer.snippet import SnippetMaker

LOOKED_AT = 2_000
"""Characters of the text that the excerpt is taken from."""


def excerpt_of(entry: Entry) -> str:
    """The first words as a reader sees them, without marks of Markdown or headings that the title repeats."""
    return SnippetMaker("").make(entry.title, entry.content[:LOOKED_AT], entry.language, (), None).text


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
"""Names of relationships, in the order in which pages show them."""


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
    """The entries by relationship, in the order of RELATIONSHIPS; an entry with several is under the first."""
    found = [(c.relation, Neighbour(c.id, c.title, c.excerpt, c.entry_type)) for c in connections]
    found += [(r.relationship, Neighbour(r.id, r.title, r.content, r.entry_type, r.overlap_count)) for r in related]
    order = list(RELATIONSHIPS)
    found.sort(key=lambda pair: order.index(pair[0]))  # type: ignore[arg-type]  # both name relationships of the table
    first: dict[UUID, tuple[str, Neighbour]] = {}
    for relation, neighbour in found:
        first.setdefault(neighbour.id, (relation, neighbour))
    groups = [(name, [n for r, n in first.values() if r == relation]) for relation, name in RELATIONSHIPS.items()]
    return [(name, group) for name, group in groups if group]


PAGE_SIZE = 25
"""Items per page of a list."""


@dataclass(frozen=True, slots=True)
class PageLinks:
    """The addresses of the first page, if this is another one, and of the next page."""

    first: str | None
    following: str | None


def page_links(address: str, page: Page[Any], cursor: str, given: Mapping[str, str]) -> PageLinks:
    """Build the links of a page; `cursor` is empty for the first page, and `given` are the filters of the list."""
    more = page.next_cursor
    return PageLinks(
        first=_address(address, given) if cursor else None,
        following=_address(address, {**given, "cursor": more}) if more else None,
    )


def _address(address: str, parameters: Mapping[str, str]) -> str:
    return f"{address}?{urlencode(parameters)}" if parameters else address
