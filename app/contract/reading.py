"""Answers of tools for language models about entries and documents."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field

from app.contract.entries import Entry
from app.contract.validation import Described
from app.contract.vocabulary import Flag


@dataclass(frozen=True, slots=True)
class EntryState(Described):
    """The state of a written entry; while it is in quarantine, only its id, version, flags and `quarantined`."""

    id: UUID
    version: int
    quarantined: bool
    flags: Sequence[Flag]
    """Suspicious content."""
    embedding_status: Literal["ready", "pending", "none"] | None = None
    readers: Sequence[str] | None = None
    writers: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class AddedEntry(Described):
    """The outcome of storing an entry."""

    status: Literal["created", "existing"]
    """existing: the entry existed, and its fields were updated."""
    entry: EntryState


@dataclass(frozen=True, slots=True)
class DeletedEntry(Described):
    """A deleted entry."""

    deleted: Annotated[UUID, Field(description="The id that the entry had.")]
    named_by: Sequence[UUID]
    """Entries in use that still name it in `source_ids`, the newest first, at most 20."""


Whole = Annotated[int, Field(description="Characters of the whole text.")]
Next = Annotated[int | None, Field(description="Where the text continues; null at its end.")]


@dataclass(frozen=True, slots=True)
class ReadEntry:
    """An entry, and the part of its text that was read."""

    entry: Annotated[Entry, Field(description="`content` is the part that was read.")]
    citation: Annotated[str, Field(description="The source on one line, for the references of an answer.")]
    flags: Annotated[Sequence[Flag], Field(description="Suspicious content, as in the hits of kb_search.")]
    start: int
    total: Whole
    next_start: Next


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and its place in the text."""

    title: str
    level: Annotated[int, Field(description="1 is the topmost.")]
    start: int


@dataclass(frozen=True, slots=True)
class ReadPart(Described):
    """A part of a document's text."""

    text: str
    start: int
    end: int
    stop: Annotated[int, Field(description="Where the page or section ends; beyond `end` if it was cut.")]
    total: Whole
    next_start: Next
    matches: Annotated[Sequence[Section], Field(description="Headings that match, at most 20; the first was read.")]
    contents: Sequence[Section]
    """The table of contents, at most 300 headings, if the document was read from its beginning."""


@dataclass(frozen=True, slots=True)
class DocumentPart(ReadPart):
    """A part of a document's text."""

    asset_id: UUID
    name: str
    title: str | None
    total_pages: int | None
    pages_without_text: Annotated[
        Sequence[int],
        Field(description="Pages that show something and have no text, or were not read for lack of time."),
    ]
    flags: Annotated[Mapping[str, int], Field(description="Passages of the whole document with each flag.")]
