"""The semantic leg: an exact scan of a small set, the tenant's own HNSW index for a large one."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from app.db.queries.search import search as words
from app.db.queries.search import vectors as db
from app.db.queries.search.search import LegHit
from app.db.queries.search.vectors import VectorMatches
from app.db.session import TenantSession
from app.embeddings.provider import Vector
from app.knowledge.search.plan import Plan
from app.telemetry.tracing import span

log = logging.getLogger("app.knowledge.search")

EF_SEARCH, EF_SEARCH_MOST = 130, 500
"""`hnsw.ef_search`, the candidates that the index keeps during a search: in a small tenant, and in one with 140,000
passages or more. Recall of the ten nearest to 100 questions about real texts: among 10,000 passages 0.991 with 120,
0.996 with 185; among 100,000 0.989 with 300, 0.998 with 500."""

Strategy = Literal["exact", "exact_filtered", "indexed", "indexed_then_exact"]


@dataclass(frozen=True, slots=True)
class SemanticHits:
    """The hits of the leg, best first, and how they were found.

    Attributes:
        matches: number of entries that reach the threshold; a lower bound in an approximate scan.
        pending: number of entries that pass the filter and have no vector yet.
        compared: False if all entries that pass the filter are pending, so that no vector was compared.
        complete: False if a bound was reached before all former versions were compared that pass the filter.
        passages: number of passages that the caller may read.
    """

    hits: Sequence[LegHit]
    strategy: Strategy
    matches: int
    pending: int
    compared: bool
    complete: bool
    seconds: float
    passages: int = 0

    @property
    def exact(self) -> bool:
        """Whether every entry that passes the filter was compared, so that there can be no nearer one."""
        return self.strategy != "indexed" and self.complete and not self.pending

    def is_cut(self, wanted: int) -> bool:
        """Whether entries may reach the threshold that are not among the hits."""
        return (
            self.matches > len(self.hits)
            or not self.complete
            or (self.strategy == "indexed" and len(self.hits) >= wanted)
        )


def session_setup(ef_search: int | None, passages: int = 0) -> str:
    """SQL for the start of the leg's transaction: settings of the planner and of the index.

    Without `ef_search`, the search effort grows with the tenant's passages.
    """
    breadth = ef_search or min(EF_SEARCH_MOST, EF_SEARCH + passages // 370)
    return (
        f"set local hnsw.ef_search={int(breadth)};"
        "set local hnsw.iterative_scan=relaxed_order;set local hnsw.max_scan_tuples=40000;"
        # The statements contain as literals what the planner must see; planning each time for 32 partitions would
        # cost more than the search.
        "set local plan_cache_mode=force_generic_plan;"
        # The planner sees no limit on a cursor: it would sort all passages instead of using the index.
        "set local enable_sort=off;"
    )


def margin(threshold: float) -> float:
    """The largest cosine distance of a match."""
    # Half precision rounds a cosine by up to 1e-3; the margin keeps a passage that is exactly on the threshold.
    return 1 - threshold + 1e-4


async def search_vectors(session: TenantSession, plan: Plan, vector: Vector) -> SemanticHits:
    """Find the entries with the highest cosine that reach the plan's threshold."""
    started = time.perf_counter()
    with span("semantic") as seen:
        found, strategy, admitted = await _find_nearest(session, plan, vector)
        if plan.entry_filter.as_of is not None:
            found = await _add_former(session, plan, vector, found)
        seen.set(hits=len(found.hits), strategy=strategy)
    if found.hits or not found.pending:
        compared = True
    elif admitted is not None and plan.entry_filter.as_of is None:
        compared = found.pending < admitted
    else:
        compared = await db.has_vectors(session, plan.tenant.space, plan.entry_filter)
    log.debug("semantic leg: %d entries, %s, %d pending", len(found.hits), strategy, found.pending)
    passages = plan.tenant.passages
    if plan.tenant.restricted and plan.query.explain:
        passages = await db.count_passages(session, plan.tenant.space)
    seconds = time.perf_counter() - started
    return SemanticHits(
        found.hits, strategy, found.matches, found.pending, compared, found.complete, seconds, passages
    )


async def _find_nearest(
    session: TenantSession, plan: Plan, vector: Vector
) -> tuple[VectorMatches, Strategy, int | None]:
    """Search exactly if the filter leaves at most `exact_limit` entries or the tenant has at most that many passages.

    The filter leaves only what the caller may read, and what all callers may read is counted already. Otherwise read
    the index until it yields enough distinct entries. If the scan ends early, an exact one follows, so
    that the leg never returns fewer hits than exist. The last value is the number of entries that the filter leaves, if
    they were counted.
    """
    tenant, entry_filter, wanted = plan.tenant, plan.entry_filter, plan.wanted
    max_distance = margin(plan.threshold)
    if plan.leaves_few and tenant.passages > 0:
        ids = await words.filtered_ids(session, entry_filter, plan.exact_limit + 1)
        if len(ids) <= plan.exact_limit:
            found = await db.exact_ids(session, tenant.space, vector, max_distance, ids, wanted)
            return found, "exact" if entry_filter.is_open else "exact_filtered", len(ids)
    strategy: Strategy = "exact"
    if tenant.indexed and tenant.passages > plan.exact_limit:
        found = await db.indexed(session, tenant.space, vector, max_distance, entry_filter, wanted)
        if found.enough:
            return found, "indexed", None
        strategy = "indexed_then_exact"
    found = await db.exact_all(session, tenant.space, vector, max_distance, entry_filter, wanted)
    return found, strategy, None


async def _add_former(
    session: TenantSession, plan: Plan, vector: Vector, found: VectorMatches
) -> VectorMatches:
    """Add the former versions of the time that the search names; an entry is in one of both at most."""
    former = await db.former_nearest(
        session, plan.tenant.space, vector, margin(plan.threshold), plan.entry_filter, plan.wanted
    )
    hits = sorted(
        (*found.hits, *former.hits),
        key=lambda hit: (-hit.value, -hit.updated_at.timestamp(), hit.entry_id.bytes),
    )
    return replace(
        former,
        hits=hits[: plan.wanted],
        matches=found.matches + former.matches,
        pending=found.pending + former.pending,
    )
