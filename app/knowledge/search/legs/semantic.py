"""The semantic leg: an exact scan for a small set, the tenant's own HNSW index for a large one."""

import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal
from uuid import UUID

from app.contract.validation import same_fields
from app.db.principals import current_principals
from app.db.queries import search as words
from app.db.queries import vectors as db
from app.db.queries.search import LegHit, count_readable
from app.db.queries.vectors import Nearest, VectorMatches
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SemanticHits(VectorMatches):
    """The hits of the leg, and how they were found.

    Attributes:
        compared: False if all entries that pass the filter are pending, so that no vector was compared.
        passages: number of passages that the caller may read.
    """

    strategy: Strategy
    compared: bool
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

    Without `ef_search`, the search effort grows with the tenant's passages. It is the same for a caller who may read a
    part of them: the index is read on until there are enough that the caller may read.
    """
    effort = int(ef_search or min(EF_SEARCH_MOST, EF_SEARCH + passages // 370))
    return (
        f"set local hnsw.ef_search={effort};"
        "set local hnsw.iterative_scan=relaxed_order;set local hnsw.max_scan_tuples=40000;"
        # The statements contain as literals what the planner must see; planning each time for 32 partitions would
        # cost more than the search.
        "set local plan_cache_mode=force_generic_plan;"
        # The planner sees no limit on a cursor: it would sort all passages instead of using the index. And in a generic
        # plan it takes each tenant for one of average size: it would read the partition, with the rows of larger ones.
        "set local enable_sort=off;set local enable_seqscan=off;"
    )


def margin(threshold: float) -> float:
    """The largest cosine distance of a match."""
    # Half precision rounds a cosine by up to 1e-3; the margin keeps a passage that is exactly on the threshold.
    return 1 - threshold + 1e-4


def _nearest(plan: Plan, vector: Vector) -> Nearest:
    return Nearest(plan.tenant.space, vector, margin(plan.threshold), plan.entry_filter, plan.wanted)


async def search_vectors(session: TenantSession, plan: Plan, vectors: Sequence[Vector]) -> SemanticHits:
    """Find the entries with the highest cosine to one of the vectors that reach the plan's threshold."""
    found = [await _search_vector(session, plan, vector) for vector in vectors]
    return found[0] if len(found) == 1 else _join(found, plan.wanted)


def _join(found: Sequence[SemanticHits], wanted: int) -> SemanticHits:
    """The hits for several vectors as one list."""
    best: dict[UUID, LegHit] = {}
    for hit in (hit for each in found for hit in each.hits):
        if hit.entry_id not in best or hit.value > best[hit.entry_id].value:
            best[hit.entry_id] = hit
    return replace(
        found[0],
        hits=_sort(best.values())[:wanted],
        matches=max(len(best), *(each.matches for each in found)),
        complete=all(each.complete for each in found),
        strategy="indexed" if any(each.strategy == "indexed" for each in found) else found[0].strategy,
        seconds=sum(each.seconds for each in found),
    )


def _sort(hits: Iterable[LegHit]) -> list[LegHit]:
    return sorted(hits, key=lambda hit: (-hit.value, -hit.updated_at.timestamp(), hit.entry_id.bytes))


async def find_cosines(
    session: TenantSession, plan: Plan, vectors: Sequence[Vector], ids: Sequence[UUID]
) -> dict[UUID, float]:
    """The similarity of each of the given entries that has a vector, to the nearest of `vectors`."""
    best: dict[UUID, float] = {}
    for vector in vectors:
        for entry_id, cosine in (await db.cosines(session, plan.tenant.space, vector, ids, plan.query.as_of)).items():
            best[entry_id] = max(cosine, best.get(entry_id, cosine))
    return best


async def _search_vector(session: TenantSession, plan: Plan, vector: Vector) -> SemanticHits:
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
        **same_fields(found, SemanticHits), strategy=strategy, compared=compared, seconds=seconds, passages=passages
    )


async def _find_nearest(
    session: TenantSession, plan: Plan, vector: Vector
) -> tuple[VectorMatches, Strategy, int | None]:
    """Search exactly if the filter leaves at most `exact_limit` entries or the tenant has at most that many passages.

    The filter leaves only what the caller may read. Otherwise read the index until it yields enough distinct entries.
    If the scan ends early, an exact one follows, so that the leg never returns fewer hits than exist. The last value is
    the number of entries that the filter leaves, if they were counted.
    """
    tenant, entry_filter = plan.tenant, plan.entry_filter
    wanted = _nearest(plan, vector)
    is_selective = plan.is_selective and tenant.passages > 0
    if is_selective and not (entry_filter.is_open and await _may_read_many(session, plan)):
        ids = await words.filtered_ids(session, entry_filter, plan.exact_limit + 1)
        if len(ids) <= plan.exact_limit:
            found = await db.find_exactly(session, wanted, ids)
            return found, "exact" if entry_filter.is_open else "exact_filtered", len(ids)
        if entry_filter.is_open:
            tenant.wide_callers.add(current_principals())
    strategy: Strategy = "exact"
    if tenant.indexed and tenant.passages > plan.exact_limit:
        found = await db.indexed(session, wanted)
        if found.enough:
            return found, "indexed", None
        strategy = "indexed_then_exact"
    found = await db.find_exactly(session, wanted)
    return found, strategy, None


async def _may_read_many(session: TenantSession, plan: Plan) -> bool:
    """Whether the caller is known to read more entries than are compared exactly.

    The statistics tell, or an earlier count where the caller's groups overlap.
    """
    return current_principals() in plan.tenant.wide_callers or await count_readable(session) > plan.exact_limit


async def _add_former(session: TenantSession, plan: Plan, vector: Vector, found: VectorMatches) -> VectorMatches:
    """Add the former versions of the time that the search names; an entry is in one of both at most."""
    former = await db.former_nearest(session, _nearest(plan, vector))
    hits = _sort((*found.hits, *former.hits))
    return replace(
        former, hits=hits[: plan.wanted], matches=found.matches + former.matches, pending=found.pending + former.pending
    )
