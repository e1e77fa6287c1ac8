"""The snippet of a hit, and the words of the query that match it."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from app.knowledge.search.answer.plain_text.markdown import render_markdown
from app.knowledge.search.answer.plain_text.text import PlainText, fold
from app.knowledge.search.answer.plain_text.window import LEAD, LONGEST_WORD, choose_window, show_window
from app.knowledge.search.answer.region import find_region
from app.knowledge.search.answer.vocabulary import Found, Vocabulary
from app.knowledge.words import compose, find_words

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

    `start` and `end` are the part of the entry's content that it shows.
    """

    text: str
    matched_terms: tuple[str, ...]
    start: int
    end: int


class SnippetMaker:
    """Makes the snippets of one search; stems are cached for all of its hits."""

    def __init__(self, query: str) -> None:
        self._words = find_words(compose(query))
        self._languages: dict[str, Vocabulary] = {}

    def make(
        self,
        title: str | None,
        content: str,
        language: str,
        lexemes: Collection[str],
        passage: tuple[int, int] | None,
        *,
        is_markdown: bool = True,
    ) -> Snippet:
        """Choose the window of `content` with the most words of the query, or the start of `passage` if it has none.

        Headings that the content begins with and the title repeats are not shown, unless nothing follows them.
        `lexemes` are the query's words as Postgres stemmed them for `language`. `passage` is the passage with the
        highest cosine (None when only the keyword leg found the entry).
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
        skipped = _skip_headings(title, content)
        shown = [(start - skipped, end - skipped, key) for start, end, key in positions if start >= skipped]
        if passage is not None:
            passage = (max(0, passage[0] - skipped), max(0, passage[1] - skipped))
        text, start, end = _cut(content[skipped:], shown, passage, is_markdown=is_markdown)
        return Snippet(text, matched, start + skipped, end + skipped)


def _skip_headings(title: str | None, content: str) -> int:
    """Where the content goes on after the lines at its start that are headings in the title; 0 if it does not."""
    headings = {fold(heading).text for heading in title.split(BETWEEN_HEADINGS)} if title else set()
    place = 0
    for line in LINE.finditer(content):
        if fold(line[0].lstrip("#")).text not in headings:
            return place if place < len(content) else 0
        place = line.end()
    return 0


def _cut(
    content: str, positions: Sequence[Found], passage: tuple[int, int] | None, *, is_markdown: bool
) -> tuple[str, int, int]:
    """The text of the snippet, and the start and end of what it shows in the content."""
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
    """The words, where they are in the plain text; without those that it does not show if it shows any."""
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
