"""SVG pictures: the title, descriptions and texts that a viewer shows, without the drawing."""

from collections.abc import Iterator
from typing import Any

from lxml import etree

from app.documents.parsed import HiddenReason, ParsedDocument, ParseLimits
from app.documents.readers.builder import CLOSE, OPEN, TextBuilder, add_marked, remove_marks
from app.documents.readers.html.visibility import find_reason
from app.documents.readers.text import build_tree, collapse_spaces

_TEXTS = frozenset({"title", "desc", "text", "foreignObject"})
_UNSEEN = frozenset({"script", "style", "metadata"})
_SHOWING = {name: name for name in ("display", "visibility", "opacity", "font-size", "transform")} | {
    "fill-opacity": "opacity"
}
"""Attributes that can hide an element, and the property of style sheets that means the same."""


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
    for element, hidden in _list_texts(root):
        text = collapse_spaces(" ".join(_list_pieces(element, hidden)))
        if title is None and _name(element) == "title" and element.getparent() is root:
            title = remove_marks(text)
            builder.add_heading(title, 1)
        else:
            add_marked(builder, text, "\n\n")
    return builder.finish("svg", title=title)


def _list_texts(root: Any) -> Iterator[tuple[Any, HiddenReason | None]]:
    """The outermost elements with text, and why a viewer does not show it."""
    waiting: list[tuple[Any, HiddenReason | None]] = [(root, None)]
    while waiting:
        element, hidden = waiting.pop()
        hidden = hidden or _find_reason(element)
        if _name(element) in _TEXTS:
            yield element, hidden
        elif _name(element) not in _UNSEEN:
            waiting.extend((child, hidden) for child in reversed(element))


def _list_pieces(element: Any, hidden: HiddenReason | None) -> Iterator[str]:
    waiting: list[tuple[Any, HiddenReason | None]] = [(element, hidden)]
    while waiting:
        part, hidden = waiting.pop()
        if isinstance(part, str):
            written = remove_marks(part)
            yield f"{OPEN[hidden]}{written}{CLOSE}" if hidden and written.strip() else written
            continue
        if _name(part) in _UNSEEN or _name(part) is None:
            continue
        within = hidden or _find_reason(part)
        for child in reversed(part):
            if child.tail:
                waiting.append((child.tail, within))
            waiting.append((child, within))
        if part.text:
            waiting.append((part.text, within))


def _find_reason(element: Any) -> HiddenReason | None:
    """Why a viewer does not show the text of an element, by its attributes and style; titles are names, not text."""
    if _name(element) in {None, "title", "desc"}:
        return None
    declared = ";".join(f"{_SHOWING[name]}:{value}" for name, value in element.attrib.items() if name in _SHOWING)
    return find_reason(element, styled=True, declared=declared) if declared or "style" in element.attrib else None


def _name(element: Any) -> str | None:
    """The name without its namespace; None for an entity."""
    return etree.QName(element).localname if isinstance(element.tag, str) else None
