"""The supported kinds of file, and detection of a file's kind.

To add a kind, write a module with `parse(data, limits) -> ParsedDocument`, a function in `recognition` and a row
in `FORMATS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePath

from app.documents import recognition
from app.documents.archive import is_archive, list_names
from app.documents.ocr.access import INSTALL, is_installed
from app.documents.readers.text import decode_text, marked_encoding
from app.documents.recognition import Sample
from app.errors import InvalidInput, UnreadableDocument, UnsupportedMediaType

_HEAD = 8_192
_TEXT_CONTROLS = frozenset(b"\t\n\r\x0b\x0c\x1b\x08")
_OFFICE = "application/vnd.openxmlformats-officedocument"
_VALUE_AND_NEXT_LINE = re.compile(rb"[\]}][ \t\r]*\n\s*[\[{]")


@dataclass(frozen=True, slots=True)
class DocumentFormat:
    """A kind of file: `module` has the `parse` function, `recognise` tests whether a file is of this kind.

    `suffixes` are those of most files of a kind whose reader takes long to load; empty for the other kinds. An
    `image` is read only with the extra `ocr`.
    """

    name: str
    label: str
    media_type: str
    module: str
    recognise: Callable[[Sample], bool]
    suffixes: frozenset[str] = frozenset()
    image: bool = False


def _image(name: str, label: str, *suffixes: str) -> DocumentFormat:
    recognise = recognition.is_image(name)
    module = "app.documents.readers.image"
    return DocumentFormat(name, label, f"image/{name}", module, recognise, frozenset(suffixes), image=True)


def _row(
    name: str, label: str, media_type: str, module: str, recognise: Callable[[Sample], bool], *suffixes: str
) -> DocumentFormat:
    return DocumentFormat(name, label, media_type, f"app.documents.readers.{module}", recognise, frozenset(suffixes))


FORMATS: tuple[DocumentFormat, ...] = (
    _row("pdf", "PDF", "application/pdf", "pdf", recognition.is_pdf, ".pdf"),
    _row("docx", "DOCX", f"{_OFFICE}.wordprocessingml.document", "office.docx", recognition.is_docx, ".docx"),
    _row("pptx", "PPTX", f"{_OFFICE}.presentationml.presentation", "office.pptx", recognition.is_pptx, ".pptx"),
    _row("xlsx", "XLSX", f"{_OFFICE}.spreadsheetml.sheet", "office.xlsx", recognition.is_xlsx, ".xlsx"),
    _row("zip", "ZIP", "application/zip", "bundle", recognition.is_zip),
    _image("png", "PNG", ".png"),
    _image("jpeg", "JPEG", ".jpg", ".jpeg"),
    _image("tiff", "TIFF", ".tif", ".tiff"),
    _image("webp", "WebP", ".webp"),
    _image("gif", "GIF", ".gif"),
    _image("bmp", "BMP", ".bmp"),
    _row("svg", "SVG", "image/svg+xml", "svg", recognition.is_svg, ".svg"),
    _row("html", "HTML", "text/html", "html", recognition.is_html, ".html", ".htm", ".xhtml"),
    _row(
        "sourcemap",
        "source maps",
        "application/source-map+json",
        "generated.source_map",
        recognition.is_source_map,
    ),
    _row("lockfile", "lock files", "text/x-lockfile", "generated.lock_file", recognition.is_lock_file),
    _row("jsonl", "JSON Lines", "application/x-ndjson", "tables.records", recognition.is_json_lines),
    _row("json", "JSON", "application/json", "tables.records", recognition.is_json),
    _row("csv", "CSV", "text/csv", "tables.delimited", recognition.is_table),
    _row("css", "CSS", "text/css", "stylesheet", recognition.is_stylesheet),
    _row("javascript", "JavaScript", "text/javascript", "javascript", recognition.is_javascript),
    _row("code", "source code", "text/x-source", "source_code", recognition.is_code),
    _row("markdown", "Markdown", "text/markdown", "markdown", recognition.is_markdown),
    _row("text", "plain text", "text/plain", "plain", recognition.is_text),
)
"""In order of precedence: the first format that recognises the file reads it."""

_FORMAT_BY_NAME = {item.name: item for item in FORMATS}


def find_format(name: str) -> DocumentFormat:
    """The format with this name. Raises KeyError when there is none."""
    return _FORMAT_BY_NAME[name]


def expect_formats(kind: DocumentFormat, data: bytes) -> tuple[DocumentFormat, ...]:
    """The formats whose readers a file probably needs: its own; for an archive, also those of its members' names.

    The bytes of a member can be of another format, for which the reader of the archive raises ReaderMissing.
    """
    if kind.name != "zip":
        return (kind,)
    found = {PurePath(name.lower()).suffix for name in list_names(data)}
    return tuple(item for item in FORMATS if not (item.suffixes and item.suffixes.isdisjoint(found)))


def detect_format(data: bytes, filename: str | None = None, declared_type: str | None = None) -> DocumentFormat:
    """Detect the kind of a file from its bytes; name and declared type decide only between kinds of text.

    Raises InvalidInput for an empty file, UnreadableDocument for an Office file with a password, and
    UnsupportedMediaType, which lists the supported kinds, for all others.
    """
    if not data:
        raise InvalidInput.of("file", "the file is empty")
    refusal = find_refusal(data)
    if refusal is None:
        sample = _take_sample(data, filename, declared_type)
        item = next((item for item in FORMATS if item.recognise(sample)), None)
        if item is not None and (not item.image or is_installed()):
            return item
        refusal = "this kind of file is not supported"
        if item is not None:
            refusal = f"the file is an image ({item.label}); {INSTALL}"
    kinds = [item.label for item in FORMATS if not item.image or is_installed()]
    raise UnsupportedMediaType(f"{refusal}; supported kinds: {', '.join(kinds)}")


def find_refusal(data: bytes) -> str | None:
    """The reason why a document of a known kind is not supported; None for other files.

    Raises UnreadableDocument for an Office file with a password.
    """
    if data.startswith(b"\xd0\xcf\x11\xe0"):
        if "EncryptedPackage".encode("utf-16-le") in data:
            raise UnreadableDocument("the file is encrypted; save it without a password")
        return "old Office files (.doc, .xls, .ppt) are not supported; save the file as DOCX, XLSX, PPTX or PDF"
    if data.startswith(b"{\\rtf"):
        return "RTF is not supported; save the file as DOCX or PDF"
    return _refuse_archive(data) if is_archive(data) else None


def _refuse_archive(data: bytes) -> str | None:
    # The first member of these archives names their kind, uncompressed.
    if data[30:58] == b"mimetypeapplication/epub+zip":
        return "EPUB is not supported; save the file as PDF"
    if data[30:73] == b"mimetypeapplication/vnd.oasis.opendocument.":
        return "OpenDocument files (.odt, .ods, .odp) are not supported; save the file as DOCX, XLSX, PPTX or PDF"
    names = list_names(data)
    if "xl/workbook.bin" in names:
        return "binary Excel files (.xlsb) are not supported; save the file as XLSX"
    if "visio/document.xml" in names:
        return "Visio files are not supported; save the file as PDF"
    return None


def _take_sample(data: bytes, filename: str | None, declared_type: str | None) -> Sample:
    head = data[:_HEAD]
    path = PurePath((filename or "").lower())
    hints = {path.suffix, (declared_type or "").split(";")[0].strip().lower()}
    # The type that clients send by default.
    hints -= {"", "application/octet-stream"}
    marked = marked_encoding(head)
    plain = marked is not None or not any(byte < 32 and byte not in _TEXT_CONTROLS for byte in head)
    return Sample(
        head=head,
        text=decode_text(head) if plain else None,
        whole=len(data) <= _HEAD,
        second_line=_begins_second_value(data),
        members=list_names(data) if is_archive(data) else None,
        name=path.name,
        hints=frozenset(hints),
    )


def _begins_second_value(data: bytes) -> bool:
    end = data.find(b"\n")
    return end >= _HEAD and _VALUE_AND_NEXT_LINE.search(data, end - 3, end + 100) is not None
