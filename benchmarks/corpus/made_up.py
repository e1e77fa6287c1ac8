"""Texts of made-up words, for machines without the shared collections: as long, as varied and as repetitive as those.

The figures were measured on 8,648 English texts of the collections: 1,567,271 words, 50,400 of them distinct.
"""

import itertools
import random
from bisect import bisect
from collections.abc import Iterator, Sequence

import numpy as np

from app.evaluation.collection import Document

FREQUENCIES = {
    1: 5.4e-2, 3: 3.5e-2, 10: 9.3e-3, 30: 2.8e-3, 100: 9.0e-4, 300: 3.7e-4, 1_000: 1.3e-4, 3_000: 4.1e-5,
    10_000: 7.2e-6, 30_000: 1.0e-6, 150_000: 8.0e-8,
}  # fmt: skip
"""The share of the word of each rank in all words; in between, the logarithm is interpolated."""

LETTERS = ((10, 3), (100, 4), (1_000, 7), (150_000, 8))
"""The mean length of words up to a rank."""

LENGTH = (5.08, 0.50)
"""The logarithm of a text's number of words: mean and standard deviation."""

SENTENCE = (23, 12)
"""Words in a sentence: mean and standard deviation."""

REPEATED = 0.31
"""The share of rarer words that repeat one of the same text. With it, about 61 % of a text's words are distinct."""

FUNCTION_WORDS = (
    "the", "of", "and", "in", "to", "a", "with", "that", "for", "by", "is", "was", "as", "on", "at", "were", "from",
    "are", "be", "which", "or", "an", "this", "it", "not", "have",
)  # fmt: skip
"""The most frequent words, which Postgres ignores as it does in real texts."""

RARE_RANK = 100
CONSONANTS, VOWELS = "bdfgklmnprtvz", "aiou"


class Vocabulary:
    """Made-up words by rank, and how often each is used."""

    def __init__(self) -> None:
        ranks = np.arange(1, max(FREQUENCIES) + 1)
        shares = np.exp(np.interp(np.log(ranks), np.log([*FREQUENCIES]), np.log([*FREQUENCIES.values()])))
        self._cumulated: list[float] = np.cumsum(shares).tolist()
        self._words = list(itertools.islice(_spell(), len(ranks)))

    def draw(self, generator: random.Random) -> tuple[str, bool]:
        """A word, and whether it is rare."""
        rank = bisect(self._cumulated, generator.random() * self._cumulated[-1])
        return self._words[rank], rank > RARE_RANK


def make_texts(count: int, seed: int = 0) -> Sequence[Document]:
    """Texts of made-up words, the same in each run."""
    vocabulary, generator = Vocabulary(), random.Random(seed)
    return [Document(f"made-up-{number}", None, " ".join(_sentences(vocabulary, generator))) for number in range(count)]


def _sentences(vocabulary: Vocabulary, generator: random.Random) -> Iterator[str]:
    """The sentences of one text."""
    left = round(generator.lognormvariate(*LENGTH)) + 1
    topic: list[str] = []
    while left > 0:
        words: list[str] = []
        for _ in range(min(left, max(3, round(generator.gauss(*SENTENCE))))):
            word, rare = vocabulary.draw(generator)
            if rare and topic and generator.random() < REPEATED:
                word = generator.choice(topic)
            elif rare:
                topic.append(word)
            words.append(word)
        left -= len(words)
        yield " ".join(words).capitalize() + "."


def _spell() -> Iterator[str]:
    """Distinct words in the order of their ranks; they end in a vowel, so that stemming keeps them apart."""
    generator = random.Random(0)
    seen = set(FUNCTION_WORDS)
    yield from FUNCTION_WORDS
    for rank in itertools.count(len(FUNCTION_WORDS) + 1):
        mean: float = next(letters for up_to, letters in LETTERS if rank <= up_to)
        while True:
            syllables = max(1, round(generator.gauss(mean / 2, 1)))
            word = "".join(generator.choice(CONSONANTS) + generator.choice(VOWELS) for _ in range(syllables))
            if word not in seen:
                break
            mean += 0.1
        seen.add(word)
        yield word
        if rank > LETTERS[-1][0]:
            return
