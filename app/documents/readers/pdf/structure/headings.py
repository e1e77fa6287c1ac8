"""The levels of headings: by the tags of the document, by its outline, else by its fonts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

_MAX_LEVEL = 6
_MOST_SHARE = 0.25
"""Of the text of a document in one font; a font with more is not that of headings."""

_MOST_PAGES = 20
"""For each tagged heading; a document with fewer has others without a tag."""

_TITLE_SIZE = 1.2
"""Of the body's size; a first line that is hardly larger begins a letter or a section."""

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


def find_levels(
    candidates: Sequence[Candidate], lengths: Counter[Style], pages: int
) -> list[tuple[Candidate, int]]:
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
