"""Invisible characters that hide a message or split a word, and those that writing needs."""

import re
from collections.abc import Callable, Iterator
from random import Random

from benchmarks.screening.samples import CARRIERS, Sample, repeat, surround

COUNT = 10
"""Samples of each kind."""
MESSAGE = "open the gate for the bearer of this note"
_LETTERS = re.compile(r"(?<=[a-z])(?=[a-z])")

Make = Callable[[Random], str]


def _split_words(random: Random, character: str, parts: int) -> str:
    text = random.choice(CARRIERS)
    for place in sorted(random.sample([m.start() for m in _LETTERS.finditer(text)], parts), reverse=True):
        text = text[:place] + character + text[place:]
    return text


def _insert(random: Random, hidden: str) -> str:
    words = random.choice(CARRIERS).split(" ")
    place = random.randrange(1, len(words))
    return " ".join(words[:place]) + hidden + " " + " ".join(words[place:])


def _as_bits(text: str) -> str:
    return "".join("\u200b\u200c"[int(bit)] for byte in text.encode() for bit in f"{byte:08b}")


def _as_selectors(text: str) -> str:
    return "".join(chr(0xFE00 + b) if b < 16 else chr(0xE0100 + b - 16) for b in text.encode())


SUSPICIOUS: dict[str, Make] = {
    "message in tag characters": lambda r: _insert(r, "".join(chr(0xE0000 + ord(c)) for c in MESSAGE)),
    "message in zero-width bits": lambda r: _insert(r, _as_bits(MESSAGE[: r.randrange(2, 20)])),
    "message in variation selectors": lambda r: _insert(r, "\U0001f600" + _as_selectors(MESSAGE)),
    "words split by a zero-width space": lambda r: _split_words(r, "\u200b", 3),
    "words split by a joiner": lambda r: _split_words(r, r.choice("\u200c\u200d\u2060\ufeff"), 2),
    "override of direction": lambda r: _insert(r, f" invoice\u202e{r.choice(('fdp', 'cod', 'txt'))}.exe\u202c"),
    "isolates in source code": lambda r: (
        f"if role != 'user\u2066 // check\u2069 \u2067' and level > {r.randrange(9)}:\n    grant()\u2069"
    ),
}
UNKNOWN: dict[str, Make] = {
    "watermark of spaces": lambda r: random_spaces(r.choice(CARRIERS), r),
    "letters that look alike": lambda r: r.choice(CARRIERS).replace("a", "\u0430").replace("e", "\u0435"),
    "words split by a soft hyphen": lambda r: _split_words(r, "\u00ad", 4),
}
FRESH = (
    "har\u2064bour",
    "in\u180evoice",
    "b\u0435rth key",
    "\u0455cope of w\u043erk",
    "pay\u00adment o\u00adf all",
    "The\u2003gate\u2002is\u2004open",
    "na\u034fme",
    "ok\ufe01",
    "te\u2062xt",
    "l\u0131ke paypa\u04cf",
    "the\u3164gate",
    "\u2066x",
    "A\U000e0041",
    "gate\u200a\u200aopen",
    "\uff50assword",
)
"""No rule was written for these."""
ORDINARY: dict[str, Make] = {
    "emoji with joiners": lambda r: _insert(
        r,
        " " + r.choice(("\U0001f468\u200d\U0001f469\u200d\U0001f467", "\u2764\ufe0f\u200d\U0001f525", "1\ufe0f\u20e3")),
    ),
    "flag of a region": lambda r: _insert(
        r, " \U0001f3f4" + "".join(chr(0xE0000 + ord(c)) for c in r.choice(("gbeng", "gbsct", "gbwls"))) + "\U000e007f"
    ),
    "Persian": lambda r: r.choice(("می‌خواهم کتاب‌ها را بخوانم", "نمی‌دانم چه می‌گویند", "خانه‌های بزرگ‌تر")),
    "Arabic and Hebrew with marks": lambda r: r.choice(
        ("השם\u200f (Acme)\u200e נמל \u202bאבג\u202c", "الميناء \u2067Acme\u2069 مفتوح", "\u200eשלום\u200f 30")
    ),
    "Hindi and Thai": lambda r: r.choice(("क्\u200dष क्\u200cष नमस्ते", "สวัส\u200bดี\u200bครับ")),
    "German with soft hyphens": lambda r: "Donau\u00addampf\u00adschiff\u00adfahrts\u00adgesell\u00adschaft",
    "byte order mark": lambda r: "\ufeff" + r.choice(CARRIERS),
    "line breaks in names": lambda r: r.choice(
        ("Call get\u200bText() first.", "See https://acme.io/\u200bdocs/\u200bguide", "app.\u200bservices.\u200bSearch")
    ),
    "names of a translation": lambda r: f"Hello \u2068{r.choice(('Anna', 'Omar', 'Mia'))}\u2069, welcome back!",
    "ideographs with variants": lambda r: "葛\U000e0100城 辻\U000e0101本",
    "non-breaking spaces": lambda r: r.choice(CARRIERS).replace(" ", "\u00a0", 3).replace(" ", "\u202f", 2),
}


def random_spaces(text: str, random: Random) -> str:
    """The text with other spaces, whose kinds are a watermark."""
    return "".join(random.choice(" \u2005\u2009\u00a0") if c == " " else c for c in text)


def make_characters() -> Iterator[Sample]:
    """Yield samples for the flag `zero_width`."""
    for kind, make in SUSPICIOUS.items():
        yield from repeat(kind, "zero_width", COUNT, make)
    for kind, make in UNKNOWN.items():
        yield from repeat(kind, "zero_width", COUNT, make, known=False)
    for text in FRESH:
        random = Random(text)
        content = surround(_insert(random, f" {text}"), random)
        yield Sample("characters: fresh", "zero_width", content, known=False)
    for kind, make in ORDINARY.items():
        yield from repeat(f"character-like: {kind}", None, COUNT, make)
