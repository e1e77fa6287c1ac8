"""Split a text into words as `alembic/sql/lexemes.sql` does: folded, and in runs of scripts without spaces."""

from __future__ import annotations

import re
import unicodedata
from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

CHARACTERS = (
    r"\u0e01-\u0e30\u0e32\u0e40-\u0e46\u0e81-\u0eb0\u0eb2\u0ebd\u0ec0-\u0ec6\u0edc-\u0edf\u1000-\u102a\u103f"
    r"\u1050-\u1055\u105a-\u105d\u1061\u1065\u1066\u106e-\u1070\u1075-\u1081\u108e\u1100-\u115f\u1780-\u17b3"
    r"\u17d7\u17dc\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303b\u3041-\u3096\u309d-\u309f"
    r"\u30a1-\u30fa\u30fc-\u312f\u3131-\u318e\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97c"
    r"\uac00-\ud7a3\uf900-\ufaff\uff66-\uff9d\uffa0-\uffdc\U00020000-\U0003ffff"
)
"""Letters of scripts without spaces between words, and of Korean. A run of them is indexed as overlapping pairs."""

MARKS = (
    r"\u0e31\u0e33-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb3-\u0ebc\u0ec8-\u0ece\u102b-\u103e\u1056-\u1059\u105e-\u1060"
    r"\u1062-\u1064\u1067-\u106d\u1071-\u1074\u1082-\u108d\u108f\u109a-\u109d\u1160-\u11ff\u17b4-\u17d3\u17dd"
    r"\u3099\u309a\ud7b0-\ud7fb\ufe00-\ufe0f\uff9e\uff9f\U000e0100-\U000e01ef"
)
"""Marks that belong to such a letter before them: vowels, tones, voicing marks, variation selectors."""

COMBINING = "".join(
    chr(code) for code in (*range(0x300, 0x1E00), *range(0xA800, 0xAC00)) if unicodedata.category(chr(code))[0] == "M"
)
"""Marks that belong to a word of any script."""

RUN = re.compile(f"(?:[{CHARACTERS}][{MARKS}]*)+")
CHARACTER = re.compile(f"[{CHARACTERS}][{MARKS}]*")
MARK = re.compile(f"[{MARKS}]")
WORD = re.compile(rf"(?P<run>(?:[{CHARACTERS}][{MARKS}]*)+)|(?:(?![{CHARACTERS}])[^\W_]|[{COMBINING}\u200c\u200d])+")
"""A run; or letters and digits, with their marks and joiners."""

_OF_OTHER_WIDTH = re.compile("[\uf900-\ufaff\uff10-\uff5a\uff66-\uff9f]")
_ACCENTED = re.compile(
    r"([A-Za-z\u00c0-\u02af\u0370-\u03ff\u0415\u0435\u1e00-\u1eff])[\u0300-\u036f]+|([\u0400-\u04ff])[\u0300\u0301]+"
)
_REMOVED = re.compile(
    "["
    r"\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06dc"
    r"\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u093c\u200c\u200d\ufe00-\ufe0f\U000e0100-\U000e01ef"
    "]+"
)
_SPECIAL = str.maketrans(
    {"ß": "ss", "æ": "ae", "œ": "oe", "þ": "th"} | dict(zip("øđħŧłðıŋəſςىیةکۀ", "odhtldinesσييهكه", strict=True))
)
_GERMAN_E = re.compile(r"([ao])e")
_GERMAN_UE = re.compile(r"(^|[^aeiouyq])ue")


def find_words(text: str) -> list[str]:
    """The words of a text in order; a run of a script without spaces is one."""
    return [match[0] for match in WORD.finditer(text)]


def is_run(word: str) -> bool:
    """Whether a word or lexeme is a run, or a pair of its characters."""
    return RUN.match(word) is not None


def remove_runs(text: str) -> str:
    """The text without its runs, for comparisons of spelling: a pair of characters is not a word."""
    return RUN.sub(" ", text)


def split_run(run: str) -> list[str]:
    """The words that Postgres has for a run: its pairs of characters, or its only character."""
    characters = CHARACTER.findall(run)
    return [a + b for a, b in pairwise(characters)] or characters


def unify(text: str) -> str:
    """The compatible form of the characters: full-width letters, half-width kana, ligatures, composed accents."""
    return text if text.isascii() else unicodedata.normalize("NFKC", text)


@lru_cache(maxsize=8192)
def fold(stem: str, language: str) -> str:
    """A stem as readers type it without diacritics: café as cafe, and in German haeuser as häuser."""
    if not stem.isascii():
        stem = _ACCENTED.sub(lambda match: match[1] or match[2], unicodedata.normalize("NFD", stem))
        stem = unicodedata.normalize("NFC", _REMOVED.sub("", stem)).translate(_SPECIAL).lower()
    if language == "german":
        stem = _GERMAN_UE.sub(r"\1u", _GERMAN_E.sub(r"\1", stem))
    return stem


def regularize(text: str) -> str:
    """The text in lowercase, with full-width letters and half-width kana in their usual width, and the same offsets."""
    lowered = text.lower()
    if text.isascii():
        return lowered
    if len(lowered) != len(text):
        # A few letters, such as İ, become two in lowercase; they are left as they are, so that offsets stay valid.
        lowered = "".join(low if len(low := letter.lower()) == 1 else letter for letter in text)
    return lowered.translate(_list_widths()) if _OF_OTHER_WIDTH.search(lowered) else lowered


@lru_cache(maxsize=1)
def _list_widths() -> dict[int, str]:
    codes = (*range(0xF900, 0xFB00), *range(0xFF10, 0xFFA0))
    return {code: usual for code in codes if len(usual := unicodedata.normalize("NFKC", chr(code))) == 1}


def find_matched_parts(runs: Sequence[str], text: str, places: Sequence[tuple[int, int]]) -> set[str]:
    """The longest parts of the query's runs that a text has, if the runs' pairs are at these places of it, in order."""
    parts: set[str] = set()
    starts: deque[int] = deque()
    """Where the pairs of the current part start: each pair overlaps the next."""
    end = -1
    for first, last in places:
        before = (starts[0], end) if starts else None
        if first >= end:
            starts.clear()
        starts.append(first)
        end = last
        # Characters outside a run stay outside when more characters precede them.
        while len(starts) > 1 and not any(has_part(run, compose(text[starts[0] : end])) for run in runs):
            starts.popleft()
        if before is not None and starts[0] != before[0]:
            parts.add(compose(text[slice(*before)]))
    if starts:
        parts.add(compose(text[starts[0] : end]))
    return parts


def has_part(run: str, part: str) -> bool:
    """Whether a run has these characters next to each other, each with its marks."""
    start = run.find(part)
    while start >= 0 and MARK.match(run, start + len(part)):
        start = run.find(part, start + 1)
    return start >= 0


def compose(text: str) -> str:
    """As `regularize`, and letters with marks are one character if there is one; offsets change."""
    return unicodedata.normalize("NFC", regularize(text))
