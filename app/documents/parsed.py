"""The result of parsing a file: its text, and the positions of its pages and headings."""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from app.errors import UnreadableDocument


@dataclass(frozen=True, slots=True)
class PageSpan:
    """Page `number` (from 1) covers `text[start:end]`; the span of a blank page is empty."""

    number: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class HeadingSpan:
    """A heading that begins at `text[start]`; `level` is 1 for the topmost."""

    start: int
    level: int
    title: str


@dataclass(frozen=True, slots=True)
class PartSpan:
    """A separate file in `text[start:end]`, read as the `DocumentFormat` named `format`."""

    start: int
    end: int
    format: str


@dataclass(frozen=True, slots=True)
class TableSpan:
    """A table in `text[start:end]`, a Markdown row a line; `text[start:header_end]` is its header and delimiter row."""

    start: int
    header_end: int
    end: int


MAIL = ("from", "to", "date")
"""What of the headers of an e-mail its chunks have in their metadata."""

HiddenReason = Literal[
    "same_colour", "tiny", "off_page", "transparent", "hidden_run", "hidden_element", "covered", "clipped"
]
"""Why a reader of the original does not see a text: its colour, size, place or opacity, a mark of DOCX or HTML, what
is drawn over it, or the area outside of which nothing is drawn."""


@dataclass(frozen=True, slots=True)
class HiddenSpan:
    """Text in `text[start:end]` that a reader of the original does not see."""

    start: int
    end: int
    reason: HiddenReason


@dataclass(frozen=True, slots=True)
class RecognisedSpan:
    """Text in `text[start:end]` that was recognised on a picture of it (OCR), so that it can have errors."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """A file's normalised text; all offsets are `str` indices into `text`.

    Attributes:
        format: name of the `DocumentFormat` as which it was read.
        text: NFC, line feeds only, no control characters except tab and line feed.
        pages: in order, empty for formats without pages; a slide is a page.
        headings: in order of `start`.
        title: the document's own title, if it has one.
        total_pages: None for formats without pages.
        parts: the members of an archive and the attachments of a mail, in order; empty for other formats.
        tables: in order; they do not overlap.
        hidden: in order; they do not overlap.
        pages_without_text: numbers of pages that show something and have no text, as scanned pages do, of those with a
            picture of text, and of those that were recognised in part, or not read for lack of time; ascending.
        places_without_text: offsets in the text of a file without pages, where it has a picture of text, or a member a
            page, that was not recognised; ascending.
        recognised: in order; they do not overlap.
        encoding: the encoding of a text, as Python names it; None for other formats.
        encoding_guessed: whether nothing declared it.
        removed_controls: control characters of a text, which were removed.
        mail: `from`, `to` and `date` of an e-mail; empty for other formats.
    """

    format: str
    text: str
    pages: tuple[PageSpan, ...] = ()
    headings: tuple[HeadingSpan, ...] = ()
    title: str | None = None
    total_pages: int | None = None
    parts: tuple[PartSpan, ...] = ()
    tables: tuple[TableSpan, ...] = ()
    hidden: tuple[HiddenSpan, ...] = ()
    pages_without_text: tuple[int, ...] = ()
    places_without_text: tuple[int, ...] = ()
    recognised: tuple[RecognisedSpan, ...] = ()
    encoding: str | None = None
    encoding_guessed: bool = False
    removed_controls: int = 0
    mail: Mapping[str, str] = field(default_factory=dict)

    def page_at(self, offset: int) -> int | None:
        """Number of the page that contains `offset`, None for formats without pages."""
        index = bisect_right(self.pages, offset, key=lambda page: page.start) - 1
        return self.pages[index].number if index >= 0 else None

    def is_recognised(self, start: int, end: int) -> bool:
        """Whether a part of `text[start:end]` was recognised on a picture."""
        index = bisect_right(self.recognised, start, key=lambda span: span.end)
        return index < len(self.recognised) and self.recognised[index].start < end


_WALL_TIME = 5
"""Times the CPU time."""


@dataclass(frozen=True, slots=True)
class ParseLimits:
    """Limits on reading one file. The defaults are ten times what large real documents need.

    Attributes:
        seconds: of CPU time.
        memory_bytes: address space of the parsing process; 128 MiB is enough for ordinary files.
        max_pages: of a PDF, or slides of a PPTX; all members of an archive together.
        max_decompressed_bytes: of a ZIP container: DOCX, PPTX, XLSX, or an archive with all its members.
        max_characters: of extracted text.
        max_headings: of a file; all members of an archive together.
        max_tables: of a file; all members of an archive together.
        max_hidden: hidden spans of a file; all members of an archive together.
        structure_seconds: of CPU time, for the structure trees of a PDF; without them if 0.
        picture_seconds: of CPU time, for looking which pictures in a file show text; none are looked at if 0.
        ocr_seconds: for recognising text, in addition to `seconds`.
        ocr_page_seconds: for recognising one page.
        ocr_pages: recognised of one file; all members of an archive together.
        ocr_pixels: of a page that is recognised; larger ones are made smaller.
        ocr_memory_bytes: address space of the models and their libraries, in addition to `memory_bytes`.
        image_bytes: of an image when it is unpacked.
    """

    seconds: float = 60.0
    memory_bytes: int = 1 << 30
    max_pages: int = 5_000
    max_decompressed_bytes: int = 256 << 20
    max_characters: int = 20_000_000
    max_headings: int = 100_000
    max_tables: int = 20_000
    max_hidden: int = 20_000
    structure_seconds: float = 4.0
    picture_seconds: float = 5.0
    ocr_seconds: float = 300.0
    ocr_page_seconds: float = 60.0
    ocr_pages: int = 1_000
    ocr_pixels: int = 4_000_000
    ocr_memory_bytes: int = 640 << 20
    image_bytes: int = 256 << 20

    def require_characters(self, characters: int) -> None:
        """Raise UnreadableDocument if a file has more characters of text."""
        if characters > self.max_characters:
            raise UnreadableDocument(
                f"the file has more than {self.max_characters:,} characters of text, the limit for any file: split it"
            )

    @property
    def wall_seconds(self) -> float:
        """Wall-clock time, which a busy machine takes more of."""
        return _WALL_TIME * self.seconds


def is_fault_of_system(error: Exception) -> bool:
    """Whether the system refused something, or code is missing, for example while it is replaced: no file causes it."""
    return isinstance(error, ImportError) or (isinstance(error, OSError) and error.errno is not None)
