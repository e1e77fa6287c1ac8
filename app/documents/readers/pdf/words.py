"""The words of a page with their places and styles."""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby, repeat
from typing import NamedTuple

from app.documents.parsed import HiddenReason
from app.documents.readers.builder import remove_marks
from app.documents.readers.pdf import pdfium
from app.documents.readers.text import clean_text

_CONTROL = re.compile("[\x01\x03-\x08\x0b-\x1f\x80-\x9f]")
_HALF = re.compile("[\ud800-\udfff]")
_PRINTED = re.compile(r"[a-z]{3,}")
# The two encodings of TeX's text fonts, OT1 and T1. The ligatures ff, fi, fl, ffi and ffl have five codes in a row.
_OLD_LIGATURES = {0x0B + place: chr(0xFB00 + place) for place in range(5)}
_NEW_LIGATURES = {0x1B + place: chr(0xFB00 + place) for place in range(5)}
_OLD = {**_OLD_LIGATURES, 0x10: "ı", 0x19: "ß", ord("{"): "–", ord("|"): "—", ord("\\"): "“"}
_OLD_SIGN = re.compile(r"[{|\\]")
_NEW = {**_NEW_LIGATURES, **dict(enumerate("‚‹›“”„«»–—", start=0x0D)), 0x19: "ı"}
_NOTHING = "\u00ad"
"""A character that is removed from words, which stay whole."""
_SYMBOLS = {0x0F: "•", 0x88: "•"}
"""Characters of TeX's symbol fonts, which begin the items of lists."""


def read_controls(text: str, handles: Sequence[int | None]) -> str:
    """The text of a page without control characters that its fonts draw, as long as before; `handles` are the text
    objects that draw the characters, None for those that PDFium adds."""
    drawn = [match.start() for match in _CONTROL.finditer(text) if handles[match.start()]]
    if not drawn:
        return text
    fonts: dict[int, list[int]] = {}

    @cache
    def find_font(handle: int | None) -> int:
        return (pdfium.get_font(handle) or 0) if handle else 0

    for index in drawn:
        fonts.setdefault(find_font(handles[index]), []).append(index)
    of_text = {find_font(handles[match.start()]) for match in _PRINTED.finditer(text)}
    characters = list(text)
    old: set[int] = set()
    for font, places in fonts.items():
        codes = {ord(text[index]) for index in places}
        meanings = _SYMBOLS
        if font in of_text:
            meanings = _OLD if codes & _OLD_LIGATURES.keys() and not codes & _NEW_LIGATURES.keys() else _NEW
        if meanings is _OLD:
            old.add(font)
        for index in places:
            characters[index] = meanings.get(ord(text[index]), _NOTHING)
    for match in _OLD_SIGN.finditer(text) if old else ():
        if find_font(handles[match.start()]) in old:
            characters[match.start()] = _OLD[ord(match.group())]
    return "".join(characters)


# The bold fonts of Nimbus are called Medi, and those of Linux Libertine end in TB.
_BOLD = re.compile(
    r"bold|black|heavy|demi|semib|-bd|-medi(?!um)|lin(?:libertine|biolinum)tb|^(?:[A-Z]{6}\+)?(?:cmbx|sfbx|cmssbx|cmb\d)",
    re.I,
)
_FIXED = re.compile(r"mono|courier|consol|menlo|typewriter|^(?:[A-Z]{6}\+)?(?:cmtt|sftt|cmsltt|ectt)", re.I)
_FIXED_FLAG, _BOLD_FLAG = 1, 1 << 18
_LEAST_LETTERS = 20
"""Letters of words that show whether the characters of a font have the same width."""
_LEAST_WORDS = 5
_SAME_WIDTH = 0.008
"""Share of the font size."""


class Font(NamedTuple):
    """Whether a font is bold, whether its characters have the same width, and whether it has a name."""

    bold: bool
    fixed: bool
    named: bool


def describe_font(font: int) -> Font:
    """The style that a font states; 0 is an unknown font."""
    if not font:
        return Font(bold=False, fixed=False, named=True)
    name = pdfium.read_name(font)
    # Not by its weight, which PDFium derives from the width of stems: that of Times-Roman can be 695.
    flags = pdfium.get_font_flags(font)
    bold = bool(flags & _BOLD_FLAG) or _BOLD.search(name) is not None
    fixed = bool(flags & _FIXED_FLAG) or _FIXED.search(name) is not None
    return Font(bold, fixed, bool(name))


def find_fixed(words: Sequence[tuple[str, float, float]]) -> bool:
    """Whether words of one font, with their widths and sizes, are set in characters of the same width."""
    letters = [(text, width / len(text) / size) for text, width, size in words if text.isalpha() and size > 0]
    if sum(len(text) for text, _ in letters) < _LEAST_LETTERS or len(letters) < _LEAST_WORDS:
        return False
    widths = [width for _, width in letters]
    return max(widths) - min(widths) <= _SAME_WIDTH


# PDFium writes the hyphen at the end of a line as U+0002 or U+FFFE and continues with the next line.
_WORD = re.compile("[^\\s\x00\x02\ufffe]+[\x02\ufffe]?")
_LIGATURES = str.maketrans(
    {0xFB00: "ff", 0xFB01: "fi", 0xFB02: "fl", 0xFB03: "ffi", 0xFB04: "ffl", 0xFB05: "st", 0xFB06: "st"}
    | {0x02: "-", 0xFFFE: "-"}
)
_RAISED = 0.85
_SPACE = 0.15
"""Share of the font size: a wider gap within a word is a space, of which 0.25 is usual."""
_MARKER = re.compile(r"\d{1,3}|[*†‡§¶]{1,3}")


RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_ARABIC_LIGATURES = range(0xFC00, 0xFEFD)


@dataclass(frozen=True, slots=True)
class Style:
    """The style of text.

    Attributes:
        size: of the font in points, as it appears.
        colour: red, green, blue and alpha of its filling; None for a pattern.
        mode: the render mode; 3 is invisible.
        turns: by how many quarters the text is rotated counterclockwise.
    """

    size: float
    bold: bool
    fixed: bool
    colour: tuple[int, int, int, int] | None
    mode: int
    turns: int


@dataclass(frozen=True, slots=True, eq=False)
class Tag:
    """One heading of the structure tree; two with the same level are different."""

    level: int


@dataclass(slots=True)
class Word:
    """A word from `x0` to `x1` on the base line `y`.

    Attributes:
        handle: the text object that draws its beginning.
        place: of its first character in the order of reading that PDFium finds for a line.
        glued: whether no space precedes it.
        raised: whether it is the mark of a footnote: small and above its line.
        hidden: why a reader does not see it, None if it is visible.
        tag: the heading of which it is a part by the tags of the file.
    """

    text: str
    x0: float
    x1: float
    y: float
    style: Style
    handle: int
    place: int = 0
    glued: bool = False
    raised: bool = False
    hidden: HiddenReason | None = None
    tag: Tag | None = None


class Box(NamedTuple):
    """A rectangle of the page."""

    x0: float
    y0: float
    x1: float
    y1: float


def read_words(text_page: int) -> list[Word]:
    """The words in the order in which the file draws them, at most roughly; rotated words have their turns."""
    count = max(0, pdfium.count_characters(text_page))
    text = "".join(map(chr, map(_valid, map(pdfium.get_unicode, repeat(text_page, count), range(count)))))
    handles = list(map(pdfium.get_text_object, repeat(text_page, count), range(count)))
    text = read_controls(text, handles)
    styles = _Styles(text_page)
    spans = [
        span for match in _WORD.finditer(text) for span in _cut(text_page, match.start(), match.end(), handles, styles)
    ]
    if not spans:
        return []
    firsts, lasts = [span[0] for span in spans], [span[1] - 1 for span in spans]
    first, last = (pdfium.read_boxes(text_page, characters) for characters in (firsts, lasts))
    origin = pdfium.read_origins(text_page, firsts)
    words = []
    for place, (start, end, glued) in enumerate(spans):
        shown = text[start:end]
        x0, x1 = first[4 * place], last[4 * place + 2]
        if not shown.isascii() and RIGHT_TO_LEFT.search(shown):
            # PDFium puts a space before a mark, which stands on a letter.
            glued = glued or unicodedata.combining(shown[0]) > 0
            shown, x0, x1 = read_right_to_left(text_page, shown, start)
        if not shown.isascii() or not shown.isprintable():
            shown = clean_text(remove_marks(_join_halves(shown.translate(_LIGATURES))))
            if not shown or shown.isspace():
                continue
        handle = handles[start]
        style = styles.find(handle, start)
        x, y = origin[2 * place : 2 * place + 2]
        if style.turns:
            at = 4 * place
            left, right = (  # left, top, right, bottom
                rotate_box(surround((box[at], box[at + 1]), (box[at + 2], box[at + 3])), style.turns)
                for box in (first, last)
            )
            x0, x1, y = left.x0, right.x1, rotate_box(Box(x, y, x, y), style.turns).y0
        words.append(Word(shown, min(x0, x1), max(x0, x1), y, style, handle, start, glued))
    styles.measure_fonts(words)
    _join_raised(words)
    return words


def _join_halves(text: str) -> str:
    """A text of UTF-16 units, in which a character above U+FFFF is two, as characters."""
    if not _HALF.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").replace("\ufffd", "")


def read_right_to_left(text_page: int, text: str, start: int) -> tuple[str, float, float]:
    """A word with its left and right end; its first letter is the rightmost, unless it begins in Latin letters.

    PDFium reverses the characters of a line, also the letters of a ligature and a mark that is drawn after its letter.
    """
    boxes = pdfium.read_boxes(text_page, range(start, start + len(text)))
    lefts, rights = boxes[::4], boxes[2::4]
    order = list(range(len(text)))
    for place in range(len(text) - 1):
        middle = (lefts[place] + rights[place]) / 2
        before = place > 0 and lefts[place - 1] < middle < rights[place - 1]
        if unicodedata.combining(text[place]) and not before and lefts[place + 1] < middle < rights[place + 1]:
            order[place], order[place + 1] = place + 1, order[place]
    letters = [place for place in order if text[place].isalpha()]
    if (
        len(letters) > 1
        and lefts[letters[0]] < lefts[letters[-1]]
        and all(map(RIGHT_TO_LEFT.match, text[letters[0] : letters[-1] + 1]))
    ):
        # A line with numbers, of which PDFium has not reversed this word.
        order[letters[0] : letters[-1] + 1] = order[letters[0] : letters[-1] + 1][::-1]
    parts = []
    for _, group in groupby(order, lambda place: (lefts[place], rights[place])):
        drawn = "".join(text[place] for place in group)
        parts.append(_find_reversed().get(drawn, drawn) if len(drawn) > 1 else drawn)
    return "".join(parts), min(lefts), max(rights)


@cache
def _find_reversed() -> dict[str, str]:
    """The letters of each Arabic ligature, by these letters in reverse order, where those are not another ligature."""
    ligatures = {unicodedata.normalize("NFKC", chr(code)) for code in _ARABIC_LIGATURES}
    return {text[::-1]: text for text in ligatures if len(text) > 1 and text[::-1] not in ligatures}


def surround(*points: tuple[float, float]) -> Box:
    """The smallest box with all of these points."""
    xs, ys = zip(*points, strict=True)
    return Box(min(xs), min(ys), max(xs), max(ys))


def rotate_box(box: Box, turns: int) -> Box:
    """The place of a box of the page in the coordinates of words with `turns`."""
    x0, y0, x1, y1 = box
    match turns:
        case 1:
            return Box(y0, -x1, y1, -x0)
        case 2:
            return Box(-x1, -y1, -x0, -y0)
        case 3:
            return Box(-y1, x0, -y0, x1)
    return box


def find_turns(words: Sequence[Word]) -> int:
    """The rotation of most of the text."""
    lengths: Counter[int] = Counter()
    for word in words:
        lengths[word.style.turns] += len(word.text)
    return max(lengths, key=lambda turns: (lengths[turns], -turns), default=0)


class _Styles:
    """The styles of the text objects of a page, each read once."""

    def __init__(self, text_page: int) -> None:
        self._page = text_page
        self._by_handle: dict[int, Style] = {}
        self._fonts: dict[int, Font] = {}
        self._same: dict[Style, Style] = {}
        self._matrix = pdfium.floats(6)
        self._colour = pdfium.integers(4)

    def find(self, handle: int, index: int) -> Style:
        style = self._by_handle.get(handle)
        if style is None:
            style = self._read(handle, index)
            style = self._by_handle[handle] = self._same.setdefault(style, style)
        return style

    def _read(self, handle: int, index: int) -> Style:
        size = abs(pdfium.get_font_size(self._page, index))
        turns = 0
        if pdfium.get_matrix(self._page, index, self._matrix.at[0]):
            a, b, c, d = self._matrix.values[:4]
            size *= (c * c + d * d) ** 0.5
            if abs(b) > abs(a):
                turns = 1 if b > 0 else 3
            elif a < 0 and d < 0:
                turns = 2
        if not handle:
            return Style(round(size, 1), False, False, (0, 0, 0, 255), 0, turns)
        font = self._find_font(handle)
        colour = None
        if pdfium.get_fill_colour(handle, *self._colour.at):
            red, green, blue, alpha = self._colour.values
            colour = (red, green, blue, alpha)
        mode = pdfium.get_render_mode(handle)
        return Style(round(size, 1), font.bold, font.fixed, colour, mode, turns)

    def measure_fonts(self, words: Sequence[Word]) -> None:
        """Find by the widths of their words which fonts without a name have characters of the same width."""
        if all(font.named for font in self._fonts.values()):
            return
        measured: dict[int, list[Word]] = {}
        for word in words:
            if word.handle and not self._find_font(word.handle).named:
                measured.setdefault(pdfium.get_font(word.handle) or 0, []).append(word)
        for drawn in measured.values():
            if find_fixed([(word.text, word.x1 - word.x0, word.style.size) for word in drawn]):
                for word in drawn:
                    style = replace(word.style, fixed=True)
                    word.style = self._same.setdefault(style, style)

    def _find_font(self, handle: int) -> Font:
        font = pdfium.get_font(handle) or 0
        if font not in self._fonts:
            self._fonts[font] = describe_font(font)
        return self._fonts[font]


def _valid(code: int) -> int:
    return code if code < 0x110000 else 0xFFFD


def _cut(page: int, start: int, end: int, handles: Sequence[int], styles: _Styles) -> list[tuple[int, int, bool]]:
    """Cut a word, as (start, end, glued), where the size of its font changes, at a mark of a footnote or an index, and
    at spaces that PDFium does not see: it expects wide ones after wide letters."""
    if handles[start] == handles[end - 1]:
        return [(start, end, False)]
    style = styles.find(handles[start], start)
    spaces = _find_spaces(page, start, end, style.size) if style.turns == 0 else frozenset()
    spans = []
    first, size = start, style.size
    for index in range(start + 1, end):
        new = size
        if handles[index] != handles[index - 1] and handles[index]:
            new = styles.find(handles[index], index).size
        if new != size or index in spaces:
            spans.append((first, index, first > start and first not in spaces))
            first, size = index, new
    return [*spans, (first, end, first > start and first not in spaces)]


def _find_spaces(page: int, start: int, end: int, size: float) -> frozenset[int]:
    """The characters of a word before which is a gap, if it is not set with wide gaps throughout."""
    values = pdfium.read_boxes(page, range(start, end))
    gaps = [right - left for left, right in zip(values[2::4], values[4::4], strict=False)]
    wide = frozenset(index for index, gap in enumerate(gaps, start + 1) if gap > _SPACE * size)
    return wide if len(gaps) > 2 * len(wide) else frozenset()


def _join_raised(words: Sequence[Word]) -> None:
    """Put small words above or below a line onto the line of their neighbour."""
    for place, word in enumerate(words):
        for other in (words[place - 1] if place else None, words[place + 1] if place + 1 < len(words) else None):
            if other is None or word.style.size >= _RAISED * other.style.size:
                continue
            size = other.style.size
            gap = max(word.x0 - other.x1, other.x0 - word.x1)
            lift = word.y - other.y
            if 0.05 * size < abs(lift) < 0.6 * size and gap < 0.35 * size:
                word.raised = lift > 0.15 * size and _MARKER.fullmatch(word.text) is not None
                word.glued = word.glued or (word.x0 >= other.x1 - 1 and gap < 0.12 * size)
                word.y = other.y
                break
