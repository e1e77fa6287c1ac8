"""The flags of the chunks of a document."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain

from app.documents.chunking import Chunk
from app.documents.parsed import ParsedDocument
from app.documents.screening.rules import Finding, Flag
from app.documents.screening.screen import FLAGS, find, flags_of_spans, screen


def screen_chunks(document: ParsedDocument, chunks: Sequence[Chunk]) -> list[list[Flag]]:
    """The flags of each chunk, from the whole text: a phrase that is cut in two flags both chunks.

    A chunk also has the flags of its headings, and of the title of the document. Hidden marks without a letter or
    digit, such as those that open a part of a page, are not suspicious.
    """
    hidden = (
        Finding("invisible_text", span.start, span.end)
        for span in document.hidden
        if any(map(str.isalnum, document.text[span.start : span.end]))
    )
    found = flags_of_spans(
        chain(find(document.text), hidden), [(chunk.char_start, chunk.char_end) for chunk in chunks]
    )
    of_title = lru_cache(maxsize=10_000)(screen)
    for chunk, flags in zip(chunks, found, strict=True):
        for title in (document.title, *chunk.headings):
            if title:
                flags.update(of_title(title))
    return [[flag for flag in FLAGS if flag in flags] for flags in found]
