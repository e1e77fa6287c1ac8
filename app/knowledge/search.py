"""Searching: both legs, their fusion, and the answer."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from uuid import UUID

import numpy as np

from app.db import search as db
from app.db.identifiers import new_id
from app.db.search import KeywordQuery
from app.db.session import Database, Row, TenantSession
from app.embeddings.provider import EmbeddingProvider
from app.errors import EmbeddingUnavailable
from app.knowledge import boosts, explanation
from app.knowledge.diversity import diversify
from app.knowledge.fusion import Candidate, LegHit, join_legs, rank, reciprocal_rank_fusion, score_fusion
from app.knowledge.hydration import hydrate
from app.knowledge.journal import SearchJournal, read_cursor, write_cursor
from app.knowledge.plan import KEYWORD_POOL, Legs, Plan, SearchDefaults, make_plan
from app.knowledge.query import SearchQuery, is_identifier, quoted_phrases
from app.knowledge.results import Hit, SearchMetadata, SearchResult
from app.knowledge.semantic_leg import search_vectors, session_setup
from app.knowledge.suggestions import suggest
from app.knowledge.tenants import TenantDirectory
from app.knowledge.why_not import WhyNot, judge

log = logging.getLogger("app.knowledge.search")


class KnowledgeSearchService:
    """Answers searches of any tenant. Needs no HTTP request and no framework."""

    def __init__(
        self,
        database: Database,
        providers: Mapping[int, EmbeddingProvider],
        tenants: TenantDirectory,
        journal: SearchJournal,
        defaults: SearchDefaults | None = None,
    ) -> None:
        """`providers` are keyed by the number of the embedding model that they make vectors for."""
        self._database = database
        self._providers = providers
        self._tenants = tenants
        self._journal = journal
        self._defaults = defaults or SearchDefaults()

    async def search(self, tenant_id: UUID, query: SearchQuery, *, subject: str = "service") -> SearchResult:
        """The best entries of the tenant for the query.

        When the embedding provider fails, the words alone answer, and `fallback_mode` says so.
        Raises TenantNotFound, InvalidInput (a query embedding of the wrong length), CursorExpired and
        DatabaseUnavailable.
        """
        started = time.perf_counter()
        plan = make_plan(query, await self._tenants.context(tenant_id), self._defaults)
        if query.cursor is not None:
            return await self._continue(plan, query.cursor, started)
        search_id = new_id()
        legs = await self._words_and_embedding(plan)
        log.debug("search %s: query embedded, keyword leg done", search_id)
        setup = session_setup(query.ef_search)
        async with self._database.tenant_session(tenant_id, setup=setup) as session:
            if legs.vector is not None:
                await self._semantic_leg(session, plan, legs)
            ranking = await self._fuse(session, plan, legs)
            log.debug("search %s: %d candidates ranked", search_id, len(ranking))
            words = " ".join((query.query, *legs.corrections.values()))
            hits = await hydrate(session, plan.tenant, query, words, ranking[: query.limit], legs.vector)
            suggestions = [] if hits else await suggest(session, query.query)
        result = self._answer(plan, search_id, ranking, hits, suggestions, legs, started)
        self._journal.record(plan, result, ranking, subject)
        _log_search(plan, result)
        return result

    async def why_not(self, tenant_id: UUID, entry_id: UUID, query: SearchQuery) -> WhyNot:
        """Why an entry is not among a search's results: the filter, the legs, the threshold or the cut.

        An id that another tenant owns gets the same answer as one that nobody has. Raises as `search` does.
        """
        plan = make_plan(query, await self._tenants.context(tenant_id), self._defaults)
        legs = await self._words_and_embedding(plan)
        async with self._database.tenant_session(tenant_id, setup=session_setup(query.ef_search)) as session:
            if legs.vector is not None:
                await self._semantic_leg(session, plan, legs)
            ranking = await self._fuse(session, plan, legs)
            verdict = await db.fetch_verdict(
                session, plan.tenant.space, entry_id, query.query, legs.vector, query.entry_filter
            )
        return judge(entry_id, plan, legs, ranking, verdict)

    async def _words_and_embedding(self, plan: Plan) -> Legs:
        """Run the keyword leg while the provider embeds the query; no connection waits for the provider."""
        query = plan.query
        legs = Legs()
        if query.mode == "keyword":
            await self._keyword_leg(plan, legs)
            return legs
        embedding = asyncio.create_task(self._embed(plan, legs))
        try:
            if query.mode == "hybrid":
                await self._keyword_leg(plan, legs)
            await embedding
        finally:
            embedding.cancel()
        if legs.vector is None and legs.keyword is None:
            await self._keyword_leg(plan, legs)
        return legs

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
        ranking = rank(candidates)
        if plan.query.diversity > 0:
            ranking = await diversify(session, plan.tenant, ranking, plan.query.diversity, plan.wanted)
        legs.seconds["fusion"] = time.perf_counter() - started
        return ranking

    async def _embed(self, plan: Plan, legs: Legs) -> None:
        given = plan.query.query_embedding
        if given is not None:
            # The largest component first, so that the norm of extreme numbers neither overflows nor vanishes.
            vector = np.asarray(given, dtype=np.float64)
            vector = vector / np.abs(vector).max()
            legs.vector = (vector / np.linalg.norm(vector)).astype(np.float32)
            return
        started = time.perf_counter()
        provider = self._providers.get(plan.tenant.space.model_id)
        try:
            if provider is None:
                raise EmbeddingUnavailable(
                    plan.tenant.model.provider, "no provider for the tenant's model", attempts=0
                )
            legs.vector = await provider.embed_query(plan.query.query)
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

    async def _keyword_leg(self, plan: Plan, legs: Legs) -> None:
        started = time.perf_counter()
        query = KeywordQuery(plan.query.query, quoted_phrases(plan.query.query))
        async with self._database.tenant_session(plan.tenant.tenant_id) as session:
            rows: Sequence[Row] = []
            if is_identifier(query.text):
                # Entries that have it whole; those with a part of it only where there are none.
                rows = await self._match_words(session, plan, replace(query, whole=True))
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

    async def _match_words(self, session: TenantSession, plan: Plan, query: KeywordQuery) -> Sequence[Row]:
        budget, pool = self._defaults.keyword_budget, max(KEYWORD_POOL, 2 * plan.wanted)
        return await db.keyword_leg(session, query, plan.query.entry_filter, plan.wanted, budget, pool)

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

    async def _semantic_leg(self, session: TenantSession, plan: Plan, legs: Legs) -> None:
        assert legs.vector is not None
        started = time.perf_counter()
        legs.semantic = await search_vectors(
            session,
            plan.tenant,
            legs.vector,
            plan.query.entry_filter,
            plan.threshold,
            plan.wanted,
            self._defaults.exact_limit,
        )
        legs.seconds["semantic"] = time.perf_counter() - started

    def _answer(
        self,
        plan: Plan,
        search_id: UUID,
        ranking: Sequence[Candidate],
        hits: Sequence[Hit],
        suggestions: Sequence[str],
        legs: Legs,
        started: float,
    ) -> SearchResult:
        query = plan.query
        more = len(ranking) > query.limit
        metadata = SearchMetadata(
            search_id=search_id,
            total=len(ranking),
            fallback_mode=legs.failure is not None,
            search_modes_used=[
                leg
                for leg, ran in (("semantic", legs.semantic), ("keyword", legs.keyword))
                if ran is not None
            ],
            degraded=["embedding_unavailable"] if legs.failure else [],
            exact=legs.semantic is None or legs.semantic.exact,
            estimated_matches=max(legs.keyword_matches, len(ranking)),
            suggestions=suggestions,
            next_cursor=write_cursor(search_id, query.limit) if more else None,
            query_time_ms=_milliseconds(time.perf_counter() - started),
            embedding_ms=_milliseconds(legs.seconds.get("embedding", 0.0)),
            semantic_ms=_milliseconds(legs.seconds.get("semantic", 0.0)),
            keyword_ms=_milliseconds(legs.seconds.get("keyword", 0.0)),
            fusion_ms=_milliseconds(legs.seconds.get("fusion", 0.0)),
        )
        debug = explanation.explain(plan, legs, ranking[: query.limit]) if query.explain else None
        return SearchResult(hits, metadata, debug)

    async def _continue(self, plan: Plan, cursor: str, started: float) -> SearchResult:
        """The next page of a ranking that an earlier search pinned."""
        search_id, offset = read_cursor(cursor)
        pinned = await self._journal.pinned(plan.tenant.tenant_id, search_id)
        end = offset + plan.query.limit
        async with self._database.tenant_session(plan.tenant.tenant_id) as session:
            page = pinned.candidates[offset:end]
            hits = await hydrate(session, plan.tenant, plan.query, plan.query.query, page, None)
        total = len(pinned.candidates)
        metadata = SearchMetadata(
            search_id=search_id,
            total=total,
            fallback_mode=pinned.fallback,
            search_modes_used=pinned.search_modes_used,
            degraded=["embedding_unavailable"] if pinned.fallback else [],
            exact=pinned.exact,
            estimated_matches=pinned.estimated_matches,
            suggestions=[],
            next_cursor=write_cursor(search_id, end) if end < total else None,
            query_time_ms=_milliseconds(time.perf_counter() - started),
            embedding_ms=0,
            semantic_ms=0,
            keyword_ms=0,
            fusion_ms=0,
        )
        result = SearchResult(hits, metadata, None)
        _log_search(plan, result)
        return result


def _milliseconds(seconds: float) -> int:
    return round(1000 * seconds)


def _log_search(plan: Plan, result: SearchResult) -> None:
    metadata = result.metadata
    similarities = [hit.similarity for hit in result.results if hit.similarity is not None]
    log.info(
        "search",
        extra={
            "search_id": str(metadata.search_id),
            "tenant_id": str(plan.tenant.tenant_id),
            "query_length": len(plan.query.query),
            "result_count": len(result.results),
            "top_similarity": round(max(similarities), 4) if similarities else None,
            "embedding_ms": metadata.embedding_ms,
            "semantic_ms": metadata.semantic_ms,
            "keyword_ms": metadata.keyword_ms,
            "fusion_ms": metadata.fusion_ms,
            "query_time_ms": metadata.query_time_ms,
        },
    )
