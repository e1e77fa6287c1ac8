"""BM25 by bm25s over the same documents and queries, as the baseline of the keyword leg."""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from Stemmer import Stemmer

from app.documents.language import detect_language
from app.evaluation.collection import Collection
from app.knowledge.languages import SNOWBALL

K1, B = 1.2, 0.75
# bm25s's short English list is Lucene's; the long one contains Snowball's, which Postgres uses, and a few of NLTK's.
_STOP_WORDS = {"english": "english_plus"}
_WITH_STOP_WORDS = frozenset({
    "danish", "dutch", "english", "french", "german", "italian", "norwegian", "portuguese", "russian", "spanish",
    "swedish", "turkish",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class BaselineRun:
    """A ranking of document ids for each query, and the name of the method."""

    name: str
    rankings: Sequence[Sequence[str]]


def is_baseline_installed() -> bool:
    """Whether bm25s, from the extra `eval`, is installed."""
    return importlib.util.find_spec("bm25s") is not None


def rank_by_bm25(collection: Collection, depth: int = 100) -> BaselineRun:
    """Rank by BM25 (Lucene's variant, k1 1.2, b 0.75), title and text as one field.

    Stemmer and stop words are those of the most frequent language. Raises ImportError without bm25s.
    """
    import bm25s

    language = find_language(collection)
    stemmer = Stemmer(SNOWBALL[language]) if language in SNOWBALL else None
    stop_words = _STOP_WORDS.get(language, language) if language in _WITH_STOP_WORDS else None

    def tokenize(texts: list[str]) -> object:
        return bm25s.tokenize(texts, stopwords=stop_words, stemmer=stemmer, show_progress=False)

    index = bm25s.BM25(method="lucene", k1=K1, b=B)
    index.index(tokenize([d.whole for d in collection.documents]), show_progress=False)
    places, scores = index.retrieve(
        tokenize([q.text for q in collection.queries]),
        k=min(depth, len(collection.documents)),
        show_progress=False,
    )
    ids = [d.id for d in collection.documents]
    rankings = [
        [ids[place] for place, score in zip(row, row_scores, strict=True) if score > 0]
        for row, row_scores in zip(places, scores, strict=True)
    ]
    return BaselineRun(f"bm25s (lucene, k1 {K1}, b {B}, {language})", rankings)


def find_language(collection: Collection, sample: int = 100) -> str:
    """Detect the most frequent language in an even sample of the documents."""
    step = max(1, len(collection.documents) // sample)
    votes = Counter(detect_language(d.text) for d in collection.documents[::step])
    return votes.most_common(1)[0][0]
