"""Find invisible characters where no script or emoji needs them."""

import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import Final

from app.documents.screening.rules import Finding

_INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff9-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_RUN = re.compile(f"[{_INVISIBLE}]+")

_MOST = 3
"""Adjacent invisible characters that no ordinary text has, except in an emoji flag."""

_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]")
_NEAR = 200
"""Characters on each side in which text from right to left justifies a mark of direction."""

_ALPHABETIC = re.compile("[0-9A-Za-z\u00aa\u00b5\u00ba\u00c0-\u024f\u0370-\u052f\u1e00-\u1fff]")
"""Digits, and letters of the scripts that need no invisible character inside a word: Latin, Greek, Cyrillic."""
_IDEOGRAPH = re.compile("[\u3005-\u3007\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_EMOJI_FLAG = re.compile("\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{3,6}\U000e007f")

_LETTER = re.compile(r"[^\W\d_]")
_ODD_HYPHEN = re.compile(r"(?<=(?<![^\W\d_])[^\W\d_])\u00ad(?=[^\W\d_])")
"""A soft hyphen after the first letter of a word, or a letter after another one: no language divides a word there."""
_OTHERS = (
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u0501\u04bb\u051b\u051d\u0410\u0412\u0415\u041a"
    "\u041c\u041d\u041e\u0420\u0421\u0422\u0425\u0406\u0405\u03bf\u0391\u0392\u0395\u0397\u0399\u039f\u03a1"
)
_LATIN = str.maketrans(_OTHERS, "aeopcyxijsdhqwABEKMHOPCTXISoABEHIOP")
"""Cyrillic and Greek letters, each with the Latin letter that looks the same."""
_MIXED = re.compile(f"(?<=[a-zA-Z])[{_OTHERS}]|[{_OTHERS}](?=[a-zA-Z])")
_WORD = re.compile(r"[^\W\d_]*")
_ALL_LATIN = re.compile(f"[a-zA-Z{_OTHERS}]*[a-zA-Z]{{2}}[a-zA-Z{_OTHERS}]*|[{_OTHERS}][a-zA-Z][{_OTHERS}]+")
"""A word of Latin letters and of others that look like them. Words that have further letters are names of products."""
_ODD_SPACE = re.compile("(?<=[a-z,.;:])[\u2000-\u2008\u205f\u1680](?=[a-zA-Z])")
"""A space of unusual width between words; typesetting uses them at numbers and marks."""
_FEWEST_SPACES = 2
_WIDE = "\uff21-\uff3a\uff41-\uff5a"
_WIDE_LETTER = re.compile(f"(?<=[a-z])[{_WIDE}]|[{_WIDE}](?=[a-z])")
_LONGEST_WORD = 60

_ALWAYS = frozenset("\u17b4\u17b5\u202d\u202e\ufff9\ufffa\ufffb" + "".join(map(chr, range(0x206A, 0x2070))))
"""Overrides of direction, deprecated formatting, and annotations between lines."""
_JOINERS = frozenset("\u200b\u200c\u200d\u2060\u2061\u2062\u2063\u2064\ufeff\u00ad\u034f")
_TO_THE_LEFT = frozenset("\u202b\u2067")
_CLOSED_BY = dict.fromkeys("\u202a\u202b", "\u202c") | dict.fromkeys("\u2066\u2067\u2068", "\u2069")
"""What ends an embedding or an isolate of direction (UAX #9, 2.1 and 2.4). Compilers warn where a line has none, since
the text is then shown in another order than it is read (CVE-2021-42574)."""
_LONGEST_ISOLATE = 2_000
_FILLERS = frozenset("\u115f\u1160\u3164\uffa0")


def _find_invisible(text: str) -> Iterator[Finding]:
    for match in _RUN.finditer(text):
        start, end = match.span()
        if _is_suspicious(text, start, end):
            yield Finding("zero_width", start, end)
    for match in _ODD_HYPHEN.finditer(text):
        yield Finding("zero_width", *match.span())


def _find_odd_spaces(text: str) -> Iterator[Finding]:
    spaces = [match.start() for match in _ODD_SPACE.finditer(text)]
    if len(spaces) >= _FEWEST_SPACES:
        yield Finding("zero_width", spaces[0], spaces[-1] + 1)


def _find_mixed_words(text: str) -> Iterator[Finding]:
    end = 0
    for match in _MIXED.finditer(text):
        if match.start() >= end:
            start = match.start()
            while start > end and match.start() - start < _LONGEST_WORD and _LETTER.match(text, start - 1):
                start -= 1
            word = _WORD.match(text, start, start + 2 * _LONGEST_WORD)
            end = word.end() if word else match.end()
            if _ALL_LATIN.fullmatch(text, start, end):
                yield Finding("zero_width", start, end)


def _find_wide_letters(text: str) -> Iterator[Finding]:
    """Full-width letters within words of ASCII letters: texts of East Asia have whole words of them."""
    for match in _WIDE_LETTER.finditer(text):
        yield Finding("zero_width", *match.span())


FINDERS: Final[tuple[tuple[str, Callable[[str], Iterator[Finding]]], ...]] = (
    (f"[{_INVISIBLE}]", _find_invisible),
    (f"[a-zA-Z][{_OTHERS}]|[{_OTHERS}][a-zA-Z]", _find_mixed_words),
    ("[a-z,.;:][\u2000-\u2008\u205f\u1680][a-zA-Z]", _find_odd_spaces),
    (f"[a-z][{_WIDE}]|[{_WIDE}][a-z]", _find_wide_letters),
)
"""What finds odd characters, each with a pattern that is in every text in which it can find some."""


def replace_lookalikes(text: str) -> str:
    """The text with the Latin letters that others resemble, and without invisible characters."""
    return _RUN.sub("", text).translate(_LATIN)


def _is_suspicious(text: str, start: int, end: int) -> bool:
    run = text[start:end]
    if run[0] >= "\U000e0000" and start and _EMOJI_FLAG.match(text, start - 1, end):
        return len(_EMOJI_FLAG.match(text, start - 1, end).group()) != end - start + 1  # type: ignore[union-attr]
    if len(run) >= _MOST:
        return True
    before, after = text[start - 1 : start], text[end : end + 1]
    return any(_is_misplaced(c, text, start, before, after, alone=len(run) == 1) for c in run)


def _is_misplaced(c: str, text: str, place: int, before: str, after: str, *, alone: bool) -> bool:
    if c in _ALWAYS or "\U000e0000" <= c <= "\U000e007f":
        return True
    if c in _JOINERS:
        return _is_inside_word(c, before, after)
    if c in _CLOSED_BY:
        if _RIGHT_TO_LEFT.search(text, max(0, place - _NEAR), place + _NEAR):
            return False
        return c in _TO_THE_LEFT or not _is_closed(text, place, _CLOSED_BY[c])
    if "\ufe00" <= c <= "\ufe0f" or c >= "\U000e0100":
        return _selects_nothing(c, before, alone=alone)
    if c in _FILLERS:
        return not any(
            "\u1100" <= n <= "\u11ff" or "\uac00" <= n <= "\ud7ff" or "\u3131" <= n <= "\u318e" for n in (before, after)
        )
    return False


def _is_closed(text: str, place: int, closing: str) -> bool:
    """Whether the direction that begins here ends before its line."""
    end = text.find("\n", place, place + _LONGEST_ISOLATE)
    return text.find(closing, place, place + _LONGEST_ISOLATE if end < 0 else end) >= 0


def _is_inside_word(c: str, before: str, after: str) -> bool:
    """Whether letters on both sides would be one word. A break between the words of a name (`getText`) is usual, and so
    is a soft hyphen between letters."""
    if c == "\u00ad" or not before or not after:
        return False
    if c == "\u200b" and before.islower() and after.isupper():
        return False
    return _ALPHABETIC.match(before) is not None and _ALPHABETIC.match(after) is not None


def _selects_nothing(c: str, before: str, *, alone: bool) -> bool:
    """Whether a variation selector follows a character that has no variants, or another invisible character."""
    if not before:
        return True
    if c >= "\U000e0100":
        return not (alone and _IDEOGRAPH.match(before))
    if before in "0123456789#*":
        return c not in "\ufe0e\ufe0f"
    return unicodedata.category(before)[0] not in "SPL" or (before.isascii() and before.isalpha()) or before == " "
