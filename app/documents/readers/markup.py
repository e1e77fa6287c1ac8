"""reStructuredText, AsciiDoc and Org: the source is kept, and its headings are found."""

import re
from collections.abc import Iterator
from functools import partial

from app.documents.parsed import HeadingSpan
from app.documents.readers.builder import parse_source
from app.documents.readers.text import collapse_spaces, list_lines

_MAX_LINE = 1_000
_RULE = re.compile(r"([!-/:-@\[-`{-~])\1{2,}[ \t]*$")
_ASCIIDOC = re.compile(r"(={1,6})[ \t]+(\S.*?)(?:[ \t]+=+)?[ \t]*$")
_DELIMITER = re.compile(r"(-{4,}|\.{4,}|/{4,}|\+{4,}|`{3,})[ \t]*$")
_ORG = re.compile(r"(\*{1,10})[ \t]+(?:(?:TODO|DONE)[ \t]+)?(?:\[#[A-Z]\][ \t]+)?(\S.*?)(?:[ \t]+:[\w@:]+:)?[ \t]*$")
_ORG_TITLE = re.compile(r"#\+title:[ \t]*(\S.*)$", re.I)
_ORG_BLOCK = re.compile(r"[ \t]*#\+(begin|end)_(?:src|example|verse|comment|export)\b", re.I)


def _find_rst(text: str) -> Iterator[HeadingSpan]:
    """A line under (and over) a title makes a heading, by its first appearance deeper."""
    levels: dict[str, int] = {}
    before: tuple[int, str] = (0, "")  # the line before
    above = ""  # the rule before that line
    for position, line in list_lines(text):
        rule = _RULE.match(line) if len(line) <= _MAX_LINE else None
        title = before[1]
        if rule and title.strip() and not _RULE.match(title) and len(line.rstrip()) >= len(title.strip()):
            over = above and above[0] == line[0]
            if over or not title.startswith((" ", "\t")):
                style = line[0] + ("^" if over else "")
                indent = len(title) - len(title.lstrip())
                level = levels.setdefault(style, len(levels) + 1)
                yield HeadingSpan(before[0] + indent, level, collapse_spaces(title))
            before, above = (position, ""), ""
            continue
        above = before[1] if _RULE.match(before[1]) else ""
        before = (position, line)


def _find_asciidoc(text: str) -> Iterator[HeadingSpan]:
    """`=` begins a heading, outside of delimited blocks."""
    open_block = ""
    for position, line in list_lines(text):
        if len(line) > _MAX_LINE:
            continue
        if delimiter := _DELIMITER.match(line):
            if not open_block:
                open_block = delimiter.group(1)
            elif delimiter.group(1) == open_block:
                open_block = ""
        elif not open_block and (match := _ASCIIDOC.match(line)):
            yield HeadingSpan(position, len(match.group(1)), collapse_spaces(match.group(2)))


def _find_org(text: str) -> Iterator[HeadingSpan]:
    """Stars begin a heading, outside of blocks; the title is that of `#+title`, with level 0."""
    in_block = False
    for position, line in list_lines(text):
        if len(line) > _MAX_LINE:
            continue
        if block := _ORG_BLOCK.match(line):
            in_block = block.group(1).lower() == "begin"
        elif title := _ORG_TITLE.match(line):
            yield HeadingSpan(position, 0, collapse_spaces(title.group(1)))
        elif not in_block and (match := _ORG.match(line)):
            yield HeadingSpan(position, len(match.group(1)), collapse_spaces(match.group(2)))


parse_rst = partial(parse_source, name="rst", find=_find_rst)
parse_asciidoc = partial(parse_source, name="asciidoc", find=_find_asciidoc)
parse_org = partial(parse_source, name="org", find=_find_org)
