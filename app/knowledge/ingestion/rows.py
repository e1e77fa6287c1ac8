"""What is stored of a parsed file: the rows of its chunks, and what the asset keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app.db.queries.knowledge.assets import Extract
from app.db.queries.knowledge.chunks import ChunkRow
from app.db.rows import new_id
from app.documents.chunking import Chunk
from app.documents.parsed import ParsedDocument
from app.documents.screening.rules import Flag
from app.embeddings.provider import EmbeddingModel
from app.knowledge.entries.entry import text_hash

TITLE_ROOM = 48
"""Tokens of a model's input reserved for the title in each chunk's embedding."""

MAX_HEADING_PATH = 300
"""Characters of the headings in a chunk's title."""


@dataclass(frozen=True, slots=True)
class ChunkSize:
    """Size and overlap of chunks, in tokens of the tenant's model."""

    tokens: int = 350
    overlap: int = 0


def chunk_tokens(size: ChunkSize, model: EmbeddingModel) -> tuple[int, int]:
    """Tokens of a chunk and of its overlap with the next; the model's input must also hold the chunk's title."""
    tokens = max(16, min(size.tokens, model.max_tokens - TITLE_ROOM))
    return tokens, min(size.overlap, tokens // 2)


def make_extract(document: ParsedDocument) -> Extract:
    """What the asset keeps of its parsed file."""
    return Extract(
        title=document.title,
        text=document.text,
        total_pages=document.total_pages,
        outline={
            "headings": [(heading.start, heading.level, heading.title) for heading in document.headings],
            "pages": [(page.start, page.end) for page in document.pages],
            "tables": [(table.start, table.header_end, table.end) for table in document.tables],
        },
        pages_without_text=document.pages_without_text,
    )


def make_chunk_row(
    chunk: Chunk, document: ParsedDocument, given_title: str | None, flags: Sequence[Flag] = ()
) -> ChunkRow:
    """Make the row of a chunk: its title, which begins with the asset's, and its position in the document."""
    title = chunk_title(document.title, chunk.headings, given_title)
    place: dict[str, Any] = {"char_start": chunk.char_start, "char_end": chunk.char_end}
    if chunk.headings:
        place["headings"] = list(chunk.headings)
    if chunk.lead:
        place["header_chars"] = len(chunk.lead)
    if document.is_recognised(chunk.char_start, chunk.char_end):
        place["ocr"] = True
    if chunk.page is not None:
        place |= {"page": chunk.page, "total_pages": document.total_pages or chunk.page}
        if chunk.page_end is not None and chunk.page_end != chunk.page:
            place["page_end"] = chunk.page_end
    return ChunkRow(
        id=new_id(),
        index=chunk.index,
        title=title,
        content=chunk.text,
        place=place,
        text_hash=text_hash(title, chunk.text),
        flags=flags,
    )


def chunk_title(
    document_title: str | None, headings: Sequence[str], given_title: str | None = None
) -> str | None:
    """The title of a chunk: the document's title and the headings above the chunk, without repetition.

    A title that a caller gave replaces that of the document.
    """
    heading = " > ".join(headings)[:MAX_HEADING_PATH]
    if not document_title:
        title = heading or None
    elif not heading or heading == document_title:
        title = document_title
    else:
        repeated = heading.startswith(f"{document_title} > ")
        title = heading if repeated else f"{document_title} > {heading}"
    if not given_title:
        return title
    below = title if title is None or not document_title else title[len(document_title) + 3 :]
    return f"{given_title} > {below}" if below else given_title
