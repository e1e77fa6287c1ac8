"""Markdown: the source is kept, and its headings are found."""

from __future__ import annotations

import re
from collections.abc import Iterator

from app.documents.parsed import HeadingSpan, ParsedDocument, ParseLimits
from app.documents.readers.builder import TextBuilder
from app.documents.readers.text import collapse_spaces, decode_text

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_SETEXT = re.compile(r" {0,3}(=+|-+)[ \t]*$")
_NO_PARAGRAPH = re.compile(r" {0,3}(?:[#>|]|[-*+][ \t]|\d{1,9}[.)][ \t])| {4}|\t")
_MARKS = re.compile(r"!?\[([^\]]*)\]\([^)]*\)|[*_`]{1,3}(?=\S)|(?<=\S)[*_`]{1,3}")
_FRONT_MATTER = re.compile(r"---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*$\n?", re.S | re.M)
# A longer line is not a heading; the work of the patterns grows with the square of its length.
_MAX_LINE = 1_000
_TITLE = re.compile(r"^title:[ \t]*(.+)$", re.M)


def parse(data: bytes, limits: ParseLimits) -> ParsedDocument:
    """Read Markdown. The title is that of the front matter, otherwise the topmost heading if there is only one."""
    builder = TextBuilder(limits)
    builder.add(decode_text(data))
    text = builder.finish("markdown").text
    front = _FRONT_MATTER.match(text)
    topmost = []
    for heading in _find_headings(text, front.end() if front else 0):
        builder.mark_heading(heading.start, heading.title, heading.level)
        if heading.level == 1:
            topmost.append(heading.title)
    stated = _TITLE.search(front.group(1)) if front else None
    title = stated.group(1).strip().strip("'\"") if stated else None
    if title is None and len(topmost) == 1:
        title = topmost[0]
    return builder.finish("markdown", title=title)


def _find_headings(text: str, start: int) -> Iterator[HeadingSpan]:
    fence = ""
    previous: tuple[int, str] | None = None  # a paragraph's only line: an underline makes it a heading
    in_paragraph = False
    for position, line in _lines(text, start):
        if len(line) > _MAX_LINE:
            previous, in_paragraph = None, True
            continue
        opened = _FENCE.match(line)
        if fence:
            if opened and opened.group(1).startswith(fence) and not opened.group(2).strip():
                fence = ""
            continue
        if opened and not (opened.group(1)[0] == "`" and "`" in opened.group(2)):
            fence, previous, in_paragraph = opened.group(1), None, False
            continue
        atx = _ATX.match(line)
        underline = _SETEXT.match(line) if previous else None
        if atx:
            if title := _plain_title(atx.group(2) or ""):
                yield HeadingSpan(position + _indent(line), len(atx.group(1)), title)
            previous, in_paragraph = None, False
        elif underline and previous:
            yield HeadingSpan(
                previous[0], 1 if underline.group(1)[0] == "=" else 2, _plain_title(previous[1])
            )
            previous, in_paragraph = None, False
        elif not line.strip():
            previous, in_paragraph = None, False
        else:
            starts = not in_paragraph and not _NO_PARAGRAPH.match(line)
            previous, in_paragraph = (position + _indent(line), line) if starts else None, True


def _lines(text: str, start: int) -> Iterator[tuple[int, str]]:
    """Each line after its position; a list of all lines would be many times as large as the text."""
    while start <= len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        yield start, text[start:end]
        start = end + 1


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _plain_title(title: str) -> str:
    return collapse_spaces(_MARKS.sub(lambda match: match.group(1) or "", title))
