"""Pages whose elements are nested deeper than libxml2 builds trees: their deepest elements stand side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lxml import etree

from app.documents.readers.html.visibility import find_reason

_MAX_DEPTH = 500
"""libxml2 leaves out what is nested deeper than 2,048."""


def is_cut(parser: Any) -> bool:
    """Whether the parser left out a part of the page because it is nested too deeply."""
    return any(entry.type == etree.ErrorTypes.ERR_RESOURCE_LIMIT for entry in parser.error_log)


class FlatTree:
    """A target of `etree.HTMLParser`, which calls its methods: elements beyond a depth become siblings."""

    def __init__(self) -> None:
        self._tree = etree.TreeBuilder()
        self._open: list[str] = []
        self._deep: list[bool] = []  # for each element that is nested too deeply, whether it is hidden
        self._next: tuple[str, Mapping[str, str]] | None = None  # begins with its first text

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Begin an element; one that is nested too deeply ends the one around it, of which it keeps what hides it."""
        own = {name: value for name, value in attributes.items() if ":" not in name}
        if len(self._open) < _MAX_DEPTH:
            self._open.append(tag)
            self._tree.start(tag, own)
            return
        hidden = bool(self._deep and self._deep[-1])
        self._deep.append(hidden or find_reason(etree.Element("div", own), styled=True) is not None)
        self._next = (tag, {"hidden": ""} if hidden else own)
        if tag == "img":
            self._begin_next()

    def end(self, tag: str) -> None:
        """End an element."""
        if self._deep:
            self._deep.pop()
            self._next = ("div", {"hidden": ""} if self._deep and self._deep[-1] else {})
        elif self._open:
            self._next = None
            self._tree.end(self._open.pop())

    def data(self, text: str) -> None:
        """Add text to the open element."""
        self._begin_next()
        self._tree.data(text)

    def close(self) -> Any:
        """The root element."""
        while self._open:
            self._tree.end(self._open.pop())
        return self._tree.close()

    def _begin_next(self) -> None:
        if self._next is not None:
            tag, attributes = self._next
            self._next = None
            self._tree.end(self._open.pop())
            self._open.append(tag)
            self._tree.start(tag, dict(attributes))
