"""The source of a hit, for citations in an answer."""

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
        page, page_end: the first and last page or slide of the chunk, from 1.
        char_start, char_end: offsets of the chunk in the asset's text (GET /knowledge/assets/{id}/text).
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
        """The citation for people, on one line."""
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
    """Return the source of a hit."""
    # These numbers are written by the service in chunks only; in other entries they come from callers.
    found = {name: hit.metadata.get(name) for name in ("page", "page_end", "char_start", "char_end")}
    numbers = {
        name: value if hit.asset_id is not None and type(value) is int else None
        for name, value in found.items()
    }
    return Citation(entry_id=hit.id, asset_id=hit.asset_id, asset_name=hit.asset_name, **numbers)
