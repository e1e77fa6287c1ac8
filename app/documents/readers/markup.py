"""Parses XML and HTML, and distinguishes the failures of libxml2."""

from __future__ import annotations

from typing import Any

from lxml import etree

from app.errors import UnreadableDocument


def build_tree(source: bytes, parser: Any, refusal: str) -> Any:
    """The root element. Raises UnreadableDocument(`refusal`) for broken input, and MemoryError."""
    try:
        root = etree.fromstring(source, parser)
    except etree.XMLSyntaxError as error:
        if error.code == etree.ErrorTypes.ERR_NO_MEMORY:
            raise MemoryError from error
        raise UnreadableDocument(refusal) from error
    if root is None:
        raise UnreadableDocument(refusal)
    return root
