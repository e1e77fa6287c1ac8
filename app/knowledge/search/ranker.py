"""Run both legs of a search and rank their hits."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from app.contract.search import Weights
from app.contract.validation import amend
from app.contract.vocabulary import MAX_LIMIT
from app.db.database import Database
from app.db.queries.vectors import count_pending
from app.db.session import TenantSession
from app.embeddings.provider import EmbeddingProvider
from app.knowledge.search import ranking
from app.knowledge.search.legs.findings import EmbedQuery, Legs, QueryEmbedding, embed_query, recall_query
from app.knowledge.search.legs.keyword import apply_operators, search_words
from app.knowledge.search.legs.semantic import SemanticHits, find_cosines, search_vectors, session_setup
from app.knowledge.search.plan import DEEPEST_POOL, PENDING_POOL, Plan
from app.knowledge.search.ranking import (
    Candidate,
    Reranking,
    RerankStage,
    count_groups,
    diversify,
    estimate_cosines,
    fold_duplicates,
    fuse,
    group_by_asset,
    join_legs,
    keep_pending,
    lift_identified,
    rank,
)
from app.knowledge.tenants.quotas import TokenMeter
from app.telemetry.tracing import span

log = logging.getLogger("app.knowledge.search")

NO_TENANT = UUID(int=0)
"""A tenant that does not exist."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """The candidates of a search, best first, and the open transaction in which their entries can be read.

    `plan` is the one that was carried out: a search can look deeper than planned. `reranking` is None
    if no reranker was asked for.
    """

    session: TenantSession
    plan: Plan
    legs: Legs
    candidates: Sequence[Candidate]
    fusion_seconds: float
    reranking: Reranking | None = None


class Ranker:
    """Runs the legs of a search over one database."""

    def __init__(
        self,
        database: Database,
        providers: Mapping[int, EmbeddingProvider],
        meter: TokenMeter | None = None,
        stage: RerankStage | None = None,
    ) -> None:
        """`providers` are keyed by the id of their embedding model; `meter` counts the tokens of queries."""
        self._database = database
        self._providers = providers
        self._meter = meter or TokenMeter()
        self._stage = stage or RerankStage(self._meter)

    @contextlib.asynccontextmanager
    async def run(self, plan: Plan, embed: EmbedQuery | None = None) -> AsyncIterator[Ranked]:
        """Run both legs, fuse them, and rerank the first candidates if the plan says so.

        `embed` replaces the provider of the tenant's model. No transaction is open while the reranker answers: the
        one in which the legs ran ends, and another one follows. Raises DatabaseUnavailable.
        """
        if plan.asked.excluded or plan.asked.phrases:
            async with self._open(plan) as session:
                plan = await apply_operators(session, plan)
        async with self._fused(plan, embed) as ranked:
            texts: Mapping[UUID, str] | None = None
            if plan.rerank and len(ranked.candidates) > 1:  # a single candidate needs no order
                found = await self._stage.read_texts(ranked.session, plan, ranked.legs, ranked.candidates)
                if isinstance(found, Reranking):
                    ranked = replace(ranked, reranking=found)
                else:
                    texts = found
            if texts is None:
                yield await _arrange(ranked)
                return
        candidates, outcome = await self._stage.rerank(plan, ranked.legs, ranked.candidates, texts)
        async with self._open(plan) as session:
            ranked = replace(ranked, session=session, candidates=candidates, reranking=outcome)
            yield await _arrange(ranked)

    @contextlib.asynccontextmanager
    async def _fused(self, plan: Plan, embed: EmbedQuery | None) -> AsyncIterator[Ranked]:
        """Run both legs and fuse them; if the query has no vector, only the keyword leg.

        The keyword leg runs while the provider embeds the query. If the database has connections to spare, the
        semantic leg runs in parallel to it. Otherwise the semantic leg follows in the same transaction if the embedding
        has arrived by then; if not, the transaction ends, since no connection waits for a provider.
        Raises DatabaseUnavailable.
        """
        embedding, aside = self._start(plan, embed)
        keyword = None
        try:
            if plan.query.mode != "semantic":
                async with self._open(plan) as session:
                    known = embedding.result().only_vector if embedding.done() else None
                    keyword = await search_words(session, plan, plan.wanted, known)
                    if embedding.done():
                        semantic = await aside if aside is not None else None
                        legs = Legs(semantic=semantic, keyword=keyword, embedding=embedding.result())
                        yield await _rank(session, plan, legs)
                        return
            semantic = await aside if aside is not None else None
            legs = Legs(semantic=semantic, keyword=keyword, embedding=await embedding)
        finally:
            await _end(embedding, aside)
        async with self._open(plan) as session:
            yield await _rank(session, plan, legs)

    def _start(
        self, plan: Plan, embed: EmbedQuery | None
    ) -> tuple[asyncio.Future[QueryEmbedding], asyncio.Task[SemanticHits | None] | None]:
        """Begin to embed the query, and the semantic leg if it may run in parallel to the keyword leg."""
        known = recall_query(plan, self._providers, self._meter, embed)
        embedding: asyncio.Future[QueryEmbedding]
        if known is None:
            embedding = asyncio.create_task(embed_query(plan, self._providers, self._meter, embed))
        else:
            embedding = asyncio.get_running_loop().create_future()
            embedding.set_result(known)
        if plan.query.mode != "hybrid" or (known is not None and not self._database.has_spare_connections):
            return embedding, None
        return embedding, asyncio.create_task(self._search_aside(embedding, plan))

    async def _search_aside(self, embedding: asyncio.Future[QueryEmbedding], plan: Plan) -> SemanticHits | None:
        """Wait for the embedding; then run the semantic leg in parallel if few connections are in use."""
        vectors = (await embedding).vectors
        if not vectors or not self._database.has_spare_connections:
            return None
        async with self._open(plan) as session:
            return await search_vectors(session, plan, vectors)

    def _open(self, plan: Plan) -> contextlib.AbstractAsyncContextManager[TenantSession]:
        setup = session_setup(plan.query.ef_search, plan.tenant.passages)
        return self._database.read_session(plan.tenant.tenant_id, setup=setup)


async def _end(*work: asyncio.Future[Any] | None) -> None:
    """Cancel unfinished work, and wait until it has ended."""
    running = [part for part in work if part is not None and not part.done()]
    for waiting in running:
        waiting.cancel()
    for part in filter(None, work):
        if part.done() and not part.cancelled():
            part.exception()  # retrieved, even if no one waits for it
    if running:
        await asyncio.gather(*running, return_exceptions=True)


async def _rank(session: TenantSession, plan: Plan, legs: Legs) -> Ranked:
    """Run the legs that have not run yet, and fuse them."""
    legs = await _complete(session, plan, legs)
    started = time.perf_counter()
    with span("fusion", method=plan.fusion) as seen:
        ranking = await _fuse(session, plan, legs)
        seen.set(candidates=len(ranking))
    plan, legs, candidates = await _fold(session, plan, legs, ranking)
    return Ranked(session, plan, legs, candidates, time.perf_counter() - started)


async def _fold(
    session: TenantSession, plan: Plan, legs: Legs, ranking: list[Candidate]
) -> tuple[Plan, Legs, list[Candidate]]:
    """Make one candidate of near-duplicates, unless the search shows them.

    While that or the groups leave too few for the largest page, whatever the limit, search for more.
    """
    query = plan.query
    while True:
        candidates = ranking
        if query.duplicates == "fold":
            candidates = await fold_duplicates(session, ranking, plan.asked.text, query.as_of)
        if plan.wanted >= DEEPEST_POOL or not legs.is_truncated(plan.wanted):
            break
        if query.group_by is not None:
            hits = await count_groups(session, candidates, query.as_of)
        else:
            hits = len(candidates) if len(candidates) < len(ranking) else MAX_LIMIT
        if hits >= MAX_LIMIT:
            break
        plan = replace(plan, wanted=min(4 * plan.wanted, DEEPEST_POOL))
        words = None
        if plan.query.mode != "semantic":
            words = await search_words(session, plan, plan.wanted, legs.embedding.only_vector)
        legs = await _complete(session, plan, Legs(legs.embedding, keyword=words))
        ranking = await _fuse(session, plan, legs)
    return plan, legs, candidates


async def _complete(session: TenantSession, plan: Plan, legs: Legs) -> Legs:
    """Run the legs that have not run yet. In mode `semantic`, pending entries are found by their words."""
    semantic, keyword, pending, vectors = legs.semantic, legs.keyword, 0, legs.embedding.vectors
    if vectors:
        semantic = semantic or await search_vectors(session, plan, vectors)
        pending = semantic.pending
    elif plan.query.mode != "keyword":
        pending = await count_pending(session, plan.tenant.space, plan.entry_filter)
    if keyword is None and not vectors:
        keyword = await search_words(session, plan, plan.wanted)
    elif keyword is None and pending:
        # Entries with a vector are dropped from these hits, therefore more are read.
        keyword = await search_words(session, plan, max(plan.wanted, PENDING_POOL), legs.embedding.only_vector)
        keyword = replace(keyword, only_pending=semantic is not None and semantic.compared)
    return Legs(legs.embedding, semantic, keyword, pending)


async def _fuse(session: TenantSession, plan: Plan, legs: Legs) -> list[Candidate]:
    candidates = join_legs(legs.semantic.hits if legs.semantic else (), legs.keyword.hits if legs.keyword else ())
    weights = plan.weights
    await _find_cosines(session, plan, legs, candidates)
    if legs.keyword is not None and legs.keyword.only_pending:
        candidates = keep_pending(candidates)
        # The estimated cosine already comes from the words.
        weights = amend(weights, keyword=0.0) if plan.fusion == "score" else weights
    threshold = plan.tenant.model.similarity_threshold
    fuse(candidates, plan.fusion, weights, legs.keyword_scale, plan.query.rrf_k, threshold=threshold)
    if plan.query.boost and candidates:
        await ranking.apply(session, plan.tenant, plan.query, candidates)
    if legs.whole and not legs.is_semantic_only:
        lift_identified(candidates)
    return rank(candidates, legs.searched[0] if len(legs.searched) == 1 else None)


def rank_with(ranked: Ranked, weights: Weights) -> list[UUID]:
    """The entries in the order of other weights, without boosts; the hits of the legs do not depend on weights."""
    plan, legs = ranked.plan, ranked.legs
    candidates = [replace(c, boosts={}) for c in ranked.candidates]
    threshold = plan.tenant.model.similarity_threshold
    fuse(candidates, plan.fusion, weights, legs.keyword_scale, plan.query.rrf_k, threshold=threshold)
    if legs.whole:
        lift_identified(candidates)
    return [c.entry_id for c in rank(candidates)]


async def _arrange(ranked: Ranked) -> Ranked:
    """Move candidates down that resemble better ones, and group them, if the search asks for it."""
    plan, candidates = ranked.plan, ranked.candidates
    if (diversity := plan.query.diversity) > 0:
        candidates = await diversify(ranked.session, plan.tenant, candidates, diversity, plan.wanted, plan.query.as_of)
    if plan.query.group_by is not None:
        candidates = await group_by_asset(ranked.session, candidates, plan.query.as_of)
    return ranked if candidates is ranked.candidates else replace(ranked, candidates=candidates)


async def _find_cosines(session: TenantSession, plan: Plan, legs: Legs, candidates: Sequence[Candidate]) -> None:
    """For entries that only the keyword leg found: compute their cosines, or find that they have no vector yet."""
    vectors, missing = legs.embedding.vectors, [c for c in candidates if c.similarity is None]
    fused_by_scores = plan.fusion == "score"
    if not vectors or not missing or not (fused_by_scores or legs.pending):
        return
    found = legs.keyword.cosines if legs.keyword is not None else None
    if found is None:
        found = await find_cosines(session, plan, vectors, [c.entry_id for c in missing])
    for candidate in missing:
        candidate.pending = candidate.entry_id not in found
        if fused_by_scores:
            candidate.cosine = found.get(candidate.entry_id)
    if fused_by_scores and any(c.pending for c in missing):
        estimate_cosines(candidates, legs.keyword_scale)
