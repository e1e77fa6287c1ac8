"""Find the words of the query, in any inflected form, in a text to be shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.knowledge.languages import WORD, detect, find_stemmer
from app.knowledge.search.results import Hit


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a text, and whether it is a matched word."""

    text: str
    found: bool = False


class Highlighter:
    """Finds the matched words of one hit."""

    def __init__(self, hit: Hit) -> None:
        languages = {"simple", "english", "german", detect(hit.title, hit.content[:2000])}
        self._stemmers = [find_stemmer(language) for language in sorted(languages)]
        self._stems = {stem(term.lower()) for term in hit.matched_terms for stem in self._stemmers}

    def split(self, text: str) -> Sequence[Piece]:
        """Split the text into pieces; each matched word is a piece of its own."""
        pieces: list[Piece] = []
        end = 0
        for match in WORD.finditer(text) if self._stems else ():
            if not any(stem(match[0].lower()) in self._stems for stem in self._stemmers):
                continue
            if match.start() > end:
                pieces.append(Piece(text[end : match.start()]))
            pieces.append(Piece(match[0], found=True))
            end = match.end()
        if end < len(text):
            pieces.append(Piece(text[end:]))
        return pieces
