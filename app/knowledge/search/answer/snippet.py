"""Cut the snippet of a hit around the best words."""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from app.knowledge.search.answer.plain_text import (
    INCLUDED,
    PlainText,
    fold,
    is_character_start,
    is_word_end,
    is_word_start,
    render_markdown,
)
from app.knowledge.words import Found, Vocabulary, compose, find_names, find_words

LEAD = 80
"""Most characters before the best words where a sentence starts."""

LONGEST_WORD = 80
"""Characters that are given up at an edge to keep a word whole; a longer word is cut."""

LONGEST_CHARACTER = 32
"""Code points after which even a character is cut, such as a letter with any number of accents."""

_SENTENCE_START = re.compile(r"(?<=[.!?…·] )\S|(?<=[。！？])\S")


def choose_window(plain: PlainText, first: int, last: int, room: int) -> tuple[int, int]:
    """Where a part of the text of at most `room` characters begins and ends, an ellipsis at each cut included.

    It contains `first` to `last` if that fits. It starts with a sentence if one starts shortly before, and else has as
    much text before them as after them.
    """
    text = plain.text
    if not plain.is_whole:
        room -= 1
    if len(text) <= room:
        return 0, len(text)
    spare = max(0, room - 2 - (last - first))
    before = max(0, first - spare // 2)
    begin = _find_start(text, max(before, first - LEAD), first, before)
    if begin + room - 1 >= len(text):
        # The rest is shorter than the room, so there is room for more text before it.
        return _find_word(text, len(text) - room + 1), len(text)
    limit = begin + room - (2 if begin else 1)
    return begin, _find_end(text, limit, begin)


def show_window(plain: PlainText, begin: int, end: int) -> str:
    """The part of the text, with … where it is cut."""
    is_cut = end < len(plain.text) or not plain.is_whole
    return f"{'…' if begin else ''}{plain.text[begin:end].strip()}{'…' if is_cut else ''}"


def _find_start(text: str, earliest: int, latest: int, otherwise: int) -> int:
    """The start of a sentence from `earliest` to `latest`, or else of a word from `otherwise` on."""
    if earliest == 0:
        return 0
    sentence = _SENTENCE_START.search(text, earliest, latest + 1)
    if sentence and is_character_start(text, sentence.start()):
        return sentence.start()
    if otherwise == 0:
        return 0
    for at in range(otherwise, latest):
        if is_word_start(text, at):
            return at
    return _find_character(text, latest)


def _find_word(text: str, earliest: int) -> int:
    for at in range(earliest, min(earliest + LONGEST_WORD, len(text))):
        if is_word_start(text, at):
            return at
    return _find_character(text, earliest)


def _find_character(text: str, earliest: int) -> int:
    for at in range(earliest, min(earliest + LONGEST_CHARACTER, len(text))):
        if is_character_start(text, at):
            return at
    return earliest


def _find_end(text: str, latest: int, begin: int) -> int:
    for at in range(latest, max(latest - LONGEST_WORD, begin), -1):
        if is_word_end(text, at):
            return at
    for at in range(latest, max(latest - LONGEST_CHARACTER, begin), -1):
        if is_character_start(text, at):
            return at
    return latest


WHOLE = 800
"""Characters up to which a content is rendered as a whole."""

BEFORE, AFTER = 200, 360
"""Characters that are first rendered before and after the best words, and again as many up to the next paragraph.

Rendering takes 0.05 ms for a thousand characters, and a search has ten hits."""

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})", re.M)


@dataclass(frozen=True, slots=True)
class Region:
    """A part of a content; `opening` is a line that makes its start the same Markdown as in the content."""

    start: int
    end: int
    opening: str = ""

    @property
    def shift(self) -> int:
        """The offset in the content of the first character of `take`."""
        return self.start - len(self.opening)

    def take(self, content: str) -> str:
        """The text of the part, which can be rendered separately."""
        return self.opening + content[self.start : self.end]


def find_region(content: str, first: int, last: int, extent: int, *, is_markdown: bool) -> Region:
    """The part around `first` to `last`, from one paragraph or line to another; `extent` multiplies its margins."""
    start, end = first - extent * BEFORE, last + extent * AFTER
    if len(content) <= WHOLE or (start <= 0 and end >= len(content)):
        return Region(0, len(content))
    if end < len(content):
        end = _find_edge(content.find, end, end + extent * AFTER) or end
    if start <= 0:
        return Region(0, min(end, len(content)))
    start = _find_edge(content.rfind, max(0, start - extent * BEFORE), start) or start
    if not is_markdown:
        return Region(start, min(end, len(content)))
    start = _leave_comment(content, start, first)
    return Region(start, min(end, len(content)), _find_opening(content, start))


def _find_edge(find: Callable[[str, int, int], int], start: int, end: int) -> int:
    """After the first of these that is found: an empty line, a line end, a space; 0 if none is found."""
    for edge in ("\n\n", "\n", " "):
        if (at := find(edge, start, end)) >= 0:
            return at + len(edge)
    return 0


def _leave_comment(content: str, start: int, first: int) -> int:
    if content.rfind("<!--", 0, start) > content.rfind("-->", 0, start):
        closing = content.find("-->", start, first)
        return closing + 3 if closing >= 0 else start
    return start


def _find_opening(content: str, start: int) -> str:
    """The fence of the code block that is open at `start`, or an empty head for the rows of a table."""
    opening = ""
    if "```" in content or "~~~" in content:
        for fence in _FENCE.finditer(content, 0, start):
            if not opening:
                opening = fence[1]
            elif fence[1].startswith(opening):
                opening = ""
    if opening:
        return f"{opening}\n"
    if content.startswith("|", start):
        cells = content.count("|", start, content.find("\n", start) if "\n" in content[start:] else None) - 1
        return f"|{' |' * cells}\n|{'-|' * cells}\n" if cells > 0 else ""
    return ""


SNIPPET_LENGTH = 240

BETWEEN_HEADINGS = " > "
"""In the title of a chunk."""

LINE = re.compile(r"[^\S\n]*(\S.*)?(?:\n\s*|\Z)")
"""A line and the empty ones after it."""

WORDS_APART = 180
"""Most characters from the first to the last word that a snippet is chosen for; the rest is their context."""


@dataclass(frozen=True, slots=True)
class Snippet:
    """Plain text of at most 240 characters, with … where it is cut, and the words of the query in the entry.

    `start` and `end` are the range of the entry's content that it shows, and `part` is the number of the part that
    matched, if the entry has several.
    """

    text: str
    matched_terms: tuple[str, ...]
    start: int
    end: int
    part: int | None = None


class SnippetMaker:
    """Makes the snippets of one search; stems are cached for all of its hits."""

    def __init__(self, query: str) -> None:
        self._words = [*find_words(compose(query)), *find_names(query)]
        self._languages: dict[str, Vocabulary] = {}

    def make(
        self,
        title: str | None,
        content: str,
        language: str,
        lexemes: Collection[str],
        passage: tuple[int, int] | None,
        *,
        parts: Sequence[tuple[int, int]] = (),
        is_markdown: bool = True,
    ) -> Snippet:
        """Choose the window of `content` with the most words of the query, or the start of `passage` if it has none.

        Headings that the content begins with and the title repeats are not shown, unless nothing follows them.
        `lexemes` are the query's words as Postgres stemmed them for `language`. `passage` is the passage with the
        highest cosine (None when only the keyword leg found the entry). With several `parts`, the window is chosen in
        the one that matched.
        """
        vocabulary = self._languages.get(language)
        if vocabulary is None:
            vocabulary = self._languages[language] = Vocabulary(self._words, language, lexemes)
        positions: Sequence[Found] = ()
        matched: tuple[str, ...] = ()
        if vocabulary:
            positions = vocabulary.find(content)
            in_title = vocabulary.find(title) if title else ()
            matched = vocabulary.list_matched([(content, positions), (title or "", in_title)])
        part = _choose_part(parts, positions, passage) if parts else None
        if part is not None:
            passage = parts[part]
            positions = [found for found in positions if passage[0] <= found[0] < passage[1]]
        skipped = _skip_headings(title, content)
        shown = [(start - skipped, end - skipped, key) for start, end, key in positions if start >= skipped]
        if passage is not None:
            passage = (max(0, passage[0] - skipped), max(0, passage[1] - skipped))
        text, start, end = _cut(content[skipped:], shown, passage, is_markdown=is_markdown)
        return Snippet(text, matched, start + skipped, end + skipped, part)


def _choose_part(parts: Sequence[tuple[int, int]], positions: Sequence[Found], passage: tuple[int, int] | None) -> int:
    """The number of the part that is the passage; without one, of the part with the most words of the query."""
    if passage in parts:
        return parts.index(passage)
    found = [len({key for start, _, key in positions if begin <= start < end}) for begin, end in parts]
    return found.index(max(found))


def _skip_headings(title: str | None, content: str) -> int:
    """The position after the opening lines that repeat headings of the title or include a file; 0 if there are none."""
    headings = {fold(heading).text for heading in title.split(BETWEEN_HEADINGS)} if title else set()
    begins = tuple(heading.partition(" ")[0] for heading in headings)
    place = 0
    for line in LINE.finditer(content):
        text = line[0].lstrip("#")
        # The first line of most contents is all of their text.
        is_heading = ("|" in text or text.lstrip().startswith(begins)) and fold(text).text in headings
        if not is_heading and not INCLUDED.match(line[0]):
            return place if place < len(content) else 0
        place = line.end()
    return 0


def _cut(
    content: str, positions: Sequence[Found], passage: tuple[int, int] | None, *, is_markdown: bool
) -> tuple[str, int, int]:
    """The text of the snippet, and the start and end of its range in the content."""
    extent = 1
    while True:
        region = find_region(content, *_find_best(positions, passage), extent, is_markdown=is_markdown)
        source, shift = region.take(content), region.shift
        plain = render_markdown(source) if is_markdown else fold(source)
        shown = _find_shown(positions, plain, shift, region.end)
        moved = (plain.place_of(passage[0] - shift), plain.place_of(passage[1] - shift)) if passage else None
        first, last = _find_best(shown, moved)
        reaches_end = region.end == len(content) or not plain.is_whole
        needed = SNIPPET_LENGTH if reaches_end else LEAD + 1
        if (region.start == 0 or first >= needed) and (
            reaches_end or len(plain.text) - first >= SNIPPET_LENGTH + LONGEST_WORD
        ):
            break
        extent *= 4
    begin, end = choose_window(plain, first, last, SNIPPET_LENGTH)
    start, stop = plain.origin_of(begin) + shift, plain.origin_of(max(begin, end - 1)) + 1 + shift
    return show_window(plain, begin, end), start, stop


def _find_shown(positions: Sequence[Found], plain: PlainText, shift: int, end: int) -> list[Found]:
    """The words with their positions in the plain text; those outside the snippet only if none is inside."""
    moved = [
        (plain.place_of(start - shift), plain.place_of(stop - shift), key)
        for start, stop, key in positions
        if shift <= start and stop <= end
    ]
    return [word for word in moved if word[1] > word[0]] or moved


def _find_best(positions: Sequence[Found], passage: tuple[int, int] | None) -> tuple[int, int]:
    """The start and end of the window with the most distinct words; among equals one in the passage, then the earliest.

    Without words, the start of the passage.
    """
    best = (passage[0], passage[0]) if passage else (0, 0)
    best_key = (0, False, 0)
    right = 0
    window: dict[str, int] = {}
    for left, (start, _end, _key) in enumerate(positions):
        while right < len(positions) and positions[right][1] - start <= WORDS_APART:
            window[positions[right][2]] = window.get(positions[right][2], 0) + 1
            right += 1
        inside = passage is not None and passage[0] <= start < passage[1]
        key = (len(window), inside, right - left)
        if key > best_key:
            best, best_key = (start, positions[max(left, right - 1)][1]), key
        if right > left:
            leaving = positions[left][2]
            window[leaving] -= 1
            if not window[leaving]:
                del window[leaving]
        else:
            right = left + 1
    return best
