"""Searching: both legs, their fusion, and the answer."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Mapping, Sequence
from uuid import UUID

import numpy as np

from app.db.database import Database
from app.db.identifiers import new_id
from app.db.queries.search import search as db
from app.db.queries.search.search import VectorSpace
from app.embeddings.provider import EmbeddingProvider
from app.errors import DatabaseUnavailable, EmbeddingUnavailable, KnowledgeError
from app.knowledge.search.answer import explanation
from app.knowledge.search.answer.hydration import hydrate
from app.knowledge.search.answer.suggestions import suggest
from app.knowledge.search.batch import QueryBatch
from app.knowledge.search.journal.continuation import resume
from app.knowledge.search.journal.journal import SearchJournal, read_cursor, write_cursor
from app.knowledge.search.legs.semantic import session_setup
from app.knowledge.search.plan import Legs, Plan, SearchDefaults, make_plan
from app.knowledge.search.query import SearchQuery
from app.knowledge.search.ranking.fusion import Candidate
from app.knowledge.search.ranking.ranker import EmbedQuery, Ranker
from app.knowledge.search.ranking.strength import has_strong_match
from app.knowledge.search.results import Hit, SearchMetadata, SearchResult
from app.knowledge.search.why_not import WhyNot, judge
from app.knowledge.tenants.admission import Admission
from app.knowledge.tenants.directory import TenantDirectory
from app.knowledge.tenants.providers import find_provider
from app.telemetry.metrics import SEARCH_LEG_SECONDS, SEARCH_SECONDS, SEARCHES
from app.telemetry.tracing import span

log = logging.getLogger("app.knowledge.search")

SIMULTANEOUS = 4
"""Searches of one batch that run at a time, so that it leaves connections to others."""

NOBODY = UUID(int=0)
"""A tenant that does not exist."""


class KnowledgeSearchService:
    """Answers searches of any tenant. Needs no HTTP request and no framework."""

    def __init__(
        self,
        database: Database,
        providers: Mapping[int, EmbeddingProvider],
        tenants: TenantDirectory,
        journal: SearchJournal,
        defaults: SearchDefaults | None = None,
        admission: Admission | None = None,
    ) -> None:
        """`providers` are keyed by the number of the embedding model that they make vectors for."""
        self._database = database
        self._providers = providers
        self._tenants = tenants
        self._journal = journal
        self.defaults = defaults or SearchDefaults()
        self._ranker = Ranker(database, providers, self.defaults, journal.meter)
        self._admission = admission or Admission()

    async def search(self, tenant_id: UUID, query: SearchQuery, *, subject: str = "service") -> SearchResult:
        """The best entries of the tenant for the query.

        When the embedding provider fails, the words alone answer, and `fallback_mode` says so.
        Raises TenantNotFound, InvalidInput (a query embedding of the wrong length, a cursor of another search),
        CursorExpired, RateLimited (too
        many searches of the tenant at the same time) and DatabaseUnavailable.
        """
        plan = make_plan(query, await self._tenants.context(tenant_id), self.defaults)
        return await self._run(plan, subject)

    async def check(self, tenant_id: UUID, query: SearchQuery) -> None:
        """Raise what `search` would of a query that the tenant cannot ask: InvalidInput, TenantNotFound."""
        make_plan(query, await self._tenants.context(tenant_id), self.defaults)

    async def search_many(
        self, tenant_id: UUID, queries: Sequence[SearchQuery], *, subject: str = "service"
    ) -> list[SearchResult | KnowledgeError]:
        """Several searches, their queries embedded in one call; each has its result, or what `search` would raise.

        Raises TenantNotFound and DatabaseUnavailable where none of them can begin.
        """
        tenant = await self._tenants.context(tenant_id)
        plans: list[Plan | KnowledgeError] = []
        for query in queries:
            try:
                plans.append(make_plan(query, tenant, self.defaults))
            except KnowledgeError as error:
                plans.append(error)
        texts = [plan.query.query for plan in plans if isinstance(plan, Plan) and plan.query.needs_vector]
        batch: QueryBatch | None = None
        with contextlib.suppress(EmbeddingUnavailable):  # each then answers from words, and says so
            batch = QueryBatch(find_provider(self._providers, tenant), texts)
        turns = asyncio.Semaphore(SIMULTANEOUS)

        async def run(plan: Plan | KnowledgeError) -> SearchResult | KnowledgeError:
            if isinstance(plan, KnowledgeError):
                return plan
            async with turns:
                try:
                    return await self._run(plan, subject, batch.embed_query if batch else None)
                except KnowledgeError as error:
                    return error

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(run(plan)) for plan in plans]
        finally:
            if batch is not None:
                await batch.close()
        return [task.result() for task in tasks]

    async def _run(self, plan: Plan, subject: str, embed: EmbedQuery | None = None) -> SearchResult:
        started = time.perf_counter()
        with span("search", mode=plan.query.mode, limit=plan.limit) as seen:
            async with self._admission.search(plan.tenant):
                result = await self._search(plan, subject, embed)
            metadata = result.metadata
            seen.set(results=len(result.results), fallback=metadata.fallback_mode, exact=metadata.exact)
        SEARCHES.labels(plan.query.mode, metadata.fallback_mode).inc()
        SEARCH_SECONDS.labels(plan.query.mode).observe(time.perf_counter() - started)
        return result

    async def _search(self, plan: Plan, subject: str, embed: EmbedQuery | None) -> SearchResult:
        started = time.perf_counter()
        query = plan.query
        if query.cursor is not None:
            return await self._continue(plan, query.cursor, started)
        search_id = new_id()
        async with self._ranker.run(plan, embed) as ranked:
            legs, ranking = ranked.legs, ranked.candidates
            log.debug("search %s: %d candidates ranked", search_id, len(ranking))
            words = legs.words_sought(query.query)
            page = ranking[: plan.limit]
            with span("hydrate", hits=len(page)):
                hits = await hydrate(ranked.session, plan.tenant, query, words, page, legs.vector)
                suggestions = [] if hits else await suggest(ranked.session, query)
        result = self._answer(plan, search_id, ranking, hits, suggestions, legs, started)
        for leg, seconds in legs.seconds.items():
            SEARCH_LEG_SECONDS.labels(leg).observe(seconds)
        self._journal.record(plan, result, ranking, subject)
        _log_search(plan, result)
        return result

    async def warm_up(self, connections: int) -> None:
        """Open connections and let each plan a search's statements, so that no caller waits for it (50 to 100 ms)."""

        async def rehearse(model_id: int, provider: EmbeddingProvider) -> None:
            space = VectorSpace(model_id, provider.model.dimensions)
            vector = np.ones(space.dimensions, dtype=np.float32)
            async with self._database.tenant_session(NOBODY, setup=session_setup(None)) as session:
                await db.rehearse(session, space, vector)

        for model_id, provider in self._providers.items():
            try:
                await asyncio.gather(*(rehearse(model_id, provider) for _ in range(connections)))
            except DatabaseUnavailable:
                log.warning("the database went away while connections were opened in advance")

    async def why_not(self, tenant_id: UUID, entry_id: UUID, query: SearchQuery) -> WhyNot:
        """Why an entry is not among a search's results: the filter, the legs, the threshold or the cut.

        An id that another tenant owns gets the same answer as one that nobody has. Raises as `search` does.
        """
        plan = make_plan(query, await self._tenants.context(tenant_id), self.defaults)
        async with self._admission.search(plan.tenant), self._ranker.run(plan) as ranked:
            legs, ranking = ranked.legs, ranked.candidates
            words = legs.words_sought(query.query)
            verdict = await db.fetch_verdict(
                ranked.session, plan.tenant.space, entry_id, words, legs.vector, query.entry_filter
            )
        return judge(entry_id, plan, legs, ranking, verdict)

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
        more = len(ranking) > plan.limit
        metadata = SearchMetadata(
            search_id=search_id,
            total=len(ranking),
            strong_match=has_strong_match(legs, ranking[: plan.limit], plan.tenant.model),
            fallback_mode=legs.failure is not None,
            search_modes_used=legs.searched,
            degraded=[legs.failure.degradation] if legs.failure else [],
            exact=legs.semantic is None or legs.semantic.exact,
            estimated_matches=max(legs.keyword_matches, len(ranking)),
            suggestions=suggestions,
            next_cursor=write_cursor(search_id, plan.limit) if more else None,
            query_time_ms=_milliseconds(time.perf_counter() - started),
            embedding_ms=_milliseconds(legs.seconds.get("embedding", 0.0)),
            semantic_ms=_milliseconds(legs.seconds.get("semantic", 0.0)),
            keyword_ms=_milliseconds(legs.seconds.get("keyword", 0.0)),
            fusion_ms=_milliseconds(legs.seconds.get("fusion", 0.0)),
        )
        debug = explanation.explain(plan, legs, ranking[: plan.limit]) if query.explain else None
        return SearchResult(hits, metadata, debug)

    async def _continue(self, plan: Plan, cursor: str, started: float) -> SearchResult:
        """The next page of a ranking that an earlier search pinned."""
        search_id, offset = read_cursor(cursor)
        pinned = await self._journal.pinned(plan.tenant.tenant_id, search_id)
        query = resume(plan.query, search_id, pinned.receipt)
        end = offset + plan.limit
        async with self._database.tenant_session(plan.tenant.tenant_id) as session:
            page = pinned.candidates[offset:end]
            hits = await hydrate(session, plan.tenant, query, query.query, page, None)
        total = len(pinned.candidates)
        metadata = SearchMetadata(
            search_id=search_id,
            total=total,
            strong_match=pinned.strong_match,
            fallback_mode=pinned.fallback,
            search_modes_used=pinned.search_modes_used,
            degraded=pinned.degraded,
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
        debug = explanation.explain_page(pinned.receipt, page, offset) if query.explain else None
        result = SearchResult(hits, metadata, debug)
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
