"""The effect of other settings on a tenant's recent queries, before they are stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from app.db.database import Database
from app.db.queries.search.receipts import RecentRequest, recent_requests
from app.errors import InvalidInput
from app.knowledge.audit import AuditTrail
from app.knowledge.search.journal.receipts import KEPT
from app.knowledge.search.journal.records import SearchJournal
from app.knowledge.search.query import SearchQuery, read_values
from app.knowledge.search.results import SearchResult
from app.knowledge.search.service import KnowledgeSearchService
from app.knowledge.tenants.directory import TenantDirectory
from app.knowledge.tenants.settings import TenantSettings

QUERIES = 5
"""Most queries of a preview; each is run twice."""

DEPTH = 10
"""Hits of each search that are compared."""

RANKING = (
    *("weights", "type_weights", "similarity_threshold", "fusion", "verified_boost", "rerank"),
    *("auto_tune", "tuned"),
)
"""The settings that change the order of hits."""

NOT_COMPARED = frozenset(("limit", "facets", "explain", "as_of", "group_by", "rerank"))
"""Parameters of a search that a preview leaves out: single entries of today are compared, by the settings."""


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


class PreviewService:
    """Runs recent queries with other settings, for the tenant's admin; the searches are not recorded."""

    def __init__(
        self,
        database: Database,
        trail: AuditTrail,
        tenants: TenantDirectory,
        search: KnowledgeSearchService,
        journal: SearchJournal,
    ) -> None:
        self._database = database
        self._trail = trail
        self._tenants = tenants
        self._search = search
        self._journal = journal

    async def preview(
        self,
        tenant_id: UUID,
        changes: Mapping[str, Any],
        *,
        queries: Sequence[str] = (),
        reader: str | None = None,
    ) -> SettingsPreview:
        """Compare the hits before and after `changes`, which are those of `change_settings`; nothing is stored.

        Each query runs with its own filters and boosts, and otherwise as if it had named no setting: a receipt does
        not tell which of the settings in force its caller had named. Raises InvalidInput, RateLimited and
        DatabaseUnavailable.
        """
        proposed = await self._tenants.propose_settings(tenant_id, changes)
        former = (await self._tenants.context(tenant_id)).settings
        ranks = any(getattr(former, name) != getattr(proposed, name) for name in RANKING)
        found: list[PreviewedQuery] = []
        if ranks:
            limit = min(DEPTH, former.max_limit or DEPTH, proposed.max_limit or DEPTH)
            for wanted in await self._choose(tenant_id, queries, limit, reader):
                before = await self._search.try_settings(tenant_id, wanted, former)
                after = await self._search.try_settings(tenant_id, wanted, proposed)
                found.append(PreviewedQuery(wanted.query, before, after))
        return SettingsPreview(former, proposed, ranks, found, former.keep_query_text)

    async def _choose(
        self, tenant_id: UUID, given: Sequence[str], limit: int, reader: str | None
    ) -> list[SearchQuery]:
        wanted = [SearchQuery(query=query, limit=limit) for query in given[:QUERIES]]
        await self._journal.flush()
        async with self._database.tenant_session(tenant_id) as session:
            recent = await recent_requests(session, KEPT, QUERIES)
            await self._trail.note_read(session, reader, "search.read")
        known = {query.query for query in wanted}
        wanted += [query for r in recent if r.query not in known and (query := _query_of(r, limit))]
        return wanted[:QUERIES]


def _query_of(request: RecentRequest, limit: int) -> SearchQuery | None:
    """The search of a receipt without settings; None if it is not valid any more."""
    options = {name: value for name, value in request.options.items() if name not in NOT_COMPARED}
    try:
        return SearchQuery(
            query=request.query,
            mode=request.mode,  # type: ignore[arg-type]
            rrf_k=request.rrf_k,
            limit=limit,
            **read_values(options),
        )
    except (InvalidInput, ValueError, TypeError, AttributeError):
        return None
