"""The part of a text that is shown: around its best words, from word to word."""

from __future__ import annotations

import re

from app.knowledge.search.answer.plain_text.graphemes import is_character_start, is_word_end, is_word_start
from app.knowledge.search.answer.plain_text.text import PlainText

LEAD = 80
"""Most characters before the best words, so that they have some context."""

LONGEST_WORD = 80
"""Characters that are given up at an edge to keep a word whole; a longer word is cut."""

LONGEST_CHARACTER = 32
"""Code points after which even a character is cut, such as a letter with any number of accents."""

_SENTENCE_START = re.compile(r"(?<=[.!?…·] )\S|(?<=[。！？])\S")


def choose_window(plain: PlainText, first: int, last: int, room: int) -> tuple[int, int]:
    """Where a part of the text of at most `room` characters begins and ends, an ellipsis at each cut included.

    It contains `first` to `last` if that fits, and starts with a sentence if one starts shortly before.
    """
    text = plain.text
    if not plain.is_whole:
        room -= 1
    if len(text) <= room:
        return 0, len(text)
    spare = max(0, room - 2 - (last - first))
    begin = _find_start(text, max(0, first - min(LEAD, spare // 2)), first)
    if begin + room - 1 >= len(text):
        # The rest is shorter than the room, so there is room for more text before it.
        return _find_word(text, len(text) - room + 1), len(text)
    limit = begin + room - (2 if begin else 1)
    return begin, _find_end(text, limit, begin)


def show_window(plain: PlainText, begin: int, end: int) -> str:
    """The part of the text, with … where it is cut."""
    is_cut = end < len(plain.text) or not plain.is_whole
    return f"{'…' if begin else ''}{plain.text[begin:end].strip()}{'…' if is_cut else ''}"


def _find_start(text: str, earliest: int, latest: int) -> int:
    if earliest == 0:
        return 0
    sentence = _SENTENCE_START.search(text, earliest, latest + 1)
    if sentence and is_character_start(text, sentence.start()):
        return sentence.start()
    for at in range(earliest, latest):
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
