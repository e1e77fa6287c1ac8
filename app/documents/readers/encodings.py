"""Bytes to text: by a byte order mark, by what is declared, as UTF-8, or by a guess."""

import codecs
import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

from app.errors import UnreadableDocument

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark is a prefix of it
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_WESTERN = "cp1252"
_ALPHABETS = {
    _WESTERN: (
        "äöüß",
        "àâæçéèêëîïôœùûüÿ",
        "áéíñóúü¿¡ªº",
        "àáâãçéêíóôõúü",
        "àèéìíîòóùú",
        "æøåéêóôä",
        "äåöé",
        "áðéíóúýþæö",
    ),
    "cp1250": ("áčďéěíňóřšťúůýž", "ąćęłńóśźż", "áéíóöőúüű", "ăâîșşțţ", "čćđšž", "áäčďéíĺľňóôŕšťúýž"),
    "cp1254": ("çğıöşüâîûi̇",),
    "cp1257": ("ąčęėįšųūž", "āčēģīķļņšūž", "äõöüšž"),
}
"""The letters beyond ASCII of the languages that are written in an encoding, one text a language."""
_LATIN = {
    **_ALPHABETS,
    "cp437": _ALPHABETS[_WESTERN],
    "iso8859_2": _ALPHABETS["cp1250"],
    "iso8859_9": _ALPHABETS["cp1254"],
    "cp850": _ALPHABETS[_WESTERN],
    "cp852": _ALPHABETS["cp1250"],
    "mac_roman": _ALPHABETS[_WESTERN],
}
_SIGNS = frozenset("„“”‚‘’«»‹›–—…•€£¥§©®™°±×·µ¼½¾²³¹\xa0")
_OTHER_NAMES = (
    "cp932 gb18030 big5 cp949 cp1251 cp1253 cp1255 cp1256 cp866 koi8_r iso8859_7 cp874 iso8859_5 iso8859_6 koi8_u "
    "mac_cyrillic"
)
_OTHER = tuple(_OTHER_NAMES.split())
_DECLARED = (
    "cp855 cp857 cp950 cp1258 iso8859_3 iso8859_4 iso8859_8 iso8859_15 iso8859_10 iso8859_11 iso8859_13 iso8859_14 "
    "iso8859_16 tis_620 hz big5hkscs euc_jp iso2022_jp johab shift_jis gb2312 gbk euc_kr latin_1 utf_7 utf_8_sig "
    "utf_16 utf_32"
)
"""The others of the Encoding Standard, and some that old pages declare."""

_JAPANESE_MAIL, _SHIFT = "iso2022_jp", b"\x1b$"
"""It has no bytes beyond ASCII, and begins Japanese with an escape."""

_WIDER = {"iso8859-1": _WESTERN, "shift_jis": "cp932", "gb2312": "gb18030", "gbk": "gb18030", "euc_kr": "cp949"}
"""What programs write under these names, as the Encoding Standard (https://encoding.spec.whatwg.org) says."""

_OFTEN_WRONG = ("ascii", _WESTERN)
"""Programs declare these by default, also for UTF-8."""
_WIDE = ("utf-16", "utf-32")

_CHARSET = re.compile(
    rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]+)|<\?xml[^>]{0,100}encoding=[\"']([\w.:-]+)", re.I
)
_BEYOND_ASCII = re.compile(rb"[\x80-\xff]+")
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_WORD_SIGN = re.compile("[^\x00-\x7f]")
_WITHIN = re.compile("(?<=[a-z])[^\x00-\x7f’·](?=[a-z])")
_CAPITAL_WITHIN = re.compile("[а-яё][А-ЯЁ]")
_KANA = re.compile("[\u3040-\u30ff]")
_KANA_SHARE = 0.1
_SAMPLE = 256 << 10
_LATIN_RUN = 2.0
"""Letters beyond ASCII stand alone among those of a Latin alphabet, while other scripts have nothing else."""
_WIDE_SAMPLE = 8_192
_USUAL = 0.9
"""Share of letters, digits, spaces and ASCII punctuation in a text of UTF-16 without a mark."""
_SPACE = re.compile(r"[ \n]")
_LEGIBLE = 0.8
"""Share of the characters beyond ASCII that a language explains."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """A text, the name of the encoding that it had, whether that was guessed, and how many control characters it
    had, which were removed."""

    text: str
    encoding: str
    is_guessed: bool = False
    controls: int = 0


def unicode_encoding(data: bytes) -> tuple[str, int] | None:
    """The encoding that the byte order mark indicates, and the length of the mark; for UTF-16 without a mark, which
    the zeros between ASCII characters indicate, 0."""
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return encoding, len(mark)
    sample = data[:_WIDE_SAMPLE]
    zeros = sample[::2].count(0), sample[1::2].count(0)
    if bool(zeros[0]) == bool(zeros[1]):
        return None
    encoding = "utf-16-be" if zeros[0] else "utf-16-le"
    text = sample.decode(encoding, errors="replace")
    usual = sum(sign.isalnum() or sign.isspace() or " " < sign < "\x7f" for sign in text)
    return (encoding, 0) if usual >= _USUAL * len(text) and _SPACE.search(text) else None


def find_codec(charset: str | None) -> str | None:
    """The codec for a declared charset, None if there is none for texts."""
    try:
        codec = codecs.lookup((charset or "").strip().strip("\"'").lower())
    except (LookupError, ValueError):
        return None
    return _WIDER.get(codec.name, codec.name) if codec._is_text_encoding else None


def find_charset(data: bytes) -> str | None:
    """The encoding that a page or an XML file declares, None if there is none or it cannot be right."""
    match = _CHARSET.search(data[:4096])
    if match is None:
        return None
    codec = find_codec((match.group(1) or match.group(2)).decode("ascii", errors="ignore"))
    # The bytes so far are readable as ASCII.
    return None if codec is None or codec.startswith(_WIDE) else codec


class GuessingMissing(Exception):
    """An encoding has to be guessed, and this process can load nothing any more."""


def load_codecs() -> None:
    """Load all codecs that readers use: the process that reads files can load nothing while it reads."""
    for name in (*_LATIN, *_OTHER, *_DECLARED.split(), *(name for _, name in _BOMS), "raw_unicode_escape"):
        codecs.lookup(name)


def load_guessing() -> Any:
    """The library that guesses, which takes 30 ms to load, for the few texts that need it. Raises GuessingMissing."""
    try:
        import charset_normalizer
    except (ImportError, OSError) as error:
        raise GuessingMissing from error
    return charset_normalizer


def decode(data: bytes, declared: str | None = None) -> Decoded:
    """Decode by the first that fits: byte order mark, `declared` codec, UTF-8, a guess.

    A file that is UTF-8 except for a few damaged bytes is read as UTF-8, with U+FFFD for those bytes. Raises
    UnreadableDocument when nothing fits.
    """
    text, encoding, is_guessed = _decode(data, declared)
    text, controls = _CONTROLS.subn("", text)
    return Decoded(text, encoding, is_guessed, controls)


def _decode(data: bytes, declared: str | None) -> tuple[str, str, bool]:
    if found := unicode_encoding(data):
        encoding, length = found
        return data[length:].decode(encoding, errors="replace"), encoding, not length and encoding != declared
    if declared is not None and (declared in _OFTEN_WRONG or declared.startswith(_WIDE)) and fits(data, "utf-8"):
        declared = None
    for codec in filter(None, (declared, _JAPANESE_MAIL if _SHIFT in data else None, "utf-8")):
        try:
            return data.decode(codec), codec, codec == _JAPANESE_MAIL != declared
        except ValueError:
            pass
    lenient = data.decode("utf-8", errors="replace")
    damaged = lenient.count("\ufffd")
    beyond_ascii = sum(map(len, re.findall(r"[^\x00-\x7f]+", lenient)))
    if beyond_ascii - damaged > 4 * damaged:
        return lenient, "utf-8", False
    guess = guess_codec(data)
    if guess is None:
        raise UnreadableDocument("the encoding of the text is not recognised; declare its charset, or save it as UTF-8")
    return data.decode(guess, errors="replace"), guess, True


def guess_codec(data: bytes, first: str = _WESTERN) -> str | None:
    """The most likely codec of a text that is not UTF-8, None without any; `first` is chosen among equals."""
    sample = data[:_SAMPLE]
    if len(data) > _SAMPLE:  # not in the middle of a character
        sample = sample[: sample.rfind(b"\n") + 1] or sample
    runs = _BEYOND_ASCII.findall(sample)
    if sum(map(len, runs)) <= _LATIN_RUN * len(runs):
        explained = {name: _explain(sample, name) for name in (first, *_LATIN)}
        best = max(explained, key=explained.__getitem__)  # of several, the first
        if explained[best] >= _LEGIBLE:
            return best
    for japanese in ("euc_jp", "cp932"):
        if _has_kana(sample, japanese):
            return japanese
    matches = load_guessing().from_bytes(sample, cp_isolation=_OTHER, enable_fallback=False)
    # Of encodings of one alphabet, a wrong one has capitals within words.
    # That of a Mac is rare, and has nearly the same lowercase as that of Windows.
    match = min(
        matches,
        key=lambda match: (len(_CAPITAL_WITHIN.findall(str(match))), match.encoding == "mac_cyrillic"),
        default=None,
    )
    return None if match is None else str(match.encoding)


def _explain(sample: bytes, encoding: str) -> float:
    """The share of the characters beyond ASCII, read in this encoding, that one language has."""
    if not fits(sample, encoding):
        return 0.0
    text = sample.decode(encoding)
    found = Counter(map(str.lower, _WORD_SIGN.findall(text)))
    known = max(sum(found[letter] for letter in {*alphabet} | _SIGNS) for alphabet in _LATIN[encoding])
    within = sum(sign in _SIGNS for sign in _WITHIN.findall(text))
    return (known - within) / max(1, found.total())


def _has_kana(sample: bytes, encoding: str) -> bool:
    """Whether the bytes are Japanese, in which each sentence has kana, while they are rare in other texts so read."""
    if not fits(sample, encoding):
        return False
    text = sample.decode(encoding)
    return len(_KANA.findall(text)) > _KANA_SHARE * sum(character > "\x7f" for character in text)


def fits(sample: bytes, encoding: str) -> bool:
    """Whether the bytes are a text in this encoding."""
    try:
        sample.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True
