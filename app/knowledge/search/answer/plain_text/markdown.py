"""Markdown as plain text."""

from __future__ import annotations

import re
from itertools import islice
from typing import Any, Final, TypeAlias

import pyromark

from app.knowledge.search.answer.plain_text.html import write_html
from app.knowledge.search.answer.plain_text.text import (
    BREAK,
    DELIMITER,
    SPACE,
    PlainText,
    Writer,
    fold,
    unify_spaces,
)

_OPTIONS: Final = pyromark.Options.ENABLE_TABLES | pyromark.Options.ENABLE_STRIKETHROUGH
MOST_EVENTS = 4_000
"""Events of the parser that are rendered, which takes 4 ms; a text of 3,000 characters has about 200."""

_MARKS = "*`[]<&\\~|"
_UNDERSCORE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")
_LINE_MARK = re.compile(r"\n(?: *(?:[-+=>#]|\d{1,9}[.)])| {4})")
"""What may be Markdown or HTML: marks, underscores that are not inside a word, and starts of lines."""

_WIDE = re.compile(r"[^\x00-\x7f]")
_NUMBER = re.compile(r"\d{1,9}[.)]")
_DUNDER = re.compile(r"__\w+__")
_BEFORE_NO_EMPHASIS = frozenset(".,;!?)]}/\\=+&^$#@%<")
_INLINE = frozenset(("Emphasis", "Strong", "Strikethrough"))
_SEPARATE = frozenset(("Heading", "Item", "List", "Table", "TableHead", "TableRow", "TableCell"))

_Event: TypeAlias = Any
"""A string, or a dict with the kind of the event as its only key; see pyromark.event."""


def render_markdown(source: str) -> PlainText:
    """Render Markdown, and the HTML in it, to the text that a reader sees. A source with too
    many marks is rendered in part.

    Ordinary text only resembles Markdown in places, and these stay: `__init__`, `2*3*4`, `table[name](key)`, `<id>`.
    """
    source = unify_spaces(source)
    # The parser takes 40 µs for a snippet; a text without marks reads as it is written.
    return _parse(source) if _is_marked(source) else fold(source)


def _is_marked(source: str) -> bool:
    return (
        any(mark in source for mark in _MARKS)
        or ("_" in source and _UNDERSCORE.search(source) is not None)
        or _LINE_MARK.search(f"\n{source}") is not None
    )


def _parse(source: str) -> PlainText:
    # The parser counts bytes: a letter in place of each wider character makes them characters.
    narrow = source if source.isascii() else _WIDE.sub("x", source)
    renderer = _Renderer(source)
    read = renderer.read
    events = pyromark.events_with_range(narrow, options=_OPTIONS)
    for event, span in islice(events, MOST_EVENTS):
        read(event, span["start"], span["end"])
    return renderer.writer.finish(is_whole=next(events, None) is None)


class _Renderer:
    """Writes the text of the parser's events."""

    def __init__(self, source: str) -> None:
        self.writer = Writer()
        self._source = source
        self._kept: list[str] = []
        self._html: int | None = None
        self._end = 0

    def read(self, event: _Event, start: int, end: int) -> None:
        """Write the text of the next event, which is at `start` to `end` in the source."""
        if event.__class__ is str:
            self.writer.separate(BREAK if event == "Rule" else SPACE)
            return
        kind = next(iter(event))
        value = event[kind]
        if kind == "Text":
            # A character reference has another length than its text; all other text is as in the source.
            # Below a header that is not in the source, a delimiter is text.
            if not (value.endswith("|") and DELIMITER.fullmatch(value)):
                self.writer.write(self._source[start:end] if len(value) == end - start else value, start)
        elif kind == "Start":
            self._open(value if value.__class__ is str else next(iter(value)), start, end)
            end = start + 1
        elif kind == "End":
            self._close(value if value.__class__ is str else next(iter(value)), end)
        elif kind == "Code":
            ticks = end - start - len(self._source[start:end].lstrip("`"))
            self.writer.write(self._source[start + ticks : end - ticks], start + ticks)
        elif kind == "InlineHtml":
            write_html(self._source, start, end, self.writer)
        self._end = end

    def _open(self, tag: str, start: int, end: int) -> None:
        if tag in _INLINE:
            mark = self._find_kept_mark(start, end)
            self._kept.append(mark)
            self.writer.write(mark, start)
        elif tag in ("Link", "Image"):
            # As in `table[name](key)`, which is code.
            is_code = tag == "Link" and start > 0 and _is_ascii_word(self._source[start - 1])
            self._kept.append("[" if is_code else "")
            self.writer.write(self._kept[-1], start)
        elif tag == "HtmlBlock":
            self._html = start
        else:
            self.writer.separate(BREAK if tag in _SEPARATE else SPACE)
            if tag == "Item" and (number := _NUMBER.match(self._source, start)):
                self.writer.write(number[0], start)
                self.writer.separate(SPACE)

    def _close(self, tag: str, end: int) -> None:
        if tag in _INLINE:
            mark = self._kept.pop()
            self.writer.write(mark, end - len(mark))
        elif tag in ("Link", "Image"):
            if self._kept.pop():
                self.writer.write(self._source[self._end : end], self._end)
        elif tag == "HtmlBlock" and self._html is not None:
            self.writer.separate(SPACE)
            write_html(self._source, self._html, end, self.writer)
            self.writer.separate(SPACE)
        else:
            self.writer.separate(BREAK if tag in _SEPARATE or tag == "CodeBlock" else SPACE)

    def _find_kept_mark(self, start: int, end: int) -> str:
        """The marks of an emphasis that is none: asterisks inside a word or, as in `/api/(.*)`, inside an expression,
        or underscores around a single word.
        """
        source = self._source
        mark = source[start : start + 2] if source.startswith(source[start] * 2, start) else source[start]
        if source[start] == "_":
            return mark if _DUNDER.fullmatch(source, start, end) else ""
        if start > 0 and source[start - 1] in _BEFORE_NO_EMPHASIS:
            return mark
        inside = start > 0 and end < len(source) and _is_ascii_word(source[start - 1])
        return mark if inside and _is_ascii_word(source[end]) else ""


def _is_ascii_word(letter: str) -> bool:
    return letter.isascii() and (letter.isalnum() or letter in "_)]")
