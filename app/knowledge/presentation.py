"""What people are shown of an answer: the matched words of a hit, and why the answer is incomplete.

It loads no other part of a search, so that commands can show what a service answered.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from app.contract.vocabulary import MOST_PENDING
from app.knowledge.words import WORD, compose, detect, find_forms, find_stemmer, is_run, regularize, spell_name

NOTICES: Mapping[str, str] = {
    "embedding_unavailable": "The embedding provider is unavailable: keyword search only.",
    "quota_exhausted": "The daily embedding tokens are used up: keyword search only, and no reranking.",
    "embeddings_pending": "Entries that have no vector yet: {pending}. They are found only by words; try again later.",
    "query_unknown": "The embedding model knows no word of the query: keyword search only.",
    "reranker_unavailable": "The reranker is unavailable: hits are in the order of their scores.",
    "ranking_truncated": "The ranked list is cut: more entries match. Use filters or a more precise query.",
}


def describe_degradation(degraded: Sequence[str], pending: int) -> list[str]:
    """A sentence for each reason in `degraded`; `pending` entries have no vector yet."""
    least = "at least " if pending >= MOST_PENDING else ""
    return [NOTICES.get(reason, reason).format(pending=f"{least}{pending:,}") for reason in degraded]


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a text, and whether it is a matched word."""

    text: str
    found: bool = False


class Highlighter:
    """Finds the matched words of one hit."""

    def __init__(self, title: str | None, content: str, matched_terms: Sequence[str]) -> None:
        languages = {"simple", "english", "german", detect(title, content[:2000])}
        self._stemmers = [find_stemmer(language) for language in sorted(languages)]
        terms = [compose(term) for term in matched_terms]
        self._stems = {stem(spell_name(term)) for term in terms if not is_run(term) for stem in self._stemmers}
        parts = sorted(filter(is_run, terms), key=len, reverse=True)
        self._parts = re.compile("|".join(map(re.escape, parts))) if parts else None

    def split(self, text: str) -> Sequence[Piece]:
        """Split the text into pieces; each matched word, or part of a run, is a piece of its own."""
        pieces: list[Piece] = []
        end = 0
        for first, last in sorted(self._locate(text)):
            if first < end:
                continue
            if first > end:
                pieces.append(Piece(text[end:first]))
            pieces.append(Piece(text[first:last], found=True))
            end = last
        if end < len(text):
            pieces.append(Piece(text[end:]))
        return pieces

    def _locate(self, text: str) -> Iterator[tuple[int, int]]:
        if not self._stems and self._parts is None:
            return
        regular = regularize(text)
        for word in WORD.finditer(regular):
            if word["run"]:
                for part in self._parts.finditer(regular, *word.span()) if self._parts else ():
                    yield part.span()
            elif any(stem(word[0]) in self._stems for stem in self._stemmers):
                yield word.span()
        for first, last, form in find_forms(text):
            if any(stem(form) in self._stems for stem in self._stemmers):
                yield first, last
