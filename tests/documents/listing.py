"""The parts of a document as tests compare them."""

from app.documents.parsed import HiddenReason, ParsedDocument


def list_headings(document: ParsedDocument) -> list[tuple[int, str]]:
    return [(heading.level, heading.title) for heading in document.headings]


def list_tables(document: ParsedDocument) -> list[tuple[str, str]]:
    """The header of each table and its other rows."""
    return [
        (document.text[table.start : table.header_end], document.text[table.header_end : table.end])
        for table in document.tables
    ]


def list_hidden(document: ParsedDocument) -> list[tuple[str, HiddenReason]]:
    return [(document.text[span.start : span.end], span.reason) for span in document.hidden]


def list_pages(document: ParsedDocument) -> list[str]:
    return [document.text[page.start : page.end] for page in document.pages]
