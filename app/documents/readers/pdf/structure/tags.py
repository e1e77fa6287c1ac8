"""The tags of a PDF: which texts of a page are headings by its structure tree."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from itertools import repeat

from app.documents.patience import limited_to
from app.documents.readers.pdf import pdfium
from app.documents.readers.pdf.words import Tag, Word

_MAX_TAG_DEPTH = 40
_MAX_CHILDREN = 100_000
"""Of the elements of a page together; further ones are not read."""
_HEADING = re.compile(r"H([1-9]\d?)?")
_SECTIONS = frozenset({"Sect", "Art", "Part"})
_WITHOUT_HEADINGS = frozenset({"Artifact", "TOC", "Table", "Figure", "Formula", "Code", "Form"})
_LONGEST = 200
"""Characters of a heading."""
_MOST_OF_LINE = 0.6


class Tags:
    """Reads the tags of the pages of a file in `seconds` of processor time; further ones are not read."""

    def __init__(self, seconds: float) -> None:
        self._left = seconds

    def mark(self, page: int, words: Sequence[Word]) -> None:
        """Set the tag of the words that are part of a heading."""
        if self._left <= 0:
            return
        start = time.process_time()
        with limited_to(self._left):
            found = _read_page(page)
        self._left -= time.process_time() - start
        if not found:
            return
        tags: dict[int, Tag | None] = {}
        lengths: dict[Tag, int] = {}
        for word in words:
            if word.handle not in tags:
                tags[word.handle] = found.get(pdfium.get_content_id(word.handle)) if word.handle else None
            tag = tags[word.handle]
            if tag is not None and word.hidden is None:
                lengths[tag] = lengths.get(tag, 0) + len(word.text) + 1
                word.tag = tag
        for word in words:
            if word.tag is not None and lengths[word.tag] > _LONGEST:
                word.tag = None


def find_tag(words: Sequence[Word]) -> Tag | None:
    """The heading of which a line is a part."""
    lengths: dict[Tag, int] = {}
    for word in words:
        if word.tag is not None:
            lengths[word.tag] = lengths.get(word.tag, 0) + len(word.text)
    if not lengths:
        return None
    tag = max(lengths, key=lambda tag: lengths[tag])
    return tag if lengths[tag] > _MOST_OF_LINE * sum(len(word.text) for word in words) else None


def _read_page(page: int) -> dict[int, Tag]:
    """The headings by the identifiers of their content."""
    tree = pdfium.open_structure(page)
    if not tree:
        return {}
    try:
        return _read_tree(tree)
    finally:
        pdfium.close_structure(tree)


def _read_tree(tree: int) -> dict[int, Tag]:
    found: dict[int, Tag] = {}
    count = min(pdfium.count_top_elements(tree), _MAX_CHILDREN)
    left = _MAX_CHILDREN - count
    # Element, its depth, the number of sections around it, and the heading around it.
    waiting: list[tuple[int, int, int, Tag | None]] = [
        (element, 0, 0, None)
        for element in map(pdfium.get_top_element, repeat(tree, count), range(count))
        if element
    ]
    while waiting:
        element, depth, sections, tag = waiting.pop()
        kind = pdfium.read_element_type(element)
        if depth >= _MAX_TAG_DEPTH or kind in _WITHOUT_HEADINGS:
            continue
        sections += kind in _SECTIONS
        tag = tag or _find_heading(kind, sections)
        count = min(max(0, pdfium.count_children(element)), left)
        left -= count
        for place, child in enumerate(map(pdfium.get_child, repeat(element, count), range(count))):
            if child:
                waiting.append((child, depth + 1, sections, tag))
            elif tag is not None:
                found[pdfium.get_child_content_id(element, place)] = tag
    found.pop(-1, None)
    return found


def _find_heading(kind: str, sections: int) -> Tag | None:
    if kind == "Title":
        return Tag(1)
    match = _HEADING.fullmatch(kind)
    # Without a number, sections around it give the level.
    return Tag(int(match.group(1) or max(1, sections))) if match else None
