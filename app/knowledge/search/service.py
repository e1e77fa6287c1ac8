"""The search service: from a query to a page of hits."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar
from uuid import UUID

import numpy as np
import orjson

from app.concurrency.stopwatch import current_stopwatch, run_stopwatch
from app.contract.results import SearchResult
from app.contract.search import SearchQuery, WhyNot
from app.contract.settings import TenantSettings
from app.contract.text import is_storable
from app.db.database import Database
from app.db.principals import SERVICE, current_principals
from app.db.queries import hits, search, tenants, vectors
from app.db.queries.entries import EntryKey, find_same
from app.db.queries.search import EntryFilter, Sought, VectorSpace
from app.db.rows import new_id
from app.db.session import TenantSession
from app.embeddings.provider import EmbeddingProvider
from app.errors import CursorExpired, EmbeddingUnavailable, EntryNotFound, InvalidInput, KnowledgeError, RateLimited
from app.knowledge.search.answer.page import (
    Page,
    Times,
    count_facets,
    describe_ranking,
    explain,
    explain_page,
    fetch_page,
    judge,
    log_search,
    make_hits,
    make_metadata,
    relax,
    suggest,
)
from app.knowledge.search.answer.snippet import SnippetMaker
from app.knowledge.search.journal import PageStart, SearchJournal, pinned_ranking, resume
from app.knowledge.search.legs.findings import EmbedQuery, QueryBatch, split_query
from app.knowledge.search.legs.semantic import find_cosines, session_setup
from app.knowledge.search.meter import SimilarityMeter
from app.knowledge.search.plan import Plan, SearchDefaults, make_plan
from app.knowledge.search.query import filter_of, needs_vector
from app.knowledge.search.ranker import Ranker
from app.knowledge.search.ranking import Ranking
from app.knowledge.tenants.admission import Admission
from app.knowledge.tenants.directory import TenantDirectory, find_provider
from app.knowledge.versions import VersionService
from app.telemetry.metrics import SEARCH_LEG_SECONDS, SEARCH_SECONDS, SEARCH_WAITING_SECONDS, SEARCHES
from app.telemetry.tracing import span

log = logging.getLogger("app.knowledge.search")

Kept = TypeVar("Kept")

SIMULTANEOUS = 4
"""Searches of one batch that run at the same time; the limit leaves connections for other requests."""

BATCH_BYTES = 8 * 1024 * 1024
"""JSON of the results of one batch; 32 searches with 50 chunks each have about 5 MiB."""

FULL = f"answer_bytes: the results of the batch reached {BATCH_BYTES} bytes; send this search again"


@dataclass(eq=False)
class KnowledgeSearchService:
    """Runs searches of any tenant, without an HTTP request or a web framework.

    `providers` are keyed by the id of their embedding model.
    """

    database: Database
    providers: Mapping[int, EmbeddingProvider]
    tenants: TenantDirectory
    journal: SearchJournal
    ranker: Ranker
    versions: VersionService
    similarities: SimilarityMeter
    defaults: SearchDefaults = field(default_factory=SearchDefaults)
    admission: Admission = field(default_factory=Admission)

    async def search(
        self, tenant_id: UUID, query: SearchQuery, *, subject: str = "service", recorded: bool = True
    ) -> SearchResult:
        """Find the tenant's best entries for the query.

        When the embedding provider fails, only the keyword leg runs and `fallback_mode` is True. A search that is not
        `recorded`, such as one of a query that is still being typed, has no receipt, no later pages and no feedback.
        Raises TenantNotFound, InvalidInput (a query embedding of the wrong length, a cursor of another search),
        CursorExpired, RateLimited (too many searches of the tenant at the same time) and DatabaseUnavailable.
        """
        with run_stopwatch():
            plan = make_plan(query, await self.tenants.context(tenant_id), self.defaults)
            return await self._answer(plan, subject if recorded else None)

    async def try_settings(self, tenant_id: UUID, query: SearchQuery, given: TenantSettings) -> SearchResult:
        """Search as the tenant would with the given settings, without a record. Raises as `search` does."""
        with run_stopwatch():
            tenant = replace(await self.tenants.context(tenant_id), settings=given)
            return await self._answer(make_plan(query, tenant, self.defaults), None)

    async def check(self, tenant_id: UUID, query: SearchQuery) -> None:
        """Check a query against the tenant's settings without running it. Raises InvalidInput, TenantNotFound."""
        make_plan(query, await self.tenants.context(tenant_id), self.defaults)

    async def search_many(
        self, tenant_id: UUID, queries: Sequence[SearchQuery], *, subject: str = "service"
    ) -> list[SearchResult | KnowledgeError]:
        """Run several searches whose queries are embedded in one call; return a result or an error for each.

        The errors are those that `search` raises, and RateLimited for those for whose results there is no
        room. Raises RateLimited, TenantNotFound and DatabaseUnavailable if no search can start.
        """
        return await self._search_each(tenant_id, queries, subject, lambda found, _: found)

    async def search_for_json(
        self, tenant_id: UUID, queries: Sequence[SearchQuery], *, subject: str = "service"
    ) -> list[bytes | KnowledgeError]:
        """As `search_many`, with the JSON of each result."""
        return await self._search_each(tenant_id, queries, subject, lambda _, written: written)

    async def _search_each(
        self, tenant_id: UUID, queries: Sequence[SearchQuery], subject: str, keep: Callable[[SearchResult, bytes], Kept]
    ) -> list[Kept | KnowledgeError]:
        """Run the searches, and `keep` one form of each result: the JSON has to be written to find its size."""
        tenant = await self.tenants.context(tenant_id)
        plans: list[Plan | KnowledgeError] = []
        for query in queries:
            try:
                plans.append(make_plan(query, tenant, self.defaults))
            except KnowledgeError as error:
                plans.append(error)
        asked = [plan.asked.text for plan in plans if isinstance(plan, Plan) and needs_vector(plan.query)]
        batch: QueryBatch | None = None
        with contextlib.suppress(EmbeddingUnavailable):  # each search then falls back to the keyword leg
            provider = find_provider(self.providers, tenant)
            batch = QueryBatch(provider, [text for query in asked for text in split_query(provider, query).texts])
        turns = asyncio.Semaphore(SIMULTANEOUS)
        room = BATCH_BYTES

        async def run(plan: Plan | KnowledgeError) -> Kept | KnowledgeError:
            nonlocal room
            if isinstance(plan, KnowledgeError):
                return plan
            with run_stopwatch(current_stopwatch().fork()) as stopwatch:
                with stopwatch.waiting():
                    await turns.acquire()
                try:
                    if room > 0:
                        found = await self._answer(plan, subject, batch.embed_query if batch else None)
                        written = orjson.dumps(found)
                        room -= len(written)
                    if room <= 0:
                        return RateLimited(FULL, 1.0, "answer_bytes")
                    return keep(found, written)
                except KnowledgeError as error:
                    return error
                finally:
                    turns.release()

        try:
            async with self.admission.answering(tenant, BATCH_BYTES), asyncio.TaskGroup() as group:
                tasks = [group.create_task(run(plan)) for plan in plans]
        finally:
            if batch is not None:
                await batch.close()
        return [task.result() for task in tasks]

    async def why_not(self, tenant_id: UUID, entry: UUID | str, query: SearchQuery) -> WhyNot:
        """Explain why an entry is not in a search's results: the filter, the legs, the threshold or the cut.

        `entry` is its id, or its external_id. For an entry of another tenant the explanation is that of an unknown id.
        Raises as `search` does, and EntryNotFound for an unknown external_id.
        """
        if query.as_of is not None:
            raise InvalidInput.of("as_of", "is not supported in why-not")
        with run_stopwatch() as stopwatch:
            plan = make_plan(query, await self.tenants.context(tenant_id), self.defaults)
            async with self.admission.search(plan.tenant), self.ranker.run(plan) as ranked:
                entry_id = entry if isinstance(entry, UUID) else await _find_entry(ranked.session, entry)
                plan, legs = ranked.plan, ranked.legs
                words = legs.words_compared(plan.asked.text)
                sought = Sought(plan.tenant.space, words, legs.embedding.vector, plan.entry_filter)
                verdict = await hits.fetch_verdict(
                    ranked.session, sought, entry_id, legs.alternatives, required=plan.required
                )
                if verdict is not None and len(legs.embedding.vectors) > 1:
                    cosines = await find_cosines(ranked.session, plan, legs.embedding.vectors, [entry_id])
                    verdict = replace(verdict, cosine=cosines.get(entry_id))
            return judge(entry_id, plan, legs, ranked.candidates, verdict, stopwatch)

    async def rank(self, tenant_id: UUID, query: SearchQuery) -> tuple[Plan, Ranking]:
        """Rank the candidates of a query without reading the hits and without a record. Raises as `search` does."""
        with run_stopwatch():
            plan = make_plan(query, await self.tenants.context(tenant_id), self.defaults)
            async with self.admission.search(plan.tenant), self.ranker.run(plan) as ranked:
                return plan, describe_ranking(ranked.plan, ranked.legs, ranked.candidates, ranked.reranking)

    async def _answer(self, plan: Plan, subject: str | None, embed: EmbedQuery | None = None) -> SearchResult:
        """Answer a search; one without a `subject` is not recorded."""
        query = plan.query
        with span("search", mode=query.mode, limit=plan.limit) as seen:
            async with self.admission.search(plan.tenant):
                if query.cursor is None:
                    result = await self.database.reading(
                        plan.tenant.tenant_id, lambda: self._search(plan, subject, embed)
                    )
                else:
                    result = await self._continue(plan, query.cursor)
            metadata = result.metadata
            seen.set(results=len(result.results), fallback=metadata.fallback_mode, exact=metadata.exact)
        SEARCHES.labels(query.mode, metadata.fallback_mode).inc()
        stopwatch = current_stopwatch()
        SEARCH_SECONDS.labels(query.mode).observe(stopwatch.seconds)
        SEARCH_WAITING_SECONDS.labels(query.mode).observe(stopwatch.waited)
        log_search(plan, result)
        return result

    async def _search(self, plan: Plan, subject: str | None, embed: EmbedQuery | None) -> SearchResult:
        start = PageStart(new_id())
        if plan.query.as_of is not None:
            await self.versions.require_kept(plan.tenant.tenant_id, plan.query.as_of)
        async with self.ranker.run(plan, embed) as ranked:
            session, plan, legs, candidates = ranked.session, ranked.plan, ranked.legs, ranked.candidates
            log.debug("search %s: %d candidates ranked", start.search_id, len(candidates))
            words, vector = legs.words_sought(plan.asked.text), legs.embedding.vector
            page = candidates[: plan.limit]
            with span("hydrate", hits=len(page)):
                sought = Sought(plan.tenant.space, words, vector, plan.entry_filter)
                found = await fetch_page(session, sought, page)
                suggestions = [] if found.entries else await suggest(session, plan)
                relaxations = [] if found.entries else await relax(session, plan, legs.embedding.vectors)
            facets = await count_facets(session, plan, legs) if plan.query.facets else None
        results = await make_hits(found)
        reranking = ranked.reranking
        ranking = describe_ranking(plan, legs, candidates, reranking)
        times = Times(
            embedding=legs.embedding.seconds,
            semantic=legs.semantic.seconds if legs.semantic else None,
            keyword=legs.keyword.seconds if legs.keyword else None,
            fusion=ranked.fusion_seconds,
            reranking=None if reranking is None else reranking.seconds,
        )
        metadata = make_metadata(
            start, found.taken, plan.asked, ranking, current_stopwatch(), times, suggestions, relaxations
        )
        result = SearchResult(
            results,
            metadata,
            explain(plan, legs, page[: found.taken], found.ids, reranking) if plan.query.explain else None,
            facets,
        )
        for part, spent in times.known:
            SEARCH_LEG_SECONDS.labels(part).observe(spent)
        if subject is None:
            return replace(result, metadata=replace(metadata, next_cursor=None))
        self.journal.record(plan, result, ranking, subject)
        self.similarities.count(plan, legs)
        return result

    async def _continue(self, plan: Plan, cursor: str) -> SearchResult:
        """Return the next page of an earlier search from its stored ranking."""
        start = PageStart.from_cursor(cursor)
        tenant = plan.tenant
        kept = await self.journal.find(tenant.tenant_id, start.search_id)
        if kept is None:
            raise CursorExpired("the ranked list of this cursor is not available any more; search again")
        rights = current_principals()
        if SERVICE[0] not in rights and not set(kept.principals or ()).issubset(rights):
            raise CursorExpired("the caller has lost rights since the search of this cursor; search again")
        query = resume(plan.query, kept)
        ranking = pinned_ranking(kept.receipt)
        page = ranking.candidates[start.offset : start.offset + plan.limit]

        async def fetch() -> Page:
            async with self.database.read_session(tenant.tenant_id) as session:
                sought = Sought(tenant.space, plan.asked.text, None, filter_of(query))
                return await fetch_page(session, sought, page)

        found = await self.database.reading(tenant.tenant_id, fetch)
        results = await make_hits(found)
        metadata = make_metadata(start, found.taken, plan.asked, ranking, current_stopwatch(), Times())
        shown = page[: found.taken]
        debug = explain_page(kept.receipt, shown, found.ids, start.offset) if query.explain else None
        return SearchResult(results, metadata, debug, None)


async def _find_entry(session: TenantSession, external_id: str) -> UUID:
    same = await find_same(session, [EntryKey(external_id, b"")]) if is_storable(external_id) else {}
    if not same:
        raise EntryNotFound("there is no entry with this external_id")
    return same[0]


QUERY = "rehearsal"
LOCAL = "local"
"""The provider whose model is in this process; a query to any other would cost money."""


class Rehearsal:
    """Makes the first searches of a process, and of a connection, as fast as the later ones."""

    def __init__(self, database: Database, providers: Mapping[int, EmbeddingProvider]) -> None:
        """`providers` are keyed by the id of their embedding model."""
        self._database = database
        self._providers = providers

    @contextlib.asynccontextmanager
    async def keep_warm(self) -> AsyncIterator[None]:
        """Rehearse, and rehearse on each new connection while the block runs."""
        for language in ("english", "german", "simple"):
            SnippetMaker(QUERY).make(QUERY, f"The *{QUERY}* of {QUERY}s", language, (QUERY,), None)
        for provider in self._providers.values():
            if provider.model.provider == LOCAL:
                with contextlib.suppress(EmbeddingUnavailable):
                    await provider.embed_query(QUERY)
        async with self._database.keep_warm(self._run_statements, setup=session_setup(None)):
            yield

    async def _run_statements(self, session: TenantSession) -> None:
        await tenants.own_tenant(session)
        spaces = {
            (space := VectorSpace(model_id, provider.model.dimensions)): np.ones(space.dimensions, dtype=np.float32)
            for model_id, provider in self._providers.items()
        }
        await search.rehearse(session, spaces)
        for space, vector in spaces.items():
            await vectors.rehearse(session, space, vector)
            await hits.hydrate(session, Sought(space, QUERY, vector, EntryFilter()), [], 1)
