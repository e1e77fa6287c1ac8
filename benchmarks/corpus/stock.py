"""The entries of the benchmark's database: the same in every build, for the service and its peers."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from app.embeddings.provider import EmbeddingProvider
from app.evaluation.collection import Document
from app.evaluation.evaluation import ShowProgress, VectorCache
from app.knowledge.entries.entry import embedding_text
from benchmarks.corpus.population import Population
from benchmarks.place import VECTORS
from benchmarks.texts import Library, read_library, vary_text

BATCH = 1_000
"""Entries that are generated together: each batch has its own random generator, so that a build can resume."""

OWN, FOREIGN, NOISE = 0.64, 0.52, 0.48
"""What the vector of a varied text is made of: the vector of its original, the vector of the text whose
sentences replace a third of its own, and noise of this length. The values are medians over 120 varied
texts that the model embedded.
"""

RARE = "rare"
"""The tag of one entry in a hundred, in a tenant of any size."""


@dataclass(frozen=True, slots=True)
class StockEntry:
    """One entry of a tenant; `vector` is a row of its batch's matrix, of length 1."""

    id: UUID
    number: int
    title: str | None
    content: str
    tags: tuple[str, ...]
    vector: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Stock:
    """The material of the entries: texts, and their vectors in the rows of a matrix."""

    library: Library
    vectors: NDArray[np.float32]
    _spread: NDArray[np.float32] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # A factor of the covariance, so that noise like the differences of the texts costs one small product.
        covariance = np.cov(self.vectors, rowvar=False) + 1e-6 * np.eye(self.vectors.shape[1])
        object.__setattr__(self, "_spread", np.linalg.cholesky(covariance).T.astype(np.float32))

    @property
    def originals(self) -> Sequence[Document]:
        """The texts that the model embedded."""
        return self.library.documents

    def describe(self) -> str:
        """What the entries consist of, for the benchmark's report."""
        library = self.library
        queries = "three to six words of a text"
        if library.questions:
            queries += ", in turn with questions that the collections ask about a text"
        return (
            f"Text: {len(library.documents):,} texts ({library.kind}) with {library.count_words():,} distinct words; "
            "where a tenant has more entries, sentences of two texts are mixed. The model embedded the texts and the "
            "queries; the vector of a mixture is derived from those of its texts, as measured on real mixtures. "
            f"Queries: {queries}."
        )

    def originals_of(self, tenant: Population) -> Sequence[Document]:
        """The unvaried texts among a tenant's entries."""
        count = len(self.originals)
        return [self.originals[(tenant.number + n) % count] for n in range(min(tenant.size, count))]

    def make_batch(self, tenant: Population, start: int) -> list[StockEntry]:
        """The entries of a tenant from number `start`, a multiple of BATCH, up to the next batch.

        The first are the texts themselves, and each tenant begins with another one; variations of them follow.
        """
        sources, others, varied, vectors = self._draw(tenant, start)
        generator = random.Random(f"{tenant.number}-{start}")
        made: list[StockEntry] = []
        drawn = zip(sources.tolist(), others.tolist(), varied.tolist(), vectors, strict=True)
        for number, (source, other, is_varied, vector) in enumerate(drawn, start):
            original = self.originals[source]
            content = original.text
            if is_varied:
                content = vary_text(original, self.originals[other], generator)
            tags = (RARE,) if is_rare(number) else ()
            made.append(StockEntry(tenant.entry_id(number), number, original.title, content, tags, vector))
        return made

    def make_entries(self, tenant: Population) -> Iterator[StockEntry]:
        """All entries of a tenant in order."""
        for start in range(0, tenant.size, BATCH):
            yield from self.make_batch(tenant, start)

    def make_vectors(self, tenant: Population) -> NDArray[np.float32]:
        """The vectors of all entries of a tenant, one in each row."""
        return np.concatenate([self._draw(tenant, start)[3] for start in range(0, tenant.size, BATCH)])

    def _draw(
        self, tenant: Population, start: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_], NDArray[np.float32]]:
        """For each entry of a batch: the original, the text mixed in, whether it is varied, and the vector."""
        numbers = np.arange(start, min(start + BATCH, tenant.size))
        chance = np.random.default_rng((tenant.number, start))
        sources = (tenant.number + numbers) % len(self.originals)
        others = chance.integers(len(self.originals), size=len(numbers))
        varied = numbers >= len(self.originals)
        vectors = self._vary(sources, others, chance)
        vectors[~varied] = self.vectors[sources[~varied]]
        return sources, others, varied, vectors

    def _vary(
        self, sources: NDArray[np.int64], others: NDArray[np.int64], chance: np.random.Generator
    ) -> NDArray[np.float32]:
        """Vectors of varied texts. The noise has the same distribution over the dimensions as differences
        of the originals.
        """
        noise = chance.standard_normal((len(sources), len(self._spread)), dtype=np.float32) @ self._spread
        noise *= NOISE / np.linalg.norm(noise, axis=1, keepdims=True)
        moved = OWN * self.vectors[sources] + FOREIGN * self.vectors[others] + noise
        varied: NDArray[np.float32] = moved / np.linalg.norm(moved, axis=1, keepdims=True)
        return varied


async def prepare_stock(provider: EmbeddingProvider, progress: ShowProgress) -> Stock:
    """Read the texts and embed them, or read their vectors from the cache that the ranking benchmark uses too.

    The model takes about five minutes for the first time.
    """
    library = read_library()
    originals = library.documents
    cache = VectorCache(provider, VECTORS)
    found: list[NDArray[np.float32]] = []
    with progress("embed texts", len(originals)) as report:
        for start in range(0, len(originals), 50):
            batch = originals[start : start + 50]
            found += await cache.embed_documents([embedding_text(d.title, d.text) for d in batch])
            report(len(found))
    await cache.close()
    return Stock(library, np.stack(found))


def is_rare(number: int) -> bool:
    """Whether an entry has the tag RARE: one in each hundred, at a place that does not repeat."""
    block, place = divmod(number, 100)
    return place == (block * 2_654_435_761 >> 8) % 100
