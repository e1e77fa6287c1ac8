"""Why an entry is not among the results of a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from app.db.queries.search.hits import Verdict
from app.knowledge.search.legs.findings import Legs
from app.knowledge.search.plan import Plan
from app.knowledge.search.ranking.fusion import Candidate


@dataclass(frozen=True, slots=True)
class Reason:
    """One thing that kept the entry out: at which `stage`, and in which way."""

    stage: str
    detail: str


@dataclass(frozen=True, slots=True)
class WhyNot:
    """Whether the entry is on the page, its rank among the candidates (None: it is none), and what lost it."""

    entry_id: UUID
    in_results: bool
    rank: int | None
    reasons: Sequence[Reason]


def judge(
    entry_id: UUID, plan: Plan, legs: Legs, ranking: Sequence[Candidate], verdict: Verdict | None
) -> WhyNot:
    """Put together what the search and the entry itself say."""
    rank = next((place for place, c in enumerate(ranking, 1) if c.entry_id == entry_id), None)
    if rank is not None and rank <= plan.limit:
        return WhyNot(entry_id, True, rank, [])
    if rank is not None:
        detail = f"ranked {rank} of {len(ranking)} candidates; the page ends at {plan.limit}"
        return WhyNot(entry_id, False, rank, [Reason("cut", detail)])
    if verdict is None:
        return WhyNot(entry_id, False, None, [Reason("entry", "there is no entry with this id")])
    reasons: list[Reason] = []
    if not verdict.unexpired:
        reasons.append(Reason("filter", "expired"))
    if not verdict.current:
        reasons.append(Reason("filter", "superseded by another entry; see include_superseded"))
    reasons += [Reason("filter", f"{name} does not match") for name in verdict.failed]
    if not reasons:
        reasons = [_semantic_reason(plan, legs, verdict), _keyword_reason(plan, legs, verdict)]
    return WhyNot(entry_id, False, None, reasons)


def _semantic_reason(plan: Plan, legs: Legs, verdict: Verdict) -> Reason:
    if legs.failure is not None:
        return Reason("semantic", "the embedding provider was unavailable: words alone were searched")
    if legs.semantic is None:
        return Reason("semantic", f"not searched in mode {plan.query.mode}")
    cosine = verdict.cosine
    if cosine is None:
        return Reason("semantic", "the entry has no vector of the tenant's model yet")
    if cosine < plan.threshold:
        return Reason("semantic", f"similarity {cosine:.4f} is below the threshold {plan.threshold:.4f}")
    hits = legs.semantic.hits
    if not hits or cosine > hits[-1].value:
        # Only an approximate scan does this: an exact one cuts by distance alone.
        return Reason("semantic", f"similarity {cosine:.4f}; the index, which is approximate, passed it over")
    return Reason(
        "semantic", f"similarity {cosine:.4f}; {len(hits)} entries down to {hits[-1].value:.4f} were nearer"
    )


def _keyword_reason(plan: Plan, legs: Legs, verdict: Verdict) -> Reason:
    if legs.keyword is None:
        return Reason("keyword", f"not searched in mode {plan.query.mode}")
    if not verdict.shares_words:
        return Reason("keyword", "shares no word with the query")
    taken = len(legs.keyword.hits)
    if legs.whole and taken < plan.wanted:
        return Reason("keyword", f"has only parts of the identifier; {taken} entries have it whole")
    return Reason(
        "keyword", f"shares words with the query; {taken} entries with more or rarer ones came first"
    )
