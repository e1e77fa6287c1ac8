"""HTML inside a text: its tags and comments are removed, and its character references are resolved."""

from __future__ import annotations

import html
import re

from app.knowledge.search.answer.plain_text.text import BREAK, SPACE, Writer

_TAG = re.compile(r"""</?([A-Za-z][A-Za-z0-9-]*)(?:\s(?:"[^"]*"|'[^']*'|[^'"<>])*)?/?>""")
_DECLARATION = re.compile(r"<[!?][^<>]*>")
_REFERENCE = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_HIDDEN_END = re.compile(r"</(?:script|style)\s*>", re.I)

_NAME = re.compile(r"\w+")
_INLINE_TAGS = frozenset(
    _NAME.findall(
        "a abbr acronym b bdi bdo big button cite code data del dfn em font i img input ins kbd label mark math meter"
        " output picture progress q ruby rp rt s samp select small source span strike strong sub sup svg time tt u"
        " var wbr"
    )
)
_FLOWING = frozenset(
    _NAME.findall(
        "address area article aside audio base blockquote body br canvas center col colgroup details dialog div dl"
        " fieldset figcaption figure footer form frame frameset head header hgroup hr html iframe legend link main"
        " map menu meta nav noscript object ol optgroup p param pre script search section style summary table tbody"
        " template textarea tfoot thead track ul video"
    )
)
_SEPARATE_TAGS = frozenset(_NAME.findall("caption dd dt h1 h2 h3 h4 h5 h6 li option td th title tr"))
_HIDDEN = frozenset(("script", "style"))
"""The elements of HTML, also obsolete ones: within a line, blocks of running text, items of their own, never shown."""


def write_html(source: str, start: int, end: int, writer: Writer) -> None:
    """Write the text of the HTML in `source[start:end]`; whatever is not HTML stays as it is, such as `<id>`.

    A comment or script without an end stays too. Takes linear time.
    """
    position = start
    comments_end = hidden_end = True
    at = source.find("<", start, end)
    while at >= 0:
        following = at
        if source.startswith("<!--", at):
            closing = source.find("-->", at + 4, end) if comments_end else -1
            comments_end = closing >= 0
            following = closing + 3 if comments_end else at
        elif declaration := _DECLARATION.match(source, at, end):
            following = declaration.end()
        elif tag := _TAG.match(source, at, end):
            name = tag[1].lower()
            between = _find_separator(name)
            if between is not None:
                following = tag.end()
                if name in _HIDDEN and hidden_end and source[at + 1] != "/":
                    hidden = _HIDDEN_END.search(source, following, end)
                    hidden_end = hidden is not None
                    following = hidden.end() if hidden else following
        if following > at:
            _write_text(source, position, at, writer)
            if not source.startswith("<!", at):
                writer.separate(between or 0)
            position = following
        at = source.find("<", max(following, at + 1), end)
    _write_text(source, position, end, writer)


def _find_separator(name: str) -> int | None:
    if name in _INLINE_TAGS:
        return 0
    if name in _FLOWING:
        return SPACE
    return BREAK if name in _SEPARATE_TAGS else None


def _write_text(source: str, start: int, end: int, writer: Writer) -> None:
    position = start
    for reference in _REFERENCE.finditer(source, start, end):
        writer.write(source[position : reference.start()], position)
        writer.write(html.unescape(reference[0]), reference.start())
        position = reference.end()
    writer.write(source[position:end], position)
