"""Embedding providers: their interface, the known models, checks of vectors, and batches of texts."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from app.contract.models import ModelInfo
from app.errors import ConfigurationError, EmbeddingUnavailable
from app.resilience import read_status

Vector = NDArray[np.float32]
"""One embedding: float32, shape (dimensions,), L2-normalised."""


@dataclass(frozen=True, slots=True)
class EmbeddingModel(ModelInfo):
    """The model that computes the vectors, and its figures.

    Attributes:
        max_tokens: longest input, in the model's tokens; longer text is embedded in passages. Default: 512, which most
            models support.
        similarity_threshold: cosine below which a passage does not count as similar. Default: 0.25, which is low.
        centre: mean cosine of the best hits of a tenant's searches at which both legs deserve the same weight in score
            fusion; None if it has not been measured.
    """

    max_tokens: int = 512
    similarity_threshold: float = 0.25
    centre: float | None = None

    @property
    def languages(self) -> Sequence[str] | None:
        """The languages that it is known to be limited to, as text-search configurations; None: any."""
        facts = KNOWN.get(self.provider, {}).get(self.name)
        return None if facts is None else facts.languages

    @property
    def info(self) -> ModelInfo:
        """The model without its figures, as callers see it."""
        return ModelInfo(self.provider, self.name, self.dimensions)


Grasp = Literal["words", "letters", "nothing"]
"""What a model makes of a text. `letters`: it splits the words into letters, as with a script that it has not learned,
or with nonsense, so that a high cosine does not show that two texts are about the same. `nothing`: it knows no token,
and all such texts would have nearly the same vector."""


class EmbeddingProvider(Protocol):
    """Turns text into vectors. Safe for concurrent use in one event loop."""

    @property
    def model(self) -> EmbeddingModel: ...

    async def embed_query(self, text: str) -> Vector:
        """Embed a search query. Raises EmbeddingUnavailable."""

    async def embed_queries(self, texts: Sequence[str]) -> list[Vector]:
        """Embed several search queries in one call, in order. Raises EmbeddingUnavailable."""

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Embed any number of stored texts, in order. Raises EmbeddingUnavailable."""

    def count_tokens(self, text: str) -> int:
        """Length of `text` in the model's tokens (an upper estimate if the tokenizer is remote)."""

    def grasp(self, text: str) -> Grasp:
        """What the model makes of a text; `words` if its tokenizer is remote."""

    async def close(self) -> None:
        """Release connections and threads."""


class ProviderWrapper:
    """EmbeddingProvider that passes on to `inner` what its subclass does not change."""

    def __init__(self, inner: EmbeddingProvider) -> None:
        self.inner: Final = inner
        self.model: Final = inner.model

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        return await self.inner.embed_documents(texts)

    def count_tokens(self, text: str) -> int:
        return self.inner.count_tokens(text)

    def grasp(self, text: str) -> Grasp:
        return self.inner.grasp(text)

    async def close(self) -> None:
        await self.inner.close()


def make_unit_vector(numbers: Sequence[float]) -> Vector:
    """A caller's own embedding, finite and not all zero, as a unit vector."""
    vector = np.asarray(numbers, dtype=np.float64)
    # Scaled by the largest component, so that the norm of extreme numbers neither overflows nor underflows.
    vector = vector / np.abs(vector).max()
    unit: Vector = (vector / np.linalg.norm(vector)).astype(np.float32)
    return unit


def check_vectors(provider: str, rows: object, count: int, dimensions: int) -> list[Vector]:
    """Convert a provider's numbers to `count` unit vectors of `dimensions` each, or refuse all of them.

    Raises EmbeddingUnavailable for a wrong count, a wrong dimension (permanent), anything that is not a
    number, and vectors that are not finite or have no length.
    """
    if not isinstance(rows, list) or len(rows) != count:
        given = f"{len(rows)} vectors" if isinstance(rows, list) else "no list of vectors"
        raise EmbeddingUnavailable(provider, f"{given} for {count} texts")
    for row in rows:
        if not isinstance(row, list):
            raise EmbeddingUnavailable(provider, "malformed answer")
        if len(row) != dimensions:
            raise EmbeddingUnavailable(
                provider, f"vectors of {len(row)} dimensions instead of {dimensions}", permanent=True
            )
    try:
        matrix = np.asarray(rows, dtype=np.float64)
    except (TypeError, ValueError):
        raise EmbeddingUnavailable(provider, "malformed answer") from None
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    if not (np.isfinite(matrix).all() and np.isfinite(lengths).all() and lengths.all()):
        raise EmbeddingUnavailable(provider, "vectors that are not finite or have no length")
    unit = (matrix / lengths).astype(np.float32)
    unit.setflags(write=False)
    return list(unit)


class InputRefused(EmbeddingUnavailable):
    """The provider works but refuses this text; other texts are not affected."""

    input_refused = True

    def __init__(self, provider: str, reason: str, *, attempts: int = 1) -> None:
        super().__init__(provider, reason, attempts=attempts, permanent=True)


def describe_status(
    provider: str, status: int, headers: Mapping[str, str], *, key_rejected: bool = False
) -> EmbeddingUnavailable:
    """The error for an HTTP status."""
    failure = read_status(status, headers, key_rejected=key_rejected)
    if failure.input_refused:
        return InputRefused(provider, failure.reason)
    return EmbeddingUnavailable(provider, failure.reason, retry_after=failure.retry_after, permanent=failure.permanent)


LOCAL, OPENAI, GEMINI, FASTEMBED, MOCK = "local", "openai", "gemini", "fastembed", "mock"
PROVIDERS = (LOCAL, OPENAI, GEMINI, FASTEMBED, MOCK)

MINILM = "all-MiniLM-L6-v2-int8"
E5 = "multilingual-e5-small"
HASH = "text-hash"


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """A model's figures: `dimensions` is the default, and `fewest` to `most` is the range that can be requested."""

    dimensions: int
    fewest: int
    most: int
    max_tokens: int
    similarity_threshold: float
    centre: float | None = None
    languages: Sequence[str] | None = None


# Dimensions and token limits are the vendors' figures. The thresholds of MiniLM and E5 are measured (E5: 95 of
# 100 correct answers in xquad-de and scifact reach 0.815, and nine in ten pairs of unrelated subjects stay below
# 0.775). Those of the remote models and of fastembed's are initial values, to be tuned. Unrelated vectors of the mock
# stay below 0.1, which is 2.8 standard deviations at 768 dimensions. Centres are measured, see docs/ranking.md.
KNOWN: dict[str, dict[str, ModelFacts]] = {
    LOCAL: {
        MINILM: ModelFacts(384, 384, 384, 256, 0.3, centre=0.55, languages=("english",)),
        E5: ModelFacts(384, 384, 384, 512, 0.78, centre=0.85),
    },
    OPENAI: {
        "text-embedding-3-small": ModelFacts(1536, 1, 1536, 8191, 0.25),
        "text-embedding-3-large": ModelFacts(3072, 1, 3072, 8191, 0.25),
        "text-embedding-ada-002": ModelFacts(1536, 1536, 1536, 8191, 0.75),
    },
    GEMINI: {"gemini-embedding-001": ModelFacts(768, 1, 3072, 2048, 0.5)},
    FASTEMBED: {
        "BAAI/bge-small-en-v1.5": ModelFacts(384, 384, 384, 512, 0.5),
        "sentence-transformers/all-MiniLM-L6-v2": ModelFacts(384, 384, 384, 256, 0.3),
    },
    MOCK: {HASH: ModelFacts(768, 1, 16_000, 512, 0.1)},
}
ALIASES = {"all-MiniLM-L6-v2": MINILM, "intfloat/multilingual-e5-small": E5}


def resolve_model(provider: str, name: str | None = None, dimensions: int | None = None) -> EmbeddingModel:
    """Complete a choice of model with its defaults, without loading it. Raises ConfigurationError for an unknown
    provider, an unknown local model, and dimensions that the model does not offer."""
    if provider not in PROVIDERS:
        raise ConfigurationError("EMBEDDING_PROVIDER", f"must be one of {', '.join(PROVIDERS)}")
    models = KNOWN[provider]
    name = ALIASES.get(name, name) if name else next(iter(models))
    facts = models.get(name)
    if facts is None:
        return _describe_unknown(provider, name, dimensions)
    if dimensions is not None and not facts.fewest <= dimensions <= facts.most:
        allowed = str(facts.most) if facts.fewest == facts.most else f"{facts.fewest} to {facts.most}"
        raise ConfigurationError(
            "EMBEDDING_DIMENSIONS",
            f"{name} has {allowed} dimensions, not {dimensions}",
            f"leave it empty for {facts.dimensions}",
        )
    return EmbeddingModel(
        provider, name, dimensions or facts.dimensions, facts.max_tokens, facts.similarity_threshold, facts.centre
    )


def _describe_unknown(provider: str, name: str, dimensions: int | None) -> EmbeddingModel:
    if provider in (LOCAL, MOCK):
        raise ConfigurationError(
            "EMBEDDING_MODEL",
            f"{provider} has no model {name!r}",
            f"choose {' or '.join(KNOWN[provider])}, or leave it empty",
        )
    if dimensions is None or dimensions < 1:
        raise ConfigurationError(
            "EMBEDDING_DIMENSIONS", f"not known for the model {name!r}", "set it to the length of its vectors"
        )
    return EmbeddingModel(provider, name, dimensions)


# Letters, digits, runs of whitespace, other characters: pieces that byte-pair tokenizers never join.
_PIECES = re.compile(r"[A-Za-z]+|[0-9]|\s+|[^\sA-Za-z0-9]")
_LETTERS_PER_TOKEN = 3
_SPECIAL_TOKENS = 2
_BYTES_PER_TOKEN = 4


def estimate_tokens(text: str) -> int:
    """An upper estimate of the tokens: a third of the letters, each digit and mark, each byte beyond ASCII.

    English prose has 4 to 5 letters per token, so the estimate is about 1.5 times too high. It is too low only for
    long runs of random letters (keys, encoded bytes).
    """
    return _SPECIAL_TOKENS + sum(_estimate_piece(piece) for piece in _PIECES.findall(text))


def approximate_tokens(texts: Iterable[str]) -> int:
    """Tokens by a rule of thumb, four bytes of UTF-8 each: the same for every model, and cheap to compute."""
    return sum(-(-len(t if t.isascii() else t.encode("utf-8", "replace")) // _BYTES_PER_TOKEN) for t in texts)


def _estimate_piece(piece: str) -> int:
    if piece.isspace():
        return 0 if piece == " " else len(piece)
    if piece.isascii():
        return -(-len(piece) // _LETTERS_PER_TOKEN)
    return len(piece.encode("utf-8", "replace"))


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """Limits of one request: number of `texts`, and total `tokens` (None: no limit)."""

    texts: int
    tokens: int | None = None


def split_batches(texts: Sequence[str], limits: BatchLimits, count_tokens: Callable[[str], int]) -> Iterator[list[str]]:
    """Split texts into consecutive batches within the limits; a text over the token limit is a batch of one."""
    batch: list[str] = []
    tokens = 0
    for text in texts:
        size = 0 if limits.tokens is None else count_tokens(text)
        over = limits.tokens is not None and tokens + size > limits.tokens
        if batch and (over or len(batch) == limits.texts):
            yield batch
            batch, tokens = [], 0
        batch.append(text)
        tokens += size
    if batch:
        yield batch


class OwnProvider(ABC):
    """An EmbeddingProvider that needs only its `model` and `embed_documents`: queries are embedded as documents are."""

    model: EmbeddingModel

    async def embed_query(self, text: str) -> Vector:
        return (await self.embed_queries([text]))[0]

    async def embed_queries(self, texts: Sequence[str]) -> list[Vector]:
        return await self.embed_documents(texts)

    @abstractmethod
    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Embed any number of texts, in order, as unit vectors of float32 (`make_unit_vector`).

        Raises EmbeddingUnavailable: searches then use keywords only, and entries get their vectors later.
        """

    def count_tokens(self, text: str) -> int:
        return estimate_tokens(text)

    def grasp(self, text: str) -> Grasp:
        return "words"

    async def close(self) -> None:
        return None


class RemoteProvider(OwnProvider):
    """EmbeddingProvider that makes one attempt per batch; the wrapper retries."""

    batch: BatchLimits

    async def embed_queries(self, texts: Sequence[str]) -> list[Vector]:
        return await self._request_batches(texts, query=True)

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        return await self._request_batches(texts, query=False)

    @abstractmethod
    async def request(self, texts: list[str], *, query: bool) -> list[Vector]:
        """Embed one batch. Raises EmbeddingUnavailable."""

    async def _request_batches(self, texts: Sequence[str], *, query: bool) -> list[Vector]:
        batches = split_batches(texts, self.batch, estimate_tokens)
        return [vector for batch in batches for vector in await self.request(batch, query=query)]
