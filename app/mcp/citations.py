"""Where a hit comes from, so that an answer can name its source."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from app.knowledge.search.results import Hit


@dataclass(frozen=True, slots=True)
class Citation:
    """The source of a hit.

    Attributes:
        entry_id: the entry or chunk itself.
        asset_id, asset_name: the document that a chunk was cut from; None for a written entry.
        page, page_end: where it stands, and ends, in a document with pages or slides, from 1.
        char_start, char_end: the chunk's place in the asset's text, as GET /knowledge/assets/{id}/text gives it.
    """

    entry_id: UUID
    asset_id: UUID | None
    asset_name: str | None
    page: int | None
    page_end: int | None
    char_start: int | None
    char_end: int | None

    @property
    def text(self) -> str:
        """The same for people, on one line."""
        if self.asset_id is None:
            return f"entry {self.entry_id}"
        parts = [" ".join((self.asset_name or f"asset {self.asset_id}").split())]
        if self.page is not None:
            more = self.page_end is not None and self.page_end != self.page
            parts.append(f"pages {self.page} to {self.page_end}" if more else f"page {self.page}")
        if self.char_start is not None:
            parts.append(f"characters {self.char_start} to {self.char_end}")
        return ", ".join(parts)


def cite(hit: Hit) -> Citation:
    """The source of a hit."""
    # Only of chunks the service itself has written these numbers.
    found = {name: hit.metadata.get(name) for name in ("page", "page_end", "char_start", "char_end")}
    numbers = {
        name: value if hit.asset_id is not None and type(value) is int else None
        for name, value in found.items()
    }
    return Citation(entry_id=hit.id, asset_id=hit.asset_id, asset_name=hit.asset_name, **numbers)
