"""Convert Markdown and HTML to plain text on one line, and map each position to its source."""

import html
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from typing import Any, Final, TypeAlias

import pyromark

_JOINER = "\u200d"
_SKIN_TONES = "\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"
_SPACING_VOWELS = "\u0e33\u0eb3"
_VIRAMA = 9

_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u0f00-\u109f\u1780-\u17ff\u2e80-\u312f\u3190-\ua4cf\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef"
    "\U0001b000-\U0001b2ff\U00020000-\U0003ffff]"
)
"""Scripts without spaces between words: Thai, Lao, Tibetan, Burmese, Khmer, Chinese, Japanese."""


def is_character_start(text: str, at: int) -> bool:
    """Whether a character, as a reader sees it, starts at this offset; as the extended grapheme clusters of UAX 29."""
    if at <= 0 or at >= len(text):
        return True
    before, after = text[at - 1], text[at]
    if before.isascii() and after.isascii():
        return True
    if unicodedata.category(after)[0] == "M" or after in _JOINER + "\u200c" + _SKIN_TONES + _SPACING_VOWELS:
        return False
    if before == _JOINER or "\U000e0020" <= after <= "\U000e007f":
        return False
    if unicodedata.combining(before) == _VIRAMA and after.isalpha():
        return False
    if _is_flag_letter(after) and _is_flag_letter(before):
        first = at - 1
        while first > 0 and _is_flag_letter(text[first - 1]):
            first -= 1
        return (at - first) % 2 == 0
    return not ("\u1100" <= before <= "\u11ff" and "\u1160" <= after <= "\u11ff")


def is_word_start(text: str, at: int) -> bool:
    """Whether a word starts at this offset; in a script without spaces, any character."""
    if at <= 0:
        return True
    if at >= len(text) or text[at].isspace():
        return False
    return text[at - 1].isspace() or _is_between_unspaced(text, at)


def is_word_end(text: str, at: int) -> bool:
    """Whether a word ends before this offset; in a script without spaces, any character."""
    if at >= len(text):
        return True
    if at <= 0 or text[at - 1].isspace():
        return False
    return text[at].isspace() or _is_between_unspaced(text, at)


def _is_between_unspaced(text: str, at: int) -> bool:
    is_unspaced = _UNSPACED.match(text, at - 1) or _UNSPACED.match(text, at)
    return bool(is_unspaced) and is_character_start(text, at)


def _is_flag_letter(letter: str) -> bool:
    return "\U0001f1e6" <= letter <= "\U0001f1ff"


_PLACE, _ORIGIN = itemgetter(0), itemgetter(1)

SPACE, BREAK = 1, 2
"""Between two pieces: a space; or a middle dot, unless the first piece ends in a punctuation mark."""

_STOPS = frozenset(".:;,!?…–—·。、，；：！？")
_ODD_SPACE = re.compile(r"[^\S \n]")
_SPACES = bytes(ord(" ") if _ODD_SPACE.match(chr(code)) else code for code in range(256))
_RUN = re.compile(r"\S+(?: \S+)*")

DELIMITER = re.compile(r"^[ \t]*\|?(?:[ \t:]*-+[ \t:]*\|)+[ \t:-]*$", re.MULTILINE)
"""The line below the header of a table of Markdown rows, also without its beginning."""


Piece: TypeAlias = tuple[int, int, int]
"""A piece of a text: where it starts in the text, where it starts in the source, and its length."""


@dataclass(frozen=True, slots=True)
class PlainText:
    """A text for reading, and its pieces in order; `is_whole` is false if the end of the source is missing."""

    text: str
    pieces: Sequence[Piece]
    is_whole: bool = True

    def place_of(self, origin: int) -> int:
        """Where a character of the source is in the text; if it is not shown, where the text before it ends."""
        number = bisect_right(self.pieces, origin, key=_ORIGIN) - 1
        if number < 0:
            return 0
        place, start, length = self.pieces[number]
        return place + min(origin - start, length)

    def origin_of(self, place: int) -> int:
        """Where a character of the text is in the source."""
        number = bisect_right(self.pieces, place, key=_PLACE) - 1
        if number < 0:
            return 0
        start, origin, length = self.pieces[number]
        return origin + min(place - start, length)


class Writer:
    """Joins pieces of text in the order of their source, and folds their white space."""

    __slots__ = ("_between", "_length", "_parts", "_pieces")

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._pieces: list[Piece] = []
        self._length = 0
        self._between = 0

    def separate(self, between: int) -> None:
        """Put SPACE or BREAK before the next piece."""
        if between > self._between:
            self._between = between

    def write(self, text: str, origin: int) -> None:
        """Add a piece of text that starts at `origin` in the source; its white space is as `unify_spaces` leaves it."""
        if "\n" in text or "  " in text or text.isspace():
            self._write_runs(text, origin)
            return
        if text[:1] == " ":
            text, origin = text[1:], origin + 1
            between = self._between or SPACE
        else:
            between = self._between
        if not text:
            return
        parts = self._parts
        if between and parts:
            joint = " · " if between == BREAK and parts[-1][-1] not in _STOPS else " "
            parts.append(joint)
            self._length += len(joint)
        if text[-1] == " ":
            text, self._between = text[:-1], SPACE
        else:
            self._between = 0
        length = len(text)
        parts.append(text)
        self._pieces.append((self._length, origin, length))
        self._length += length

    def _write_runs(self, text: str, origin: int) -> None:
        end = 0
        for run in _RUN.finditer(text):
            if run.start() > end:
                self.separate(SPACE)
            self.write(run[0], origin + run.start())
            end = run.end()
        if end < len(text):
            self.separate(SPACE)

    def finish(self, *, is_whole: bool = True) -> PlainText:
        """The text so far."""
        return PlainText("".join(self._parts), self._pieces, is_whole)


def unify_spaces(source: str) -> str:
    """The source with a space for each tab, no-break space and other white space except line ends."""
    # The pattern takes ten times as long.
    return source.encode().translate(_SPACES).decode() if source.isascii() else _ODD_SPACE.sub(" ", source)


def fold(source: str) -> PlainText:
    """The source itself as one line, without the lines below the headers of tables."""
    writer = Writer()
    end = 0
    for line in DELIMITER.finditer(source) if "|" in source and "-" in source else ():
        writer.write(unify_spaces(source[end : line.start()]).replace("\n", " "), end)
        writer.separate(SPACE)
        end = line.end()
    writer.write(unify_spaces(source[end:]).replace("\n", " "), end)
    return writer.finish()


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


_OPTIONS: Final = pyromark.Options.ENABLE_TABLES | pyromark.Options.ENABLE_STRIKETHROUGH
MOST_EVENTS = 4_000
"""Events of the parser that are rendered, which takes 4 ms; a text of 3,000 characters has about 200."""

_MARKS = "*`[]<&\\~|"
_UNDERSCORE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")
_LINE_MARK = re.compile(r"\n(?: *(?:[-+=>#]|\d{1,9}[.)])| {4})")
"""What may be Markdown or HTML: marks, underscores that are not inside a word, and starts of lines."""

_WIDE = re.compile(r"[^\x00-\x7f]")
_NUMBER = re.compile(r"\d{1,9}[.)]")
INCLUSION = r";?-+8<-+[^\n]*"
INCLUDED = re.compile(rf"^ *{INCLUSION}", re.M)
"""A line that includes another file, as pymdownx reads it."""
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
    if "8<-" in source:
        source = INCLUDED.sub(lambda line: " " * len(line[0]), source)
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
            # A character reference differs in length from its text; all other text is as in the source.
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
