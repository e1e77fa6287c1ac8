"""Running both legs of a search, and ranking what they bring."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from app.db.database import Database
from app.db.queries.search import search as db
from app.db.queries.search.search import KeywordQuery
from app.db.session import Row, TenantSession
from app.embeddings.provider import EmbeddingProvider, Vector
from app.embeddings.vectors import make_unit_vector
from app.errors import EmbeddingUnavailable
from app.knowledge.search.legs.semantic import search_vectors, session_setup
from app.knowledge.search.plan import KEYWORD_POOL, Legs, Plan, SearchDefaults
from app.knowledge.search.query import is_identifier, quoted_phrases
from app.knowledge.search.ranking import boosts
from app.knowledge.search.ranking.diversity import diversify
from app.knowledge.search.ranking.fusion import (
    Candidate,
    LegHit,
    join_legs,
    lift_identified,
    rank,
    reciprocal_rank_fusion,
    score_fusion,
)
from app.knowledge.tenants.providers import find_provider
from app.knowledge.tenants.quotas import TokenMeter
from app.telemetry.tracing import span

log = logging.getLogger("app.knowledge.search")

EmbedQuery = Callable[[str], Awaitable[Vector]]
"""Makes the vector of a query. Raises EmbeddingUnavailable."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """What a search found, best first, and the transaction in which its hits can still be read."""

    session: TenantSession
    legs: Legs
    candidates: Sequence[Candidate]


class Ranker:
    """Runs the legs of a search over one database."""

    def __init__(
        self,
        database: Database,
        providers: Mapping[int, EmbeddingProvider],
        defaults: SearchDefaults,
        meter: TokenMeter | None = None,
    ) -> None:
        """`providers` are keyed by the number of the embedding model that they make vectors for; `meter` counts what
        queries cost."""
        self._database = database
        self._providers = providers
        self._defaults = defaults
        self._meter = meter or TokenMeter()

    @contextlib.asynccontextmanager
    async def run(self, plan: Plan, embed: EmbedQuery | None = None) -> AsyncIterator[Ranked]:
        """Run both legs and fuse them; without a vector the words alone.

        `embed` makes the query's vector in place of the provider of the tenant's model.

        The keyword leg runs while the provider embeds the query, and while the semantic leg runs where the database
        has connections to spare. Otherwise its transaction goes on with the semantic leg if the embedding is there
        by then, and ends if not, since no connection waits for a provider. Raises DatabaseUnavailable.
        """
        legs = Legs()
        embedding = asyncio.create_task(self._embed(plan, legs, embed))
        aside = asyncio.create_task(self._meaning_aside(embedding, plan, legs))
        try:
            if plan.query.mode != "semantic":
                async with self._open(plan) as session:
                    await self._keyword_leg(session, plan, legs)
                    if embedding.done():
                        await aside
                        yield await self._finish(session, plan, legs)
                        return
            await aside
        finally:
            embedding.cancel()
            aside.cancel()
            await asyncio.gather(embedding, aside, return_exceptions=True)
        async with self._open(plan) as session:
            yield await self._finish(session, plan, legs)

    async def _meaning_aside(self, embedding: asyncio.Task[None], plan: Plan, legs: Legs) -> None:
        """Wait for the embedding; run the semantic leg beside the other one while few connections are in use."""
        await embedding
        if plan.query.mode == "hybrid" and legs.vector is not None and self._database.is_calm:
            async with self._open(plan) as session:
                await self._semantic_leg(session, plan, legs)

    def _open(self, plan: Plan) -> contextlib.AbstractAsyncContextManager[TenantSession]:
        setup = session_setup(plan.query.ef_search, plan.tenant.passages)
        return self._database.tenant_session(plan.tenant.tenant_id, setup=setup)

    async def _finish(self, session: TenantSession, plan: Plan, legs: Legs) -> Ranked:
        if legs.vector is not None and legs.semantic is None:
            await self._semantic_leg(session, plan, legs)
        elif legs.keyword is None:
            await self._keyword_leg(session, plan, legs)
        with span("fusion", method=plan.fusion) as seen:
            candidates = await self._fuse(session, plan, legs)
            seen.set(candidates=len(candidates))
        return Ranked(session, legs, candidates)

    async def _embed(self, plan: Plan, legs: Legs, embed: EmbedQuery | None) -> None:
        if plan.query.mode == "keyword":
            return
        given = plan.query.query_embedding
        if given is not None:
            legs.vector = make_unit_vector(given)
            return
        started = time.perf_counter()
        try:
            self._meter.require(plan.tenant)
            embed = embed or find_provider(self._providers, plan.tenant).embed_query
            with span("embed", provider=plan.tenant.model.provider, model=plan.tenant.model.name):
                legs.vector = await embed(plan.query.query)
            self._meter.count(plan.tenant.tenant_id, plan.query.query)
        except EmbeddingUnavailable as error:
            legs.failure = error
            log.warning(
                "%s unavailable, using keyword-only fallback",
                error.provider,
                extra={
                    "attempts": error.attempts,
                    "reason": error.reason,
                    "tenant_id": str(plan.tenant.tenant_id),
                },
            )
        finally:
            legs.seconds["embedding"] = time.perf_counter() - started

    async def _keyword_leg(self, session: TenantSession, plan: Plan, legs: Legs) -> None:
        with span("keyword") as seen:
            await self._find_words(session, plan, legs)
            seen.set(hits=len(legs.keyword or ()), matches=legs.keyword_matches)

    async def _find_words(self, session: TenantSession, plan: Plan, legs: Legs) -> None:
        started = time.perf_counter()
        query = KeywordQuery(plan.query.query, quoted_phrases(plan.query.query))
        rows: Sequence[Row] = []
        if is_identifier(query.text):
            # Entries that have it whole; those with a part of it only where there are none.
            rows = await self._match_words(session, plan, replace(query, whole=True))
            legs.whole = bool(rows)
        if not rows:
            rows = await self._match_words(session, plan, query)
        if not rows or 2 * len(rows[0]["unknown"]) >= len(query.text.split()):
            # Half of the words or more are in no entry: they may be misspelt.
            unknown = rows[0]["unknown"] if rows else None
            legs.corrections = await db.similar_lexemes(session, query.text, unknown)
            if legs.corrections:
                corrected = replace(query, corrections=tuple(legs.corrections.values()))
                rows = await self._match_words(session, plan, corrected)
        legs.keyword = [LegHit(row["entry_id"], row["updated_at"], row["score"]) for row in rows]
        if rows:
            legs.keyword_matches, legs.best_keyword_score = rows[0]["candidates"], rows[0]["best"]
        legs.seconds["keyword"] = time.perf_counter() - started
        log.debug("keyword leg: %d entries of %d", len(rows), legs.keyword_matches)

    async def _match_words(self, session: TenantSession, plan: Plan, query: KeywordQuery) -> Sequence[Row]:
        budget, pool = self._defaults.keyword_budget, max(KEYWORD_POOL, 2 * plan.wanted)
        return await db.keyword_leg(session, query, plan.query.entry_filter, plan.wanted, budget, pool)

    async def _semantic_leg(self, session: TenantSession, plan: Plan, legs: Legs) -> None:
        assert legs.vector is not None
        started = time.perf_counter()
        with span("semantic") as seen:
            legs.semantic = await search_vectors(
                session,
                plan.tenant,
                legs.vector,
                plan.query.entry_filter,
                plan.threshold,
                plan.wanted,
                self._defaults.exact_limit,
            )
            seen.set(hits=len(legs.semantic.hits), strategy=legs.semantic.strategy)
        legs.seconds["semantic"] = time.perf_counter() - started
        log.debug("semantic leg: %d entries, %s", len(legs.semantic.hits), legs.semantic.strategy)

    async def _fuse(self, session: TenantSession, plan: Plan, legs: Legs) -> list[Candidate]:
        started = time.perf_counter()
        candidates = join_legs(legs.semantic.hits if legs.semantic else (), legs.keyword or ())
        if plan.fusion == "score":
            await self._complete_cosines(session, plan, legs, candidates)
            score_fusion(candidates, plan.weights, legs.best_keyword_score)
        else:
            reciprocal_rank_fusion(candidates, plan.weights, plan.query.rrf_k)
        if plan.query.boost and candidates:
            await boosts.apply(session, plan.tenant, plan.query.boost, candidates)
        if legs.whole:
            lift_identified(candidates)
        ranking = rank(candidates, legs.searched[0] if len(legs.searched) == 1 else None)
        if plan.query.diversity > 0:
            ranking = await diversify(session, plan.tenant, ranking, plan.query.diversity, plan.wanted)
        legs.seconds["fusion"] = time.perf_counter() - started
        return ranking

    async def _complete_cosines(
        self, session: TenantSession, plan: Plan, legs: Legs, candidates: Sequence[Candidate]
    ) -> None:
        """Compare the entries that only words found with the query as well."""
        missing = [c.entry_id for c in candidates if c.similarity is None]
        if legs.vector is None or plan.query.mode != "hybrid" or not missing:
            return
        rows = await db.exact_ids(session, plan.tenant.space, legs.vector, 2.0, missing, len(missing))
        cosines = {row["entry_id"]: row["similarity"] for row in rows}
        for candidate in candidates:
            candidate.cosine = cosines.get(candidate.entry_id)
