"""A part of an asset's text with its chunks marked in it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from app.db.queries.knowledge.inspection import ChunkSpan
from app.knowledge.entries.inspection import TextPart


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of text; `begins` are the chunks whose first character in the part it has, `within` all it is of."""

    text: str
    begins: Sequence[ChunkSpan]
    within: Sequence[ChunkSpan]

    @property
    def kind(self) -> str:
        """The class that it is shown with: neighbouring chunks differ, and so does what belongs to several."""
        if not self.within:
            return "gap"
        if len(self.within) > 1:
            return "chunk shared"
        return "chunk odd" if self.within[0].number % 2 else "chunk even"


def mark_chunks(part: TextPart) -> list[Stretch]:
    """Cut the part wherever a chunk begins or ends; the stretches together are the whole part.

    Chunks may overlap, leave gaps, and have positions outside the text.
    """
    end = part.start + len(part.text)
    chunks = [c for c in part.chunks if c.start < c.end and c.start < end and c.end > part.start]
    bounds = {part.start, end}
    for chunk in chunks:
        bounds |= {max(chunk.start, part.start), min(chunk.end, end)}
    places = sorted(bounds)
    stretches: list[Stretch] = []
    open_chunks: list[ChunkSpan] = []
    waiting = sorted(chunks, key=lambda c: (c.start, c.number))
    for first, last in itertools.pairwise(places):
        open_chunks = [c for c in open_chunks if c.end > first]
        begins: list[ChunkSpan] = []
        while waiting and waiting[0].start <= first:
            begins.append(waiting.pop(0))
        open_chunks += begins
        stretches.append(
            Stretch(part.text[first - part.start : last - part.start], begins, tuple(open_chunks))
        )
    return stretches
