"""The headings of a PDF file: from its outline, its tags, or the size and weight of its lines."""

import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice, pairwise, repeat
from typing import Any

from app.documents.patience import limited_to
from app.documents.readers.pdf import pdfium
from app.documents.readers.pdf.words import Tag, Word
from app.documents.readers.text import collapse_spaces

_MAX_LEVEL = 6
_MOST_SHARE = 0.25
"""Share of a document's text in one font; a font with more is not used for headings."""

_MOST_PAGES = 20
"""Pages for each tagged heading; a document with fewer headings has others without a tag."""

_TITLE_SIZE = 1.2
"""Relative to the body's size; a first line that is hardly larger begins a letter or a section."""

_BEFORE_TITLE = 200
"""Characters; the name of a series, a date or an address may be above a title."""

_MOST_TITLE = 200

_LINE_GAP = 3
"""Line breaks between the lines of a title."""

Style = tuple[float, bool]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A possible heading at an offset: its level by the outline and by its tag, and whether it looks like one."""

    start: int
    title: str
    style: Style
    numbers: int
    level: int | None
    tag: int | None = None
    likely: bool = False


def find_levels(candidates: Sequence[Candidate], lengths: Counter[Style], pages: int) -> list[tuple[Candidate, int]]:
    """The headings with their levels; `lengths` has the number of characters of each font."""
    whole = sum(lengths.values())
    if _are_tagged(candidates, whole, pages):
        stated = ((item, item.tag or item.level) for item in candidates)
        return [(item, min(level, _MAX_LEVEL)) for item, level in stated if level]
    candidates = [item for item in candidates if item.likely or item.level is not None]
    shown: Counter[Style] = Counter()
    for candidate in candidates:
        shown[candidate.style] += len(candidate.title)
    kept = [
        candidate
        for candidate in candidates
        if candidate.level is not None or shown[candidate.style] <= max(_MOST_SHARE * whole, 200)
    ]
    levels = _rank(kept)
    found = []
    above: Candidate | None = None
    for item in kept:
        level = item.level or levels[item.style]
        if item.level is not None:
            above = item
        elif above is not None and above.level is not None and item.style <= above.style:
            # The outline would name it if it were not part of this section.
            level = max(level, above.level + 1)
        found.append((item, min(level, _MAX_LEVEL)))
    return found


def find_title(candidates: Sequence[Candidate], lengths: Counter[Style], page_end: int) -> str | None:
    """The title that the first page shows: its first heading in its largest type, with the lines of this type below it.

    None if it is numbered, or if headings further down the page have this type too; `page_end` is where the page's
    text ends.
    """
    shown = [item for item in candidates if item.start < page_end and item.likely]
    if not shown or not lengths:
        return None
    body, _ = max(lengths, key=lambda style: lengths[style])
    size = max(item.style[0] for item in shown)
    lines = [item for item in shown if item.style[0] == size]
    if size < _TITLE_SIZE * body or lines[0].numbers or lines[0].start > _BEFORE_TITLE:
        return None
    if any(late.start - early.start - len(early.title) > _LINE_GAP for early, late in pairwise(lines)):
        return None
    title = " ".join(item.title for item in lines)
    return title if len(title) <= _MOST_TITLE else None


def _are_tagged(candidates: Sequence[Candidate], whole: int, pages: int) -> bool:
    """Whether the tags name the headings: not only a title, and not most of the text."""
    tagged = [len(item.title) for item in candidates if item.tag is not None]
    return 0 < pages <= _MOST_PAGES * len(tagged) and sum(tagged) <= max(_MOST_SHARE * whole, 200)


def _rank(candidates: Sequence[Candidate]) -> dict[Style, int]:
    """A level for each font: larger is higher; where the outline names headings of a font, theirs."""
    known: dict[Style, Counter[int]] = defaultdict(Counter)
    for candidate in candidates:
        if candidate.level is not None:
            known[candidate.style][candidate.level] += 1
    ranks: dict[Style, int] = {}
    above = 0
    for style in sorted({candidate.style for candidate in candidates}, reverse=True):
        if style in known:
            counts = known[style]
            # Counter.most_common imports a module, which the confined process cannot do.
            ranks[style] = max(counts, key=lambda level: (counts[level], -level))
            above = max(above, ranks[style])
        else:
            ranks[style] = above + 1
            if not known or above == 0:
                above += 1
    return ranks


_MAX_ITEMS = 5_000
_MAX_OUTLINE_DEPTH = 6
_NUMBER = re.compile(r"^(?:(?:chapter|section|appendix|part)\s+)?(?:\d{1,3}|[A-Z])(?:\.\d{1,3})*[.:)]?\s+(?=\S)", re.I)
_MOST_LINES = 3
_MOST_LENGTH = 400
_NO_LETTERS = re.compile(r"[\W_]+")


@dataclass(slots=True)
class OutlineItem:
    """A title of the outline; `found` when a line of its page is this title."""

    title: str
    level: int
    found: bool = False


class PageOutline:
    """The titles of one page."""

    def __init__(self, items: list[OutlineItem]) -> None:
        self._items: dict[str, list[OutlineItem]] = defaultdict(list)
        for item in items:
            for key in dict.fromkeys(_list_keys(item.title)):
                self._items[key].append(item)

    def take(self, text: str) -> int | None:
        """The level of the first title that is this text and was not found yet."""
        for key in _list_keys(text):
            for item in self._items.get(key, ()):
                if not item.found:
                    item.found = True
                    return item.level
        return None

    def find(self, lines: Sequence[str]) -> Iterator[tuple[int, int, int]]:
        """The titles among lines, as (first line, last line, level)."""
        for place in range(len(lines) if self._items else 0):
            joined = ""
            for end in range(place, min(place + _MOST_LINES, len(lines))):
                joined = f"{joined} {lines[end]}"
                if len(joined) > _MOST_LENGTH:
                    break
                level = self.take(joined)
                if level is not None:
                    yield place, end, level
                    break


def read_outline(document: Any, pages: int) -> dict[int, list[OutlineItem]]:
    """The titles by index of their page, up to a limit."""
    found: dict[int, list[OutlineItem]] = defaultdict(list)
    for bookmark in islice(document.get_toc(max_depth=_MAX_OUTLINE_DEPTH), _MAX_ITEMS):
        title = collapse_spaces(bookmark.get_title())
        destination = bookmark.get_dest()
        index = destination.get_index() if destination else None
        if title and index is not None and 0 <= index < pages:
            found[index].append(OutlineItem(title, bookmark.level + 1))
    return found


def _list_keys(title: str) -> Iterator[str]:
    """The title, with its number and without it, as letters and digits only."""
    title = title.strip()
    for text in (title, _NUMBER.sub("", title)):
        if key := _NO_LETTERS.sub("", text).casefold():
            yield key


_MAX_TAG_DEPTH = 40
_MAX_CHILDREN = 100_000
"""Children of a page's elements together; further ones are not read."""
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
        lengths: dict[Tag, int] = {}
        find = cache(lambda handle: found.get(pdfium.get_content_id(handle)) if handle else None)
        for word in words:
            tag = find(word.handle)
            if tag is not None and word.hidden is None:
                lengths[tag] = lengths.get(tag, 0) + len(word.text) + 1
                word.tag = tag
        for word in words:
            if word.tag is not None and lengths[word.tag] > _LONGEST:
                word.tag = None


def find_tag(words: Sequence[Word]) -> Tag | None:
    """The heading that contains a line."""
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
        (element, 0, 0, None) for element in map(pdfium.get_top_element, repeat(tree, count), range(count)) if element
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
