"""SVG pictures: the title, descriptions and texts that a viewer shows, without the drawing."""

from collections.abc import Iterator
from typing import Any

from app.documents.parsed import HiddenReason, ParsedDocument, ParseLimits
from app.documents.readers.builder import CLOSE, OPEN, TextBuilder, add_marked, remove_marks
from app.documents.readers.html.visibility import find_reason
from app.documents.readers.text import collapse_spaces, local_name, parse_xml

_TEXTS = frozenset({"title", "desc", "text", "foreignObject"})
_UNSEEN = frozenset({"script", "style", "metadata"})
_SHOWING = {name: name for name in ("display", "visibility", "opacity", "font-size", "transform")} | {
    "fill-opacity": "opacity"
}
"""Attributes that can hide an element, and the property of style sheets that means the same."""


def parse(data: bytes, limits: ParseLimits) -> ParsedDocument:
    """Read the texts in the order of the file, each as a paragraph; entities are not expanded."""
    root = parse_xml(data, "SVG")
    builder = TextBuilder(limits)
    title = None
    for element, hidden in _list_texts(root):
        text = collapse_spaces(" ".join(_list_pieces(element, hidden)))
        if title is None and local_name(element) == "title" and element.getparent() is root:
            title = remove_marks(text)
            builder.add_heading(title, 1)
        else:
            add_marked(builder, text, "\n\n")
    return builder.finish("svg", title=title)


def _list_texts(element: Any, hidden: HiddenReason | None = None) -> Iterator[tuple[Any, HiddenReason | None]]:
    """The outermost elements with text, and why a viewer does not show it. XML is nested at most 256 levels deep."""
    hidden = hidden or _find_reason(element)
    if local_name(element) in _TEXTS:
        yield element, hidden
    elif local_name(element) not in _UNSEEN:
        for child in element:
            yield from _list_texts(child, hidden)


def _list_pieces(element: Any, hidden: HiddenReason | None) -> Iterator[str]:
    if not local_name(element) or local_name(element) in _UNSEEN:
        return
    hidden = hidden or _find_reason(element)
    yield _mark(element.text, hidden)
    for child in element:
        yield from _list_pieces(child, hidden)
        yield _mark(child.tail, hidden)


def _mark(text: str | None, hidden: HiddenReason | None) -> str:
    written = remove_marks(text or "")
    return f"{OPEN[hidden]}{written}{CLOSE}" if hidden and written.strip() else written


def _find_reason(element: Any) -> HiddenReason | None:
    """Why a viewer does not show the text of an element, by its attributes and style; titles are names, not text."""
    if local_name(element) in {"", "title", "desc"}:
        return None
    declared = ";".join(f"{_SHOWING[name]}:{value}" for name, value in element.attrib.items() if name in _SHOWING)
    return find_reason(element, styled=True, declared=declared) if declared or "style" in element.attrib else None
