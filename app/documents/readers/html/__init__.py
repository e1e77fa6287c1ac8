"""HTML: the text that a reader would read, without navigation and other page elements."""

from __future__ import annotations

from lxml import etree

from app.documents.parsed import ParsedDocument, ParseLimits
from app.documents.readers.builder import remove_references
from app.documents.readers.html.furniture import Furniture
from app.documents.readers.html.markup import FlatTree, find_charset, is_cut
from app.documents.readers.html.page import PageReader
from app.documents.readers.text import build_tree, clean_text, decode_text

_REFUSAL = "the HTML has no content that can be read"
# A page with less text without its menus and banners is read with them, if that gives several times as much.
_SHORT = 200
_TIMES = 5


def parse(data: bytes, limits: ParseLimits) -> ParsedDocument:
    """Read the text of an HTML page: its main content, or all of it where the content is not marked.

    Nothing is fetched and no custom entity is expanded.
    """
    source = remove_references(clean_text(decode_text(data, find_charset(data))))
    encoded = source.encode("utf-8", errors="replace")
    parser = etree.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, no_network=True, huge_tree=True)
    root = build_tree(encoded, parser, _REFUSAL)
    if is_cut(parser):
        root = build_tree(encoded, etree.HTMLParser(encoding="utf-8", target=FlatTree(), huge_tree=True), _REFUSAL)
    furniture = Furniture()
    main = furniture.find_main(root)
    document = PageReader(root, limits, furniture).read(main if main is not None else root)
    if main is None and len(document.text) < _SHORT:
        # Some pages wrap all of their content in elements that are navigation elsewhere.
        whole = PageReader(root, limits, None).read(root)
        if len(whole.text) > _TIMES * len(document.text):
            return whole
    return document
