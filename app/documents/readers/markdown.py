"""Markdown: the source is kept, and its headings and tables are found."""

import re
from collections.abc import Iterator

from app.documents.parsed import HeadingSpan, ParsedDocument, ParseLimits
from app.documents.readers.builder import TextBuilder
from app.documents.readers.text import collapse_spaces, list_lines

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_SETEXT = re.compile(r" {0,3}(=+|-+)[ \t]*$")
_NO_PARAGRAPH = re.compile(r" {0,3}(?:[#>|]|[-*+][ \t]|\d{1,9}[.)][ \t])| {4}|\t")
_TAGS = "a|b|br|code|em|font|i|img|kbd|small|span|strong|sub|sup|u"
_MARKS = re.compile(
    r"!?\[([^\]]*)\]\([^)]*\)|(`{1,2})([^`]+)\2"
    rf"|<(?:{_TAGS})\s[^<>]*=[^<>]*>|</(?:{_TAGS})>|<(?:{_TAGS[2:]})\s*/?>"
    r"|[ \t]\{[#.:][^{}]*\}$|[*_`]{1,3}(?=\S)|(?<=\S)[*_`]{1,3}"
)
# The line below the header of a table, and the bars between its cells.
_DELIMITERS = re.compile(r" {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-++:?[ \t]*)*+\|?[ \t]*$")
_BAR = re.compile(r"(?<!\\)\|")
_FRONT_MATTER = re.compile(r"---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*$\n?", re.S | re.M)
# A longer line is not a heading; the work of the patterns grows with the square of its length.
_MAX_LINE = 1_000
_TITLE = re.compile(r"^title:[ \t]*(.+)$", re.M)


def parse(text: str, limits: ParseLimits, name: str = "markdown") -> ParsedDocument:
    """Read Markdown, also for a format `name` that was written as Markdown.

    The title comes from the front matter, or else from the topmost heading if there is only one.
    """
    builder = TextBuilder(limits)
    builder.add(text)
    text = builder.finish(name).text
    front = _FRONT_MATTER.match(text)
    start = front.end() if front else 0
    title = builder.mark_headings(_find_headings(builder, text, start))
    if front and (stated := _TITLE.search(front.group(1))):
        title = stated.group(1).strip().strip("'\"")
    return builder.finish(name, title=title)


def _find_headings(builder: TextBuilder, text: str, start: int) -> Iterator[HeadingSpan]:
    """Headings outside of code blocks; tables are recorded."""
    fence = ""
    previous: tuple[int, str] | None = None  # a paragraph's only line: an underline makes it a heading
    in_paragraph = False
    above: tuple[int, str] | None = None  # the line before, which may be the header of a table
    in_table = False
    for position, line in list_lines(text, start):
        if in_table:
            if "|" in line and not _FENCE.match(line):
                builder.extend_table(position + len(line))
                continue
            in_table, above = False, None
        if len(line) > _MAX_LINE:
            previous, above, in_paragraph = None, None, True
            continue
        opened = _FENCE.match(line)
        if fence:
            if opened and opened.group(1).startswith(fence) and not opened.group(2).strip():
                fence = ""
            continue
        if opened and not (opened.group(1)[0] == "`" and "`" in opened.group(2)):
            fence, previous, above, in_paragraph = opened.group(1), None, None, False
            continue
        if above is not None and _are_delimiters(line, above[1]):
            end = position + len(line)
            builder.mark_table(above[0], min(end + 1, len(text)), end)
            previous, in_paragraph, in_table = None, False, True
            continue
        atx = _ATX.match(line)
        above = (position, line) if "|" in line and not atx else None
        underline = _SETEXT.match(line) if previous else None
        if atx:
            if title := _plain_title(atx.group(2) or ""):
                yield HeadingSpan(position + _indent(line), len(atx.group(1)), title)
        elif underline and previous:
            yield HeadingSpan(previous[0], 1 if underline.group(1)[0] == "=" else 2, _plain_title(previous[1]))
        written = not (atx or underline) and bool(line.strip())
        starts = written and not in_paragraph and not _NO_PARAGRAPH.match(line)
        previous, in_paragraph = (position + _indent(line), line) if starts else None, written


def _are_delimiters(line: str, above: str) -> bool:
    """Whether a line is the delimiter row of a table whose header is the line above."""
    return "|" in line and _DELIMITERS.match(line) is not None and _count_cells(line) == _count_cells(above)


def _count_cells(line: str) -> int:
    line = line.strip()
    bars = len(_BAR.findall(line))
    return bars + 1 - line.startswith("|") - (len(line) > 1 and line.endswith("|") and line[-2] != "\\")


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _plain_title(title: str) -> str:
    return collapse_spaces(_MARKS.sub(lambda match: match.group(1) or match.group(3) or "", title))
