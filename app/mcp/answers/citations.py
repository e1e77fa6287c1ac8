"""The source of a hit or an entry, for citations in an answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from app.db.queries.knowledge.entries import Entry
from app.db.queries.search.hits import StoredEntry

LONGEST_NAME = 120
"""Characters of a name or a heading in a citation."""

BETWEEN = " > "
"""What the title of a chunk has between the title of its document and each heading."""


@dataclass(frozen=True, slots=True)
class Citation:
    """The source of a hit.

    Attributes:
        entry_id: the entry or chunk itself.
        asset_id, asset_name: the document that a chunk was cut from; None for a written entry.
        title: the title of the document, else the name of its file; of a written entry, its own title.
        heading: the innermost heading above the chunk.
        page, page_end: the first and last page or slide of the chunk, from 1.
        char_start, char_end: offsets of the chunk in the asset's text (GET /knowledge/assets/{id}/text).
    """

    entry_id: UUID
    asset_id: UUID | None
    asset_name: str | None
    title: str | None
    heading: str | None
    page: int | None
    page_end: int | None
    char_start: int | None
    char_end: int | None

    @property
    def text(self) -> str:
        """The citation for people, on one line."""
        if self.asset_id is None:
            return _shorten(self.title) if self.title else f"entry {self.entry_id}"
        parts = [_shorten(self.title or f"asset {self.asset_id}")]
        if self.page is not None:
            more = self.page_end is not None and self.page_end != self.page
            parts.append(f"pp. {self.page}–{self.page_end}" if more else f"p. {self.page}")
        if self.heading is not None:
            parts.append(_shorten(self.heading))
        if len(parts) == 1 and self.char_start is not None:
            parts.append(f"characters {self.char_start} to {self.char_end}")
        return ", ".join(parts)


def cite(entry: StoredEntry | Entry) -> Citation:
    """Return the source of a hit or an entry."""
    # The service writes these fields in chunks only; in other entries they come from callers.
    place = entry.metadata if entry.asset_id is not None else {}
    numbers = {
        name: value if type(value := place.get(name)) is int else None
        for name in ("page", "page_end", "char_start", "char_end")
    }
    title, heading = entry.title, None
    if entry.asset_id is not None:
        title, heading = _split_title(entry.title, entry.asset_name, place.get("headings"))
    return Citation(entry.id, entry.asset_id, entry.asset_name, title, heading, **numbers)


def _split_title(title: str | None, name: str | None, headings: object) -> tuple[str | None, str | None]:
    """The title of a chunk's document, or else its file's name, and the innermost heading."""
    path: Sequence[object] = headings if isinstance(headings, list) else ()
    heading = path[-1] if path and isinstance(path[-1], str) else None
    if not title or heading is None:
        return title or name, heading
    if title == heading:
        return name, heading
    # A title is the document's and the headings, which may be cut; some documents begin with their own title.
    whole = f"{BETWEEN}{BETWEEN.join(map(str, path))}"
    document = title.removesuffix(whole) if title.endswith(whole) else title.partition(BETWEEN)[0]
    return document, heading


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_NAME else f"{line[: LONGEST_NAME - 1]}…"
