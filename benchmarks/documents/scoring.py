"""Whether the hits of a search lead to the answer of a question."""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.documents.questions import Question

DEPTH = 10
METRICS = ("hit@1", "hit@3", "MRR@10", "page", "heading")
_NUMBER = re.compile(r"^(?:(?:chapter|kapitel|appendix|section)\s+)?(?:[\dA-Z]{1,2}(?:\.\d+)*\.?)\s+", re.I)
_WORDS = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Found:
    """One hit: the file of its asset, its title, and the metadata of the chunk."""

    file: str
    title: str | None
    metadata: Mapping[str, Any]

    @property
    def headings(self) -> Sequence[str]:
        """The headings above the chunk, topmost first."""
        return [*self.metadata.get("headings", ()), *(self.title or "").split(" > ")]

    def covers(self, question: Question) -> bool:
        """Whether a page of the answer is in the chunk; in formats without pages, whether its heading is above it."""
        if not question.pages:
            return self.is_under(question)
        first = self.metadata.get("page")
        if first is None:
            return False
        return any(first <= page <= self.metadata.get("page_end", first) for page in question.pages)

    def is_under(self, question: Question) -> bool:
        """Whether a heading of the answer is above the chunk."""
        return any(_begins(heading, wanted) for heading in self.headings for wanted in question.headings)


def score_hits(question: Question, file: str, hits: Sequence[Found]) -> dict[str, float]:
    """The metrics of one question, each between 0 and 1.

    A hit is right if it is a chunk of the right file with a page of the answer. `page` and `heading` are about the
    first hit of the right file: whether it has a page of the answer, and whether a heading of the answer is above it.
    """
    right = [hit.file == file and hit.covers(question) for hit in hits[:DEPTH]]
    rank = right.index(True) + 1 if True in right else None
    first = next((hit for hit in hits if hit.file == file), None)
    return {
        "hit@1": float(rank == 1),
        "hit@3": float(rank is not None and rank <= 3),
        "MRR@10": 1 / rank if rank else 0.0,
        "page": float(first is not None and first.covers(question)),
        "heading": float(first is not None and first.is_under(question)),
    }


def _begins(heading: str, wanted: str) -> bool:
    """Whether a heading begins with the words of another, without its number."""
    words, first = _list_words(wanted), _list_words(_NUMBER.sub("", heading))
    return words in (first[: len(words)], _list_words(heading)[: len(words)])


def _list_words(text: str) -> list[str]:
    return _WORDS.findall(unicodedata.normalize("NFKC", text).casefold())
