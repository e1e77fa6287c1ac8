"""Which kinds of file are read, and how each is recognised from its bytes.

A further kind is one module with `parse(data, limits) -> ParsedDocument` and one row in `FORMATS`.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePath

from app.documents.text import decode_text, marked_encoding
from app.errors import InvalidInput, UnreadableDocument, UnsupportedMediaType

_HEAD = 8_192
_TEXT_CONTROLS = frozenset(b"\t\n\r\x0b\x0c\x1b\x08")
_HTML_START = re.compile(r"(?:\s|<!--.*?-->|<\?xml[^>]*>)*<(?:!doctype\s+html|html)\b", re.I | re.S)
_HTML_TAG = re.compile(r"<(?:!--|!doctype|[a-z][a-z0-9]*[\s/>])", re.I)
_MARKDOWN_HEADING = re.compile(r"^#{1,6} \S", re.M)
_MARKDOWN_OTHER = re.compile(r"^(?:```|~~~|[-*] \S|> \S)|\]\([^)\s]+\)|\*\*\S", re.M)


@dataclass(frozen=True, slots=True)
class Sample:
    """What recognition looks at.

    Attributes:
        text: the decoded beginning, None when the bytes are not text.
        zip_names: the central directory of a ZIP file, else empty.
        hints: the file name's extension and the declared media type, in lower case; the bytes come first.
    """

    head: bytes
    text: str | None
    zip_names: bytes
    hints: frozenset[str]


@dataclass(frozen=True, slots=True)
class DocumentFormat:
    """A kind of file: `module` has the `parse` function, `recognise` says whether a file is of this kind."""

    name: str
    label: str
    media_type: str
    module: str
    recognise: Callable[[Sample], bool]


def is_pdf(sample: Sample) -> bool:
    """Readers accept the signature anywhere in the first kilobyte."""
    return b"%PDF-" in sample.head[:1024]


def is_docx(sample: Sample) -> bool:
    """A ZIP file with Word's main part (some programs number it)."""
    return re.search(rb"word/document\d*\.xml", sample.zip_names) is not None


def is_html(sample: Sample) -> bool:
    """Begins as HTML does, or says that it is HTML and has tags."""
    if sample.text is None:
        return False
    if _HTML_START.match(sample.text):
        return True
    named = not sample.hints.isdisjoint({".html", ".htm", ".xhtml", "text/html", "application/xhtml+xml"})
    return named and _HTML_TAG.search(sample.text) is not None


def is_markdown(sample: Sample) -> bool:
    """Says that it is Markdown, or says nothing and has headings together with other marks."""
    if sample.text is None:
        return False
    if not sample.hints.isdisjoint(
        {".md", ".markdown", ".mdown", ".mkd", "text/markdown", "text/x-markdown"}
    ):
        return True
    if any(hint.startswith((".", "text/")) for hint in sample.hints):
        return False
    return bool(_MARKDOWN_HEADING.search(sample.text) and _MARKDOWN_OTHER.search(sample.text))


def is_text(sample: Sample) -> bool:
    """Any text at all; the last resort."""
    return sample.text is not None


FORMATS: tuple[DocumentFormat, ...] = (
    DocumentFormat("pdf", "PDF", "application/pdf", "app.documents.pdf", is_pdf),
    DocumentFormat(
        "docx",
        "DOCX",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "app.documents.docx",
        is_docx,
    ),
    DocumentFormat("html", "HTML", "text/html", "app.documents.html", is_html),
    DocumentFormat("markdown", "Markdown", "text/markdown", "app.documents.markdown", is_markdown),
    DocumentFormat("text", "plain text", "text/plain", "app.documents.plain", is_text),
)
"""Asked in this order; the first that recognises the file reads it."""

_FORMAT_BY_NAME = {item.name: item for item in FORMATS}


def find_format(name: str) -> DocumentFormat:
    """The format of this name; KeyError when there is none."""
    return _FORMAT_BY_NAME[name]


def detect_format(
    data: bytes, filename: str | None = None, declared_type: str | None = None
) -> DocumentFormat:
    """Say what a file is from its bytes; name and declared type decide only between kinds of text.

    Raises InvalidInput for an empty file, UnreadableDocument for a Word file under a password, and
    UnsupportedMediaType, listing what is read, for the rest.
    """
    if not data:
        raise InvalidInput.of("file", "the file is empty")
    sample = _take_sample(data, filename, declared_type)
    refusal = _refuse_known(data, sample)
    if refusal is None:
        for item in FORMATS:
            if item.recognise(sample):
                return item
        refusal = "this kind of file is not read"
    raise UnsupportedMediaType(f"{refusal}; what is read: {', '.join(item.label for item in FORMATS)}")


def _take_sample(data: bytes, filename: str | None, declared_type: str | None) -> Sample:
    head = data[:_HEAD]
    hints = {PurePath(filename or "").suffix.lower(), (declared_type or "").split(";")[0].strip().lower()}
    # What clients send when they know nothing.
    hints -= {"", "application/octet-stream"}
    marked = marked_encoding(head)
    plain = marked is not None or not any(byte < 32 and byte not in _TEXT_CONTROLS for byte in head)
    text = decode_text(head) if plain else None
    return Sample(head, text, _read_zip_names(data), frozenset(hints))


def _read_zip_names(data: bytes) -> bytes:
    """The raw central directory: member names without the cost of listing a hostile archive."""
    if not data.startswith(b"PK\x03\x04"):
        return b""
    end = data.rfind(b"PK\x05\x06", max(0, len(data) - 65_557))  # the record and its longest comment
    if end < 0 or end + 22 > len(data):
        return data  # cut short; the parser says so
    size, offset = struct.unpack_from("<II", data, end + 12)
    return data[offset : offset + size]


def _refuse_known(data: bytes, sample: Sample) -> str | None:
    if sample.head.startswith(b"\xd0\xcf\x11\xe0"):
        if "EncryptedPackage".encode("utf-16-le") in data:
            raise UnreadableDocument("the file is encrypted; save it without a password")
        return "old Office files (.doc, .xls, .ppt) are not read, save it as DOCX or PDF"
    if sample.head.startswith(b"{\\rtf"):
        return "RTF is not read, save it as DOCX or PDF"
    return None
