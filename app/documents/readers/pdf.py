"""PDF, through PDFium."""

from __future__ import annotations

import re
from typing import Any

import pypdfium2
from pypdfium2 import raw

from app.documents.parsed import PageSpan, ParsedDocument, ParseLimits
from app.documents.readers.builder import TextBuilder
from app.documents.readers.text import clean_text, collapse_spaces
from app.errors import UnreadableDocument

_LIGATURES = {
    0xFB00: "ff",
    0xFB01: "fi",
    0xFB02: "fl",
    0xFB03: "ffi",
    0xFB04: "ffl",
    0xFB05: "st",
    0xFB06: "st",
}
# PDFium writes the hyphen at the end of a line as U+0002 or U+FFFE and continues on the same line.
_MARKED_BREAK = re.compile("(?<=\\w)[\x02\ufffe](?:\r?\n)?(?=\\w)")
_LINE_BREAK = re.compile(r"\b(\w++)[-\u2010\u00ad][ \t]*\n(\w++)")
_JOINING = frozenset({"und", "oder", "bzw", "sowie", "and", "or", "et", "ou", "y", "e", "o", "en", "of"})
_PROGRAM_TITLE = re.compile(
    r"^(?:untitled|unknown|microsoft \w+ - .*|.*\.(?:docx?|tex|dvi|indd|qxd|pdf|pptx?))$", re.I
)
_MAX_OUTLINE = 5_000
_MAX_OUTLINE_DEPTH = 6


def parse(data: bytes, limits: ParseLimits) -> ParsedDocument:
    """Read a PDF page by page; its outline provides the headings.

    Raises UnreadableDocument when it is encrypted, damaged, too long or without a text layer.
    """
    document = _open(data)
    total = len(document)
    if total > limits.max_pages:
        raise UnreadableDocument(f"the PDF has {total:,} pages; at most {limits.max_pages:,} are read")
    builder = TextBuilder(limits)
    pages = [_read_page(document, index) for index in range(total)]
    if all(page is None for page in pages):
        raise UnreadableDocument("the PDF is damaged: none of its pages can be opened")
    texts = [join_hyphenation(clean_text((page or "").translate(_LIGATURES))) for page in pages]
    if not any(text.strip() for text in texts):
        raise UnreadableDocument(
            "the PDF has no text layer (it seems to be scanned); run text recognition (OCR) on it first"
        )
    spans = [builder.add_page(index + 1, text) for index, text in enumerate(texts)]
    _mark_outline(document, builder, spans, [clean_text(text).strip("\n") for text in texts])
    title = collapse_spaces(document.get_metadata_value("Title"))
    return builder.finish("pdf", title=None if _PROGRAM_TITLE.match(title) else title, total_pages=total)


def join_hyphenation(text: str) -> str:
    """Rejoin words that a line break split; hyphens that belong to a word are kept."""

    def join(match: re.Match[str]) -> str:
        left, right = match.groups()
        if right.lower() in _JOINING:
            return f"{left}- {right}"
        hyphenated = f"{left}-{right}"
        if not (left[-1].islower() and right[0].islower()):
            return hyphenated
        return hyphenated if hyphenated in text and left + right not in text else left + right

    return _LINE_BREAK.sub(join, text)


def _open(data: bytes) -> Any:
    try:
        return pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        if error.err_code in (raw.FPDF_ERR_PASSWORD, raw.FPDF_ERR_SECURITY):
            raise UnreadableDocument("the PDF is encrypted; save it without a password") from error
        if error.err_code == raw.FPDF_ERR_SUCCESS:
            raise UnreadableDocument("the PDF has no pages") from error
        raise UnreadableDocument("the PDF is damaged or incomplete") from error


def _read_page(document: Any, index: int) -> str | None:
    try:
        page = document[index]
        text_page = page.get_textpage()
    except pypdfium2.PdfiumError:
        return None
    text: str = text_page.get_text_bounded()
    text_page.close()
    page.close()
    return _MARKED_BREAK.sub("-\n", text)


def _mark_outline(document: Any, builder: TextBuilder, spans: list[PageSpan], texts: list[str]) -> None:
    for count, bookmark in enumerate(document.get_toc(max_depth=_MAX_OUTLINE_DEPTH)):
        if count >= _MAX_OUTLINE:
            return
        title = collapse_spaces(bookmark.get_title())
        destination = bookmark.get_dest()
        index = destination.get_index() if destination else None
        if not title or index is None or not 0 <= index < len(spans):
            continue
        found = re.search(r"\s+".join(map(re.escape, title.split())), texts[index])
        builder.mark_heading(spans[index].start + (found.start() if found else 0), title, bookmark.level + 1)
