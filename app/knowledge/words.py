"""Words of texts as `alembic/sql/lexemes.sql` has them: folded, stemmed, and in runs of scripts without spaces."""

import re
import string
import threading
import unicodedata
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, islice, pairwise
from typing import TypeAlias

from Stemmer import Stemmer

from app.contract.text import PICTURES
from app.contract.vocabulary import LANGUAGES
from app.documents.language import detect_language

CHARACTERS = (
    r"\u0e01-\u0e30\u0e32\u0e40-\u0e46\u0e81-\u0eb0\u0eb2\u0ebd\u0ec0-\u0ec6\u0edc-\u0edf\u1000-\u102a\u103f"
    r"\u1050-\u1055\u105a-\u105d\u1061\u1065\u1066\u106e-\u1070\u1075-\u1081\u108e\u1100-\u115f\u1780-\u17b3"
    r"\u17d7\u17dc\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303b\u3041-\u3096\u309d-\u309f"
    r"\u30a1-\u30fa\u30fc-\u312f\u3131-\u318e\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97c"
    r"\uac00-\ud7a3\uf900-\ufaff\uff66-\uff9d\uffa0-\uffdc\U0001f1e6-\U0001f1ff\U00020000-\U0003ffff"
)
"""Letters of scripts without spaces between words, of Korean, and of flags. A run of them is indexed as pairs that
overlap."""

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

RUN = re.compile(f"(?:[{CHARACTERS}][{MARKS}]*)+|[{PICTURES}]\ufe0f?")
CHARACTER = re.compile(f"[{CHARACTERS}][{MARKS}]*|[{PICTURES}]\ufe0f?")
MARK = re.compile(f"[{MARKS}]")
_SELECTOR = re.compile("[\ufe00-\ufe0f]")
"""Variation selectors, which make a character or picture look different; lexemes do not have them."""
WORD = re.compile(
    rf"(?P<run>{RUN.pattern})|(?:(?![{CHARACTERS}{PICTURES}])[^\W_]|[{COMBINING}\u200c\u200d\u00ad\u200b\u2060\ufeff])+"
)
"""A run, or a picture; or letters and digits, with their marks and joiners."""

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


INVISIBLE: Mapping[int, None] = dict.fromkeys((0xAD, 0x200B, 0x2060, 0xFEFF))
"""Soft hyphens, zero-width spaces and joiners: they are inside words, and no part of them."""

NAME = re.compile(
    r"(?<![^\W_])(?P<signed>[A-Za-z](?:\+\+|\#(?![A-Za-z_])|\+(?![^\W_]|\+)))"
    r"|(?<!\w)(?P<dotted>(?:[A-Z][a-z]|[A-Za-z])(?:\.(?:[A-Z][a-z]|[A-Za-z]))+)(?!\w)"
    r"|(?<!\w)(?P<joined>[A-Za-z]{1,5}(?:(?:&|\ &\ )[A-Za-z]{1,5})+)(?![\w=])"
    r"|(?:(?<=[\s(\"])|^)(?P<leading>\.[A-Za-z][^\W_]*)"
)
"""Names with signs that are part of them: C++, C# and A+, U.S.A. and Ph.D., AT&T and AT & T, .NET."""

_SPELT = str.maketrans({"+": "plus", "#": "sharp", "&": "and", ".": "", " ": ""})

SPECIAL = re.compile(rf"{NAME.pattern}|(?P<chain>[^\W_]+(?:[-_./,'\u2019][^\W_]+)+)|(?P<inner>[^\W_]{{2,}})")
"""A name, words that punctuation joins, or a word that may have parts."""

JOINERS = "-_./,'\u2019"
_WITHOUT_JOINERS = str.maketrans("", "", JOINERS)
_ASCII_JOINERS = JOINERS.encode("ascii", "ignore")
_SQUEEZED = {" & ": "and", "&": "and", "+": "plus", "#": "sharp"}
_SIGNED = {"plus": r"(?:plus|\+)", "sharp": "(?:sharp|#)", "and": "(?:and| ?& ?)"}
_PIECE = re.compile("plus|sharp|and|.", re.DOTALL)
_PART = re.compile(
    r"[A-ZÀ-ÖØ-Þ]+(?![a-zß-öø-ÿ]{2})|[A-ZÀ-ÖØ-Þ]?[a-zß-öø-ÿ]+|(?<![^\W_])0[Xx](?P<hex>[0-9A-Fa-f]{2,})|0*(?P<number>[0-9]+)"
)


def join_parts(word: str) -> str:
    """A word without what joins its parts: dryrun for dry-run."""
    return word.translate(_WITHOUT_JOINERS)


def spell_name(name: str) -> str:
    """The word that stands for a name with signs: `cplusplus`, `usa`, `atandt`, `dotnet`; any other word as it is."""
    return ("dot" if name.startswith(".") else "") + name.lower().translate(_SPELT)


def find_names(text: str) -> list[str]:
    """The names with signs in a text, in lowercase and in order."""
    return [match[0].lower() for match in NAME.finditer(text)]


def find_forms(text: str) -> Iterator[tuple[int, int, str]]:
    """The other forms of a text's words, each with its place: as `part_lexemes` in SQL, and as `find_spellings`."""
    for match in SPECIAL.finditer(text):
        start, end = match.span()
        if match["chain"] or match["inner"]:
            if match["chain"]:
                yield start, end, join_parts(match[0]).lower()
            parts = list(_PART.finditer(text, start, end))
            for place, part in enumerate(parts):
                word = part["hex"] or part["number"] or part[0]
                if part.span() != (start, end) or word != part[0]:
                    yield *part.span(), word.lower()
                # Parts without anything between them are words together too: of OAuth2Token also OAuth and OAuth2.
                for former, last in pairwise(parts[place : place + 4]):
                    if former.end() != last.start() or (part.start(), last.end()) == (start, end):
                        break
                    yield part.start(), last.end(), text[part.start() : last.end()].lower()
        else:
            yield start, end, spell_name(match[0])


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
    """As `regularize`, without invisible characters, and with letters and marks as one character; offsets change."""
    return unicodedata.normalize("NFC", regularize(text.translate(INVISIBLE)))


SNOWBALL = LANGUAGES[1:]
"""Languages with a stemmer of their name."""

STEMS = 16_384
"""Words whose stems are cached for each language: all frequent ones. They take 3 MB."""

_stemmers = threading.local()


def detect(title: str | None, content: str) -> str:
    """Detect the text-search configuration for an entry's text."""
    language = detect_language(f"{title}\n{content}" if title else content)
    return language if language in LANGUAGES else "simple"


ALGORITHMS = {"dutch": "dutch_porter"}
"""Snowball's names of stemmers that Postgres has by another: Snowball 3 has a new one for Dutch."""


def find_stemmer(language: str) -> Callable[[str], str]:
    """Return a function that makes a lowercase word the lexeme of `text_lexemes` in SQL: its stem, without diacritics.

    Stemmers are not thread-safe, so each thread has its own.
    """
    if language not in SNOWBALL:
        return lambda word: word if word.isascii() else fold(unify(word.translate(INVISIBLE)).lower(), language)
    known: dict[str, Callable[[str], str]] = _stemmers.__dict__.setdefault("known", {})
    if language not in known:
        stem: Callable[[str], str] = Stemmer(ALGORITHMS.get(language, language), 0).stemWord
        # The stemmers read ae in German as ä, which is left to fold for older versions of Postgres only.
        # Their own cache takes three times as long.
        known[language] = lru_cache(STEMS)(
            lambda word: (
                stem(word) if word.isascii() else fold(stem(unify(word.translate(INVISIBLE)).lower()), language)
            )
        )
    return known[language]


def spell(lexeme: str, language: str, text: str) -> str | None:
    """The first word of the text with the stem `lexeme`, in its original spelling; None if there is none."""
    stem = find_stemmer(language)
    for word in dict.fromkeys(find_words(text)):
        lowered = word.lower()
        if is_run(word):
            if lexeme in split_run(unify(lowered)):
                return lexeme
        elif lexeme in (lowered, fold(unify(lowered), language), stem(lowered)):
            return word
    return next((text[start:end] for start, end, form in find_forms(text) if lexeme in (form, stem(form))), None)


BLANKS = bytes(n if n > 127 or chr(n).isalnum() else ord(" ") for n in range(256))
"""A space for each ASCII character that belongs to no word."""

MOST_PLACES = 2_000
"""Places at which the words of the query are located in one text, the first ones of each word: a text can consist of
them, and finding the best window takes a microsecond for each.
"""

MOST_WORDS_IN_FORMS = 16
"""Words of the query that are looked for in other forms."""
MOST_AROUND = 100
"""Characters before and after a place that may belong to its word."""

PREFIXED = frozenset(("arabic", "indonesian", "irish", "tamil", "yiddish"))
"""Languages whose stemmers remove prefixes."""

FIRST_OF_RUNS = "\u0e01"

ASCII_LETTERS = f" {string.ascii_lowercase}{string.digits}"
"""All ASCII characters of a text in lowercase whose words are set apart by spaces."""

INSIDE = frozenset(COMBINING + "\u200c\u200d" + "".join(map(chr, INVISIBLE)))
"""Characters of words that are neither letters nor digits."""

_WIDE = re.compile(r"[^\x00-\x7f]")
_LONG = 5_000
"""Characters from which the set of all letters takes less time than the pattern, which finds each place of a letter."""

Found: TypeAlias = tuple[int, int, str]
"""A word of the query in a text: its start, its end, and its stem."""


class Vocabulary:
    """Finds words of the query in texts of one language."""

    def __init__(self, words: Sequence[str], language: str, lexemes: Collection[str]) -> None:
        lexemes = frozenset(lexemes)  # a query can have ten thousand, and Postgres returns them as a list
        self._stem = find_stemmer(language)
        self._keys: dict[str, str] = {}
        self._known: set[str] = set()
        """Words that were checked; those of the query have their stem in `_keys`."""
        self._pairs: dict[str, str] = {}
        self._runs = tuple(dict.fromkeys(word for word in words if is_run(word)))
        self.terms: dict[str, str] = {}
        for pair in (pair for run in self._runs for pair in split_run(run)):
            if (key := fold(unify(pair), language)) in lexemes:
                bare = _SELECTOR.sub("", pair)
                self._pairs |= dict.fromkeys((pair, bare, unicodedata.normalize("NFD", bare)), key)
        for word in words:
            if is_run(word):
                continue
            # In SQL, `asked_lexemes` also has capitals, and names and stop words without a stem.
            if (key := self._stem(spell_name(word))) in lexemes or word.upper() in lexemes:
                self.terms.setdefault(key, word)
            elif (plain := fold(unify(spell_name(word)), "simple")) in lexemes:
                self.terms.setdefault(plain, word)
        self._begun = [(key, _begin(key)) for key in islice(self.terms, MOST_WORDS_IN_FORMS)]
        # Without its accent, a word begins with the same letter as its stem, unless the language has prefixes.
        self._first = frozenset(fold(text[0], "simple")[:1] for text in (*self.terms, *self.terms.values()))
        self._any_first = language in PREFIXED
        others = " " if self._any_first else "".join(letter for letter in ASCII_LETTERS if letter not in self._first)
        self._candidate = re.compile(f" ([^{others}][^ ]*)")

    def __bool__(self) -> bool:
        """Whether texts can have a word of the query."""
        return bool(self.terms or self._pairs)

    def find(self, text: str) -> list[Found]:
        """Find words of the query in the text, in order; a run of a script without spaces as its pairs."""
        regular = regularize(text)
        wide = _list_wide(regular)
        positions: list[Found] = []
        words = regular
        if any(letter >= FIRST_OF_RUNS for letter in wide) and RUN.search(regular):
            positions = self._find_pairs(regular)
            words = RUN.sub(lambda run: " " * len(run[0]), regular)
        spaced = _space(words, wide)
        # Most words are not in the query: each different word is checked once, and only words of the query are located.
        candidates = set(self._candidate.findall(spaced))
        for word in candidates - self._known:
            if (key := self._find_key(word)) is not None:
                self._keys[word] = key
        self._known |= candidates
        wanted = candidates & self._keys.keys()
        most = max(1, MOST_PLACES // max(1, len(wanted)))
        for word in wanted:
            key, length, between = self._keys[word], len(word), f" {word} "
            start, places = spaced.find(between), most
            while start >= 0 and places:
                positions.append((start, start + length, key))
                start, places = spaced.find(between, start + length + 1), places - 1
        positions += self._find_forms(text, regular, {key for _, _, key in positions})
        positions.sort()
        return positions

    def _find_forms(self, text: str, regular: str, found: Collection[str]) -> Iterator[Found]:
        """The words of the query that the text has in another form only. Only places where one may be are read."""
        squeezed = ""
        for key, begun in self._begun:
            if key in found:
                continue
            squeezed = squeezed or _squeeze(regular)
            if begun not in squeezed:
                continue
            places = _find_parts(begun, text, regular)
            if squeezed.count(begun) > regular.count(begun):
                places = chain(places, (match.span() for match in _match_joined(key).finditer(regular)))
            read = -1
            for start, end in islice(places, MOST_PLACES):
                start, end = _widen(text, start, end)
                word = text[start:end]
                if end != read and not (word.isalpha() and word[1:].islower()):
                    forms = find_forms(word)
                    yield from ((start + f, start + t, key) for f, t, form in forms if key in (form, self._stem(form)))
                read = end

    def list_matched(self, found: Sequence[tuple[str, Sequence[Found]]]) -> tuple[str, ...]:
        """The words of the query that texts have, each with what `find` found in it; of runs, the longest parts."""
        keys = {key for _, positions in found for _, _, key in positions}
        matched = [word for key, word in self.terms.items() if key in keys]
        if self._pairs:
            pairs = frozenset(self._pairs.values())
            parts: set[str] = set()
            for text, positions in found:
                places = [(start, end) for start, end, key in positions if key in pairs]
                parts |= find_matched_parts(self._runs, text, places)
            longest = [part for part in parts if not any(part != other and has_part(other, part) for other in parts)]
            matched += sorted(longest, key="\n".join(self._runs).find)
        return tuple(matched)

    def _find_pairs(self, text: str) -> list[Found]:
        most = max(1, MOST_PLACES // max(1, len(self._pairs)))
        return [
            (start, start + len(pair), key)
            for pair, key in self._pairs.items()
            for start in islice(_locate_pair(pair, text), most)
        ]

    def _find_key(self, word: str) -> str | None:
        if not (word[0].isascii() or self._any_first or fold(unify(word[0]).lower(), "simple")[:1] in self._first):
            return None
        stem = self._stem(word)
        if stem not in self.terms:
            plain = word if word.isascii() else fold(unify(word).lower(), "simple")  # as `stop_lexemes` in SQL
            stem = plain if word.isascii() or plain in self.terms else self._stem(plain)  # as `plain_lexemes` in SQL
        return stem if stem in self.terms else None


def _squeeze(regular: str) -> str:
    """A text in lowercase with its joined words and its names with signs as one word each."""
    if regular.isascii():
        squeezed = regular.encode().translate(None, _ASCII_JOINERS).decode()
    else:
        squeezed = regular
        for joiner in JOINERS:
            squeezed = squeezed.replace(joiner, "")
    for sign, word in _SQUEEZED.items():
        if sign in squeezed:
            squeezed = squeezed.replace(sign, word)
    return squeezed


def _begin(key: str) -> str:
    """How the other forms of a word begin: a stem and its word may differ in the last letter."""
    name = key.removeprefix("dot") or key
    return name[:-1] if len(name) > 3 else name


def _find_parts(begun: str, text: str, regular: str) -> Iterator[tuple[int, int]]:
    """Where such a part of a word, or a word with parts, begins: not inside a word of letters that are alike."""
    start = regular.find(begun)
    while start >= 0:
        before, first = text[start - 1 : start], text[start]
        if not before.isalnum() or first.isupper() or before.isdigit() != first.isdigit() or before == "0":
            yield start, start + len(begun)
        start = regular.find(begun, start + 1)


@lru_cache(maxsize=1024)
def _match_joined(key: str) -> re.Pattern[str]:
    """A pattern for how a word begins whose parts are joined, or a name with signs."""
    joiner = f"[{re.escape(JOINERS)}]?"
    pieces = [_SIGNED.get(piece) or re.escape(piece) for piece in _PIECE.findall(key.removeprefix("dot") or key)]
    return re.compile(joiner.join(pieces[:-1]) + f"{joiner}(?:{pieces[-1]})?")


def _widen(text: str, start: int, end: int) -> tuple[int, int]:
    """The place up to the next blanks."""
    least, most = max(0, start - MOST_AROUND), min(len(text), end + MOST_AROUND)
    while start > least and not text[start - 1].isspace():
        start -= 1
    while end < most and not text[end].isspace():
        end += 1
    return start, end


def _list_wide(text: str) -> Collection[str]:
    """The characters of a text beyond ASCII."""
    return () if text.isascii() else set(text if len(text) > _LONG else _WIDE.findall(text))


def _space(text: str, wide: Collection[str]) -> str:
    """The text between two spaces, with a space for each character other than letters, digits and marks.

    A regular expression takes five times as long.
    """
    for letter in wide:
        if not letter.isalnum() and letter not in INSIDE:
            text = text.replace(letter, " ")
    spaced = text.encode(errors="surrogatepass").translate(BLANKS).decode(errors="surrogatepass")
    return f" {spaced} "


def _locate_pair(pair: str, text: str) -> Iterator[int]:
    """Where a pair of characters starts in the text, with no other mark after it."""
    start = text.find(pair)
    while start >= 0:
        following = MARK.match(text, start + len(pair))
        if not following or _SELECTOR.match(following[0]):
            yield start
        start = text.find(pair, start + 1)
