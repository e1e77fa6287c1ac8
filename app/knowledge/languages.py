"""Languages of text: names of Postgres text-search configurations, each with its Snowball stemmer."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping

from Stemmer import Stemmer

from app.documents.language import detect_language

WORD = re.compile(r"[^\W_]+")
"""A word of a text: letters and digits."""

SNOWBALL: Mapping[str, str] = {
    name: name
    for name in (
        "arabic", "armenian", "basque", "catalan", "danish", "dutch", "english", "finnish", "french",
        "german", "greek", "hindi", "hungarian", "indonesian", "irish", "italian", "lithuanian", "nepali",
        "norwegian", "portuguese", "romanian", "russian", "serbian", "spanish", "swedish", "tamil",
        "turkish", "yiddish",
    )
}  # fmt: skip

LANGUAGES: tuple[str, ...] = ("simple", *SNOWBALL)
"""Valid values of `language`: the configurations of Postgres 16, as in the check on the entries table."""

_stemmers = threading.local()


def detect(title: str | None, content: str) -> str:
    """Detect the text-search configuration for an entry's text."""
    language = detect_language(f"{title}\n{content}" if title else content)
    return language if language in LANGUAGES else "simple"


def find_stemmer(language: str) -> Callable[[str], str]:
    """Return a function that stems a lowercase word. Stemmers are not thread-safe, so each thread has its own."""
    name = SNOWBALL.get(language)
    if name is None:
        return str
    known: dict[str, Stemmer] = _stemmers.__dict__.setdefault("known", {})
    if name not in known:
        known[name] = Stemmer(name)
    stem: Callable[[str], str] = known[name].stemWord
    return stem


def spell(lexeme: str, language: str, text: str) -> str | None:
    """The first word of the text with the stem `lexeme`, in its original spelling; None if there is none."""
    stem = find_stemmer(language)
    words: list[str] = WORD.findall(text)
    for word in dict.fromkeys(words):
        lowered = word.lower()
        if lexeme in (lowered, stem(lowered)):
            return word
    return None
