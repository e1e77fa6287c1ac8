"""The semantic leg: exact where the set is small, the HNSW index where it is large."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from app.db.queries.search import search as db
from app.db.queries.search.search import LegHit
from app.db.session import TenantSession
from app.embeddings.provider import Vector
from app.knowledge.search.plan import Plan
from app.telemetry.tracing import span

log = logging.getLogger("app.knowledge.search")

EF_SEARCH, EF_SEARCH_MOST = 150, 500
"""Candidates that the index keeps while it searches, in a small tenant and in one of 100,000 passages or more. Of the
ten nearest among 100,000, 150 find 0.93, 200 0.96, 400 just below 0.99, 600 1.00; among 10,000, 150 find 0.99."""

Strategy = Literal["exact", "exact_filtered", "indexed", "indexed_then_exact"]


@dataclass(frozen=True, slots=True)
class SemanticHits:
    """What the leg found, best first, and how."""

    hits: Sequence[LegHit]
    strategy: Strategy
    seconds: float

    @property
    def exact(self) -> bool:
        """Whether every passage was compared: nothing nearer exists."""
        return self.strategy != "indexed"


def session_setup(ef_search: int | None, passages: int = 0) -> str:
    """Planner and index settings of the leg, as SQL for the start of its transaction.

    Without `ef_search` it grows with the tenant's passages.
    """
    breadth = ef_search or min(EF_SEARCH_MOST, EF_SEARCH + passages // 280)
    return (
        f"set local hnsw.ef_search={int(breadth)};"
        "set local hnsw.iterative_scan=relaxed_order;set local hnsw.max_scan_tuples=40000;"
        # The statements hold what the planner must see as literals; planning anew for 32 partitions would cost
        # more than the search.
        "set local plan_cache_mode=force_generic_plan;"
        # A cursor has no limit that the planner could see: it would sort every passage instead of using the index.
        "set local enable_sort=off;"
    )


async def search_vectors(session: TenantSession, plan: Plan, vector: Vector) -> SemanticHits:
    """The entries nearest in meaning, with a cosine of the plan's threshold or more."""
    started = time.perf_counter()
    with span("semantic") as seen:
        hits, strategy = await _find_nearest(session, plan, vector)
        seen.set(hits=len(hits), strategy=strategy)
    log.debug("semantic leg: %d entries, %s", len(hits), strategy)
    return SemanticHits(hits, strategy, time.perf_counter() - started)


async def _find_nearest(
    session: TenantSession, plan: Plan, vector: Vector
) -> tuple[Sequence[LegHit], Strategy]:
    """A filter that leaves up to `exact_limit` entries, or a tenant with that few passages, is searched exactly.

    Else the index is read until enough distinct entries are there; a scan that ends early is followed by an
    exact one, so that never fewer hits come back than exist.
    """
    tenant, entry_filter, wanted = plan.tenant, plan.entry_filter, plan.wanted
    # Half precision rounds a cosine by up to 1e-3; the margin keeps a passage that is exactly on the threshold.
    max_distance = 1 - plan.threshold + 1e-4
    if not entry_filter.is_open and tenant.passages > 0:
        ids = await db.filtered_ids(session, entry_filter, plan.exact_limit + 1)
        if len(ids) <= plan.exact_limit:
            hits = await db.exact_ids(session, tenant.space, vector, max_distance, ids, wanted)
            return hits, "exact_filtered"
    strategy: Strategy = "exact"
    if tenant.indexed and tenant.passages > plan.exact_limit:
        hits, enough = await db.indexed(session, tenant.space, vector, max_distance, entry_filter, wanted)
        if enough:
            return hits, "indexed"
        strategy = "indexed_then_exact"
    return await db.exact_all(session, tenant.space, vector, max_distance, entry_filter, wanted), strategy
