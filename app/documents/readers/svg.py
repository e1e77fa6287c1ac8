"""SVG pictures: the title, descriptions and texts that a viewer shows, without the drawing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lxml import etree

from app.documents.parsed import ParsedDocument, ParseLimits
from app.documents.readers.builder import TextBuilder
from app.documents.readers.markup import build_tree
from app.documents.readers.text import collapse_spaces

_TEXTS = frozenset({"title", "desc", "text", "foreignObject"})
_UNSEEN = frozenset({"script", "style", "metadata"})


def parse(data: bytes, limits: ParseLimits) -> ParsedDocument:
    """Read the texts in the order of the file, each as a paragraph; entities are not expanded.

    Raises UnreadableDocument for broken XML.
    """
    parser = etree.XMLParser(
        resolve_entities=False, load_dtd=False, no_network=True, remove_comments=True, remove_pis=True
    )
    root = build_tree(data, parser, "the SVG file is damaged: its XML cannot be read")
    builder = TextBuilder(limits)
    title = None
    for element in _list_texts(root):
        text = collapse_spaces(" ".join(_list_pieces(element)))
        if title is None and _name(element) == "title" and element.getparent() is root:
            title = text
            builder.add_heading(text, 1)
        else:
            builder.add(text)
    return builder.finish("svg", title=title)


def _list_texts(root: Any) -> Iterator[Any]:
    """The outermost elements with text that a viewer shows."""
    waiting = [root]
    while waiting:
        element = waiting.pop()
        if _name(element) in _TEXTS:
            yield element
        elif _name(element) not in _UNSEEN:
            waiting.extend(reversed(element))


def _list_pieces(element: Any) -> Iterator[str]:
    waiting: list[Any] = [element]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            yield part
            continue
        if _name(part) in _UNSEEN or _name(part) is None:
            continue
        if part.text:
            yield part.text
        for child in reversed(part):
            if child.tail:
                waiting.append(child.tail)
            waiting.append(child)


def _name(element: Any) -> str | None:
    """The name without its namespace; None for an entity."""
    return etree.QName(element).localname if isinstance(element.tag, str) else None
