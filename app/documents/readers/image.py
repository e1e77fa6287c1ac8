"""Images: the text that is recognised on them, with the extra `ocr`."""

from __future__ import annotations

from app.documents.ocr.access import explain_missing_text, find_recogniser
from app.documents.parsed import ParsedDocument, ParseLimits
from app.documents.readers.builder import TextBuilder
from app.documents.readers.pdf import join_hyphenation
from app.documents.readers.text import clean_text
from app.documents.recognition import name_image
from app.errors import UnreadableDocument


def parse(data: bytes, limits: ParseLimits) -> ParsedDocument:
    """Recognise each page of an image; pages for which no time is left are listed.

    Raises UnreadableDocument when the image is damaged or too large, or no text is found, and RecognitionNeeded.
    """
    recogniser = find_recogniser()
    if recogniser is None:
        raise UnreadableDocument(f"the image has no text that can be read: {explain_missing_text()}")
    builder = TextBuilder(limits)
    pages = 0
    without_text = []
    refusal: UnreadableDocument | None = None
    for draw in recogniser.open_image(data, limits):
        pages += 1
        page = None
        try:
            page = recogniser.recognise(draw)
        except UnreadableDocument as error:
            refusal = error
        span = builder.add_page(pages, join_hyphenation(clean_text(page.text)) if page else "")
        builder.mark_recognised(span.start, span.end)
        if page is None or not page.complete:
            without_text.append(pages)
    document = builder.finish(name_image(data) or "", total_pages=pages, pages_without_text=without_text)
    if document.text:
        return document
    if refusal is not None:
        raise refusal
    if document.pages_without_text:
        raise UnreadableDocument("the text of the image was not recognised within the limits of time and memory")
    raise UnreadableDocument("no text was recognised on the image")
