"""Embed the query of one search, or of several in one call; and hold the hits of both legs."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from app.concurrency.stopwatch import Stopwatch, current_stopwatch, run_stopwatch
from app.contract.vocabulary import Leg
from app.documents.chunking import split_text
from app.embeddings.provider import EmbeddingProvider, InputRefused, Vector, approximate_tokens, make_unit_vector
from app.embeddings.resilience import QueryCache
from app.errors import EmbeddingUnavailable
from app.knowledge.search.legs.keyword import KeywordHits
from app.knowledge.search.legs.semantic import SemanticHits
from app.knowledge.search.plan import Plan
from app.knowledge.tenants.directory import find_provider
from app.knowledge.tenants.quotas import TokenMeter
from app.telemetry.tracing import span

log = logging.getLogger("app.knowledge.search")

EmbedQuery = Callable[[str], Awaitable[Vector]]
"""Embeds a query. Raises EmbeddingUnavailable."""


MOST_VECTORS = 8
"""Vectors of one query, each of which the semantic leg looks for: neighbouring parts of a longer query share their
mean."""


@dataclass(frozen=True, slots=True)
class QueryEmbedding:
    """The vectors, or the failure; `seconds` is the time of the provider's call, None without a call.

    Attributes:
        vectors: one, or for a query that is longer than the model's input one for each part; an entry is as similar as
            it is to the most similar part. Empty if the mode needs none, after a failure, and for an unknown query.
        reads_words: whether the model knows words of the query; of a script that it only spells, all texts are alike.
        unknown: whether the model knows no token of the query.
    """

    vectors: Sequence[Vector] = ()
    failure: EmbeddingUnavailable | None = None
    seconds: float | None = None
    reads_words: bool = True
    unknown: bool = False

    @property
    def vector(self) -> Vector | None:
        """The vector of the whole query: the mean of its parts, by which parts of entries are chosen to be shown."""
        return join_vectors(self.vectors) if self.vectors else None

    @property
    def only_vector(self) -> Vector | None:
        """The vector of a query that is one part."""
        return self.vectors[0] if len(self.vectors) == 1 else None

    def raise_failure(self) -> None:
        """For work that needs both legs. Raises EmbeddingUnavailable."""
        if self.failure is not None:
            raise self.failure


@dataclass(frozen=True, slots=True)
class QueryParts:
    """A query as a model can take it: the parts of which it knows a token, and whether it knows words of any."""

    texts: Sequence[str]
    reads_words: bool


def split_query(provider: EmbeddingProvider, text: str) -> QueryParts:
    """Split a query into parts of at most the model's input; a shorter one is its only part."""
    spans = split_text(text, provider.count_tokens, provider.model.max_tokens)
    parts = [text[start:end] for start, end in spans] if len(spans) > 1 else [text]
    known = {part: grasp for part in parts if (grasp := provider.grasp(part)) != "nothing"}
    return QueryParts([*known], "words" in known.values())


def join_vectors(vectors: Sequence[Vector]) -> Vector:
    """The mean of vectors, as a unit vector."""
    if len(vectors) == 1:
        return vectors[0]
    mean = np.mean(vectors, axis=0)
    joined: Vector = (mean / (np.linalg.norm(mean) or 1.0)).astype(np.float32)
    return joined


def _describe(parts: QueryParts, vectors: Sequence[Vector], seconds: float) -> QueryEmbedding:
    if len(vectors) > MOST_VECTORS:
        ends = [len(vectors) * n // MOST_VECTORS for n in range(MOST_VECTORS + 1)]
        vectors = [join_vectors(vectors[start:end]) for start, end in pairwise(ends)]
    return QueryEmbedding(vectors, None, seconds, parts.reads_words, unknown=not vectors)


def recall_query(
    plan: Plan, providers: Mapping[int, EmbeddingProvider], meter: TokenMeter, embed: EmbedQuery | None = None
) -> QueryEmbedding | None:
    """The embedding of a query that needs no call: the mode needs none, the query has one, or the cache has it."""
    query, tenant = plan.query, plan.tenant
    if query.mode == "keyword":
        return QueryEmbedding()
    if query.query_embedding is not None:
        return QueryEmbedding([make_unit_vector(query.query_embedding)])
    if embed is not None:
        return None
    started = time.perf_counter()
    try:
        meter.require(tenant)
        provider = find_provider(providers, tenant)
    except EmbeddingUnavailable:
        return None  # `embed_query` reports it
    if not isinstance(provider, QueryCache):
        return None
    parts = split_query(provider, plan.asked.text)
    vectors = [vector for text in parts.texts if (vector := provider.recall(text)) is not None]
    if len(vectors) < len(parts.texts):
        return None
    meter.count(tenant.tenant_id, approximate_tokens(parts.texts))
    return _describe(parts, vectors, time.perf_counter() - started)


async def embed_query(
    plan: Plan, providers: Mapping[int, EmbeddingProvider], meter: TokenMeter, embed: EmbedQuery | None = None
) -> QueryEmbedding:
    """Embed a query that `recall_query` does not have; `embed` replaces the provider of the tenant's model.

    `meter` counts the tokens used.
    """
    tenant = plan.tenant
    started = time.perf_counter()
    try:
        meter.require(tenant)
        provider = find_provider(providers, tenant)
        parts = split_query(provider, plan.asked.text)
        with span("embed", provider=tenant.model.provider, model=tenant.model.name, parts=len(parts.texts)):
            if embed is None and len(parts.texts) > 1:
                vectors = await provider.embed_queries(parts.texts)
            else:
                vectors = [await (embed or provider.embed_query)(text) for text in parts.texts]
        meter.count(tenant.tenant_id, approximate_tokens(parts.texts))
    except EmbeddingUnavailable as error:
        log.warning(
            "%s unavailable, using keyword-only fallback",
            error.provider,
            extra={"attempts": error.attempts, "reason": error.reason, "tenant_id": str(tenant.tenant_id)},
        )
        return QueryEmbedding(failure=error, seconds=time.perf_counter() - started)
    return _describe(parts, vectors, time.perf_counter() - started)


class QueryBatch:
    """Embeds several queries, or their parts, in one call, which starts at the first request for a vector."""

    def __init__(self, provider: EmbeddingProvider, texts: Sequence[str]) -> None:
        self._provider = provider
        self._texts = list(dict.fromkeys(texts))
        self._call: asyncio.Task[dict[str, Vector]] | None = None
        self._stopwatch = Stopwatch()

    async def embed_query(self, text: str) -> Vector:
        """Return the vector of one of the queries. Raises EmbeddingUnavailable."""
        if self._call is None:
            with run_stopwatch(self._stopwatch):
                self._call = asyncio.create_task(self._embed_all())
        try:
            with current_stopwatch().joining(self._stopwatch):
                return (await asyncio.shield(self._call))[text]
        except InputRefused:
            # One refused text must not keep the other queries from being embedded.
            return await self._provider.embed_query(text)

    async def close(self) -> None:
        """Cancel the call if it is still running."""
        if self._call is not None:
            self._call.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await self._call

    async def _embed_all(self) -> dict[str, Vector]:
        vectors = await self._provider.embed_queries(self._texts)
        return dict(zip(self._texts, vectors, strict=True))


@dataclass(frozen=True, slots=True)
class Legs:
    """The query's embedding and the hits of both legs; None for a leg that did not run.

    `pending` is the number of entries that the filter admits and that have no vector yet; 0 in mode `keyword`.
    """

    embedding: QueryEmbedding = field(default_factory=QueryEmbedding)
    semantic: SemanticHits | None = None
    keyword: KeywordHits | None = None
    pending: int = 0

    @property
    def compares_vectors(self) -> bool:
        """Whether the semantic leg ran, and not all entries that the filter admits are pending."""
        return self.semantic is not None and self.semantic.compared

    @property
    def searched(self) -> list[Leg]:
        """The legs that compared entries with the query."""
        ran: Mapping[Leg, bool] = {"semantic": self.compares_vectors, "keyword": self.keyword is not None}
        return [leg for leg, has_run in ran.items() if has_run]

    @property
    def is_semantic_only(self) -> bool:
        """Whether entries with a vector were not compared by their words."""
        return self.keyword is None or self.keyword.only_pending

    @property
    def exact(self) -> bool:
        """Whether every entry that the filter admits was compared in each leg that ran."""
        return (self.semantic is None or self.semantic.exact) and (self.keyword is None or self.keyword.complete)

    def is_truncated(self, wanted: int) -> bool:
        """Whether entries may match that no leg returned."""
        return (self.semantic is not None and self.semantic.is_cut(wanted)) or (
            self.keyword is not None and self.keyword.is_cut
        )

    @property
    def keyword_scale(self) -> float:
        """The BM25 score that counts as much as a cosine of 1 in score fusion; 0 if the keyword leg found nothing."""
        return self.keyword.scale if self.keyword else 0.0

    @property
    def whole(self) -> bool:
        """Whether the query is an identifier that the entries of the keyword leg contain as a whole."""
        return self.keyword is not None and self.keyword.whole

    def words_compared(self, query: str) -> str:
        """The query, followed by the corrections of its misspelt words."""
        return " ".join((query, *self.keyword.replacements.corrections.values())) if self.keyword else query

    @property
    def alternatives(self) -> Sequence[str]:
        """Queries for entries that have something in place of words of the query."""
        return self.keyword.alternatives if self.keyword else ()

    def words_sought(self, query: str) -> str:
        """The query, followed by the words that were searched for in place of its words."""
        return " ".join((query, *self.keyword.replacements)) if self.keyword else query
