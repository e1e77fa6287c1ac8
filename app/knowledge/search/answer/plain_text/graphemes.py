"""Where a text may be cut: never inside what a reader sees as one character, and seldom inside a word."""

from __future__ import annotations

import re
import unicodedata

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
