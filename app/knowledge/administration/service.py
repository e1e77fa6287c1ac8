"""Statistics, receipts and the audit trail of a tenant, replayed searches and previewed settings, for its admin."""

import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

from app.contract.administration import (
    MAX_CALLERS,
    AuditFilter,
    AuditRecord,
    CallerUse,
    DayUsage,
    LimitUse,
    RecordUse,
    Stats,
)
from app.contract.fields import Page
from app.contract.receipts import Cause, Difference, DifferenceReason, RankedEntry, Replay, SearchLine
from app.contract.results import SearchResult
from app.contract.search import SearchQuery
from app.contract.settings import SettingsPatch, TenantSettings
from app.contract.text import STORABLE, is_storable
from app.db.database import Database
from app.db.principals import Rights, acting_as, acting_for_service
from app.db.queries import audit, receipts, statistics, tenants
from app.db.queries import receipts as db
from app.db.queries.receipts import KeptSearch, RecentRequest, Trace, recent_requests
from app.db.rows import Position
from app.errors import InvalidInput, SearchNotFound
from app.knowledge.audit import AuditTrail
from app.knowledge.paging import PageRequest
from app.knowledge.search.journal import KEPT, OWN_VECTOR, SearchJournal, mark_search, rank_entries, service_version
from app.knowledge.search.service import KnowledgeSearchService
from app.knowledge.tenants.admission import Admission
from app.knowledge.tenants.directory import TenantDirectory
from app.knowledge.tenants.usage import choose_days, read_usage
from app.knowledge.versions import VersionService


@dataclass(eq=False)
class AdministrationService:
    """Reads data for a tenant's admin. With `reader`, a read is recorded in the audit trail.

    `record_bounds`: the bounds of records that are not among the tenant's limits, by name; 0 means unlimited.
    """

    database: Database
    trail: AuditTrail
    tenants: TenantDirectory
    admission: Admission
    journal: SearchJournal
    record_bounds: Mapping[str, int]

    async def stats(self, tenant_id: UUID, *, reader: str | None = None) -> Stats:
        """Read the tenant's statistics."""
        # Write pending records first: they are in neither count until then.
        await self.journal.flush()
        self.tenants.forget(tenant_id)
        tenant = await self.tenants.context(tenant_id)
        async with self.database.tenant_session(tenant_id) as session:
            stock = await statistics.overview(session)
            hours = await statistics.searches_by_hour(session)
            estimates = await statistics.fetch_estimates(session)
            models = await statistics.models_in_use(session)
            work = await statistics.backlog(session)
            stored = await tenants.fetch_stored(session)
            kept = await statistics.count_records(session)
            tokens = await tenants.fetch_tokens(session) + self.journal.meter.unwritten(tenant_id)
            await self.trail.note_read(session, reader, "stats.read")
        searches = sum(hour.searches for hour in hours)
        used = {
            **self.admission.used(tenant),
            "entries": stored.entries,
            "bytes": stored.bytes,
            "receipts": next(record.rows for record in kept if record.name == "receipts"),
            "embedding_tokens_per_day": tokens,
        }
        bounds = {**self.record_bounds, "receipts": tenant.limits.receipts}
        return Stats(
            **stock,
            jobs=sum(kind.queued + kind.running for kind in work),
            model=tenant.model.info,
            passages=tenant.passages,
            indexed=tenant.indexed,
            searches_24h=searches,
            searches_without_results_24h=sum(hour.without_results for hour in hours),
            fallback_rate_24h=sum(hour.fallbacks for hour in hours) / max(searches, 1),
            estimates=estimates,
            searches_by_hour=hours,
            models=models,
            backlog=work,
            limits={n: LimitUse(number, getattr(tenant.limits, n) or None) for n, number in used.items()},
            records={r.name: RecordUse(r.rows, r.bytes, bounds[r.name] or None) for r in kept},
        )

    async def callers(self, tenant_id: UUID, *, reader: str | None = None) -> list[CallerUse]:
        """The callers of the last 24 hours with their searches and changes, the most active first, at most 100."""
        await self.journal.flush()
        async with self.database.tenant_session(tenant_id) as session:
            found = await tenants.list_callers(session, MAX_CALLERS)
            await self.trail.note_read(session, reader, "stats.read")
        return found

    async def usage(
        self, tenant_id: UUID, first: date | None, last: date | None, *, reader: str | None = None
    ) -> Sequence[DayUsage]:
        """The tenant's usage by day, by default of the last 30 days. Raises InvalidInput."""
        days = choose_days(first, last)
        await self.journal.flush()
        # It counts everything, as the limits do.
        with acting_for_service():
            async with self.database.tenant_session(tenant_id) as session:
                found = await read_usage(session, *days)
                await self.trail.note_read(session, reader, "stats.read")
        return found

    async def audit(
        self,
        tenant_id: UUID,
        wanted: AuditFilter | None = None,
        *,
        limit: int = 50,
        cursor: str | None = None,
        reader: str | None = None,
    ) -> Page[AuditRecord]:
        """List the selected rows of the audit trail, newest first, without this read. Raises InvalidInput."""
        wanted = wanted or AuditFilter()
        page_request = PageRequest.read(limit, cursor)
        async with self.database.tenant_session(tenant_id) as session:
            places = await audit.list_audit(session, wanted, page_request.after, page_request.reach)
            page = page_request.cut_places(places)
            found = await audit.fetch_audit(session, [place.id for place in page.items])
            await self.trail.note_read(session, reader, "audit.read")
        return Page(found, page.next_cursor)

    async def searches(
        self,
        tenant_id: UUID,
        *,
        subject: str | None = None,
        without_results: bool = False,
        limit: int = 50,
        cursor: str | None = None,
        reader: str | None = None,
    ) -> Page[SearchLine]:
        """List the searches of the last 24 hours, newest first, optionally of one caller or without results.

        Raises InvalidInput.
        """
        if subject is not None and not is_storable(subject):
            raise InvalidInput.of("subject", f"must be a text, {STORABLE}")
        wanted = PageRequest.read(limit, cursor)
        await self.journal.flush()
        async with self.database.tenant_session(tenant_id) as session:
            found = await receipts.list_searches(session, KEPT, subject, without_results, wanted.after, wanted.reach)
            await self.trail.note_read(session, reader, "search.read")
        return wanted.cut(found, lambda line: Position(line.at, line.id))

    async def receipt(self, tenant_id: UUID, search_id: UUID, *, reader: str | None = None) -> KeptSearch:
        """Find the receipt of a search: its settings, model and ranking. Raises SearchNotFound."""
        kept = await self.journal.find(tenant_id, search_id)
        async with self.database.tenant_session(tenant_id) as session:
            await self.trail.note_read(session, reader, "search.read", search_id, found=kept is not None)
        if kept is None:
            raise SearchNotFound("there is no search with this id, or its receipt has expired")
        return kept


CLOSE = 1e-6
"""Relative difference of two scores up to which they are equal."""

SETTINGS = frozenset(("type_weights", "verified_boost", "recent_half_life_days", "synonyms", "rerank"))
"""Settings of a tenant that change a ranking and are not in its receipt."""


@dataclass(frozen=True, slots=True)
class PreviewedQuery:
    """A query with its first hits under the stored and under the proposed settings."""

    query: str
    before: SearchResult
    after: SearchResult


@dataclass(frozen=True, slots=True)
class SettingsPreview:
    """The effect of proposed settings.

    Attributes:
        ranks: whether the change can move hits; without it, no query was run.
        queries: the given queries, then the latest ones of the tenant, at most QUERIES together.
        queries_kept: whether the tenant keeps the texts of queries; otherwise only given ones are compared.
    """

    former: TenantSettings
    proposed: TenantSettings
    ranks: bool
    queries: Sequence[PreviewedQuery]
    queries_kept: bool


@dataclass(eq=False)
class ReplayService:
    """Replays searches of the last day, and runs recent queries with other settings, for the tenant's admin."""

    administration: AdministrationService
    search: KnowledgeSearchService
    versions: VersionService

    async def replay(
        self,
        tenant_id: UUID,
        search_id: UUID,
        *,
        query: str | None = None,
        query_embedding: Sequence[float] | None = None,
        reader: str | None = None,
    ) -> Replay:
        """Run a search again as of its time, with its settings and for its caller, and compare the rankings.

        `query` is needed if the tenant does not keep query texts, and `query_embedding` if the search had one. Raises
        SearchNotFound, InvalidInput (the query is missing, or another one), and as a search does.
        """
        kept = await self.administration.receipt(tenant_id, search_id, reader=reader)
        wanted = _rebuild(kept, query, query_embedding)
        moment = wanted.as_of or _began(search_id)
        as_of: datetime | None = moment
        try:
            await self.versions.require_kept(tenant_id, moment)
        except InvalidInput:
            if wanted.as_of is not None:
                raise
            as_of = None
        principals = kept.principals
        with nullcontext() if principals is None else acting_as(tuple(principals), Rights.READ):
            plan, ranking = await self.search.rank(tenant_id, replace(wanted, as_of=as_of))
        now = rank_entries(ranking, wanted)
        then = kept.receipt.ranking
        async with self.administration.database.tenant_session(tenant_id) as session:
            traces = await db.trace(session, then)
            settings = sorted(SETTINGS.intersection(await db.changed_settings(session, kept.receipt.at)))
        model = plan.tenant.model
        differences = _compare(then, now, traces)
        causes: dict[Cause, bool] = {
            "versions_not_kept": as_of is None,
            "model_changed": wanted.mode != "keyword" and kept.receipt.model != model.info,
            "settings_changed": bool(settings),
            "service_changed": kept.receipt.version != service_version(),
            "degraded_then": bool(kept.receipt.degraded),
            "degraded_now": bool(ranking.degraded),
        }
        return Replay(
            search_id,
            kept.receipt.at,
            as_of,
            not differences,
            [cause for cause, holds in causes.items() if holds],
            settings,
            differences,
            then,
            now,
        )

    async def preview(
        self, tenant_id: UUID, patch: SettingsPatch, *, queries: Sequence[str] = (), reader: str | None = None
    ) -> SettingsPreview:
        """Compare the hits before and after `patch`, as `change_settings` takes it.

        Nothing is stored, and the searches are not recorded. Each query runs with its own filters and boosts, and
        otherwise as if it had named no setting: a receipt does not tell which of the settings in force its caller had
        named. Raises InvalidInput, RateLimited and DatabaseUnavailable.
        """
        proposed = await self.administration.tenants.propose_settings(tenant_id, patch)
        former = (await self.administration.tenants.context(tenant_id)).settings
        ranks = any(getattr(former, name) != getattr(proposed, name) for name in RANKING)
        found: list[PreviewedQuery] = []
        if ranks:
            limit = min(DEPTH, former.max_limit or DEPTH, proposed.max_limit or DEPTH)
            for wanted in await self._choose(tenant_id, queries, limit, reader):
                before = await self.search.try_settings(tenant_id, wanted, former)
                after = await self.search.try_settings(tenant_id, wanted, proposed)
                found.append(PreviewedQuery(wanted.query, before, after))
        return SettingsPreview(former, proposed, ranks, found, former.keep_query_text)

    async def _choose(self, tenant_id: UUID, given: Sequence[str], limit: int, reader: str | None) -> list[SearchQuery]:
        wanted = [SearchQuery(query=query, limit=limit) for query in given[:QUERIES]]
        await self.administration.journal.flush()
        async with self.administration.database.tenant_session(tenant_id) as session:
            recent = await recent_requests(session, KEPT, QUERIES)
            await self.administration.trail.note_read(session, reader, "search.read")
        known = {query.query for query in wanted}
        wanted += [query for r in recent if r.query not in known and (query := _query_of(r, limit))]
        return wanted[:QUERIES]


def _began(search_id: UUID) -> datetime:
    """When a search began: its id has the milliseconds. What was written in the same one counts."""
    began = datetime.fromtimestamp(((search_id.int >> 80) + 1) / 1000, UTC)
    return min(began, datetime.now(UTC) - timedelta(microseconds=1))


def _rebuild(kept: KeptSearch, query: str | None, vector: Sequence[float] | None) -> SearchQuery:
    """The query of a receipt with its effective settings. Raises InvalidInput."""
    receipt = kept.receipt
    text = receipt.query if query is None else query
    if text is None:
        raise InvalidInput.of("query", "is needed: the text of this query is not kept, or was erased")
    if receipt.options.get(OWN_VECTOR, False) != (vector is not None):
        raise InvalidInput.of(OWN_VECTOR, "must be given if the search had one, and only then")
    options = {name: value for name, value in receipt.options.items() if name not in NOT_REPLAYED}
    settings: dict[str, Any] = {name: getattr(receipt, name) for name in ("mode", "fusion", "weights", "rrf_k")}
    settings["similarity_threshold"] = max(0.0, receipt.similarity_threshold)
    wanted = SearchQuery(query=text, query_embedding=vector, **options, **settings)
    if mark_search(receipt.search_id, wanted).query != kept.asked.query:
        raise InvalidInput.of("query", "is not the query of this search")
    return wanted


def _compare(then: Sequence[RankedEntry], now: Sequence[RankedEntry], traces: dict[UUID, Trace]) -> list[Difference]:
    """The candidates whose place or score differs, starting with those of the original search."""
    places = {entry.id: (rank, entry.score) for rank, entry in enumerate(now, 1)}
    found: list[Difference] = []
    for rank, entry in enumerate(then, 1):
        now_rank, now_score = places.pop(entry.id, (None, None))
        reason: DifferenceReason
        if now_rank is None or now_score is None:
            trace = traces[entry.id]
            gone: DifferenceReason = "changed" if trace.exists else "deleted"
            reason = "not_found" if trace.unchanged or trace.kept else gone
        elif not math.isclose(entry.score, now_score, rel_tol=CLOSE, abs_tol=1e-12):
            reason = "other_score"
        elif rank != now_rank:
            reason = "other_rank"
        else:
            continue
        found.append(Difference(entry.id, rank, now_rank, entry.score, now_score, reason))
    found += [
        Difference(entry_id, None, rank, None, score, "not_ranked_then") for entry_id, (rank, score) in places.items()
    ]
    return found


QUERIES = 5
"""Most queries of a preview; each is run twice."""

DEPTH = 10
"""Hits of each search that are compared."""

RANKING = (
    *("weights", "type_weights", "similarity_threshold", "fusion", "verified_boost", "rerank"),
    *("recent_half_life_days", "synonyms", "auto_tune", "tuned", "adaptive_weights"),
)
"""The settings that change the order of hits."""

NOT_REPLAYED = frozenset(("facets", "explain", OWN_VECTOR))
NOT_COMPARED = NOT_REPLAYED | {"limit", "as_of", "group_by", "rerank"}
"""Search parameters that a preview ignores: it compares single entries of today, by the settings."""


def _query_of(request: RecentRequest, limit: int) -> SearchQuery | None:
    """The search of a receipt without settings; None if it is not valid any more."""
    options = {name: value for name, value in request.options.items() if name not in NOT_COMPARED}
    try:
        return SearchQuery(
            query=request.query,
            mode=request.mode,  # type: ignore[arg-type]
            rrf_k=request.rrf_k,
            limit=limit,
            **options,
        )
    except InvalidInput:
        return None
