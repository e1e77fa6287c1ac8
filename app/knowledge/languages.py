"""Languages of text, each named as a Postgres text-search configuration."""

from __future__ import annotations

import threading
from collections.abc import Callable

from Stemmer import Stemmer

from app.contract.vocabulary import LANGUAGES
from app.documents.language import detect_language
from app.knowledge.words import find_words, fold, is_run, split_run, unify

SNOWBALL = LANGUAGES[1:]
"""Languages with a stemmer of their name."""

_stemmers = threading.local()


def detect(title: str | None, content: str) -> str:
    """Detect the text-search configuration for an entry's text."""
    language = detect_language(f"{title}\n{content}" if title else content)
    return language if language in LANGUAGES else "simple"


def find_stemmer(language: str) -> Callable[[str], str]:
    """Return a function that makes a lowercase word the lexeme of `text_lexemes` in SQL: its stem, without diacritics.

    Stemmers are not thread-safe, so each thread has its own.
    """
    if language not in SNOWBALL:
        return lambda word: word if word.isascii() else fold(unify(word).lower(), language)
    known: dict[str, Stemmer] = _stemmers.__dict__.setdefault("known", {})
    if language not in known:
        known[language] = Stemmer(language)
    stem: Callable[[str], str] = known[language].stemWord
    # The stemmers read ae in German as ä, which is left to fold for older versions of Postgres only.
    return lambda word: stem(word) if word.isascii() else fold(stem(unify(word).lower()), language)


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
    return None
