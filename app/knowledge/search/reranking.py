"""The optional last stages of a ranking: a reranker, and diversity, so that one document does not fill the page."""

import logging
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import numpy as np

from app.db.queries import hits as db
from app.db.queries import vectors
from app.db.queries.search import Sought
from app.db.session import TenantSession
from app.embeddings.provider import Vector
from app.errors import ProviderUnavailable, RerankerUnavailable
from app.knowledge.search.legs.findings import Legs
from app.knowledge.search.plan import Plan
from app.knowledge.search.ranking import Candidate
from app.knowledge.tenants.directory import TenantContext
from app.knowledge.tenants.quotas import TokenMeter
from app.reranking import Reranker, count_tokens
from app.telemetry.tracing import span

log = logging.getLogger("app.knowledge.search")

TEXT_CHARACTERS = 2_000
"""Characters of an entry, its title included, and of the query: about 500 tokens, the input of most rerankers."""

CANDIDATES = 50
"""Default number of candidates that are reranked."""


@dataclass(frozen=True, slots=True)
class Reranking:
    """How the reranker ran: the number of candidates that it scored, or its failure."""

    name: str
    candidates: int = 0
    seconds: float | None = None
    failure: ProviderUnavailable | None = None


class RerankStage:
    """Reorders the first candidates of a ranking."""

    def __init__(self, meter: TokenMeter, reranker: Reranker | None = None, candidates: int = CANDIDATES) -> None:
        """`meter` counts the tokens sent; without a `reranker`, searches that ask for one get the fused order."""
        self._meter = meter
        self._reranker = reranker
        self._most = candidates

    async def read_texts(
        self, session: TenantSession, plan: Plan, legs: Legs, candidates: Sequence[Candidate]
    ) -> Mapping[UUID, str] | Reranking:
        """The texts to compare, by entry. If the stage cannot run, the failure instead."""
        if self._reranker is None:
            failure = RerankerUnavailable("reranker", "none is configured", attempts=0)
            return Reranking("none", failure=failure)
        try:
            self._meter.require(plan.tenant)
        except ProviderUnavailable as used_up:
            return Reranking(self._reranker.name, failure=used_up)
        ids = [c.entry_id for c in candidates[: self._most]]
        words = legs.words_sought(plan.query.query)
        sought = Sought(plan.tenant.space, words, legs.vector, plan.entry_filter)
        found = await db.fetch_passages(session, sought, ids, TEXT_CHARACTERS)
        return {
            passage.id: (f"{passage.title}\n\n{passage.text}" if passage.title else passage.text)[:TEXT_CHARACTERS]
            for passage in found
        }

    async def rerank(
        self, plan: Plan, legs: Legs, candidates: Sequence[Candidate], texts: Mapping[UUID, str]
    ) -> tuple[Sequence[Candidate], Reranking]:
        """The candidates in their new order. No transaction may be open: this waits for a server."""
        assert self._reranker is not None
        name, started = self._reranker.name, time.perf_counter()
        query = plan.query.query[:TEXT_CHARACTERS]
        head = [c for c in candidates if c.entry_id in texts]
        sent = [texts[c.entry_id] for c in head]
        try:
            with span("rerank", model=name, candidates=len(head)):
                scores = await self._reranker.rerank(query, sent)
        except ProviderUnavailable as failure:
            log.warning(
                "reranker unavailable, keeping the fused order",
                extra={"attempts": failure.attempts, "reason": failure.reason, "tenant_id": str(plan.tenant.tenant_id)},
            )
            return candidates, Reranking(name, seconds=time.perf_counter() - started, failure=failure)
        self._meter.count(plan.tenant.tenant_id, count_tokens(query, sent))
        order = reorder(head, scores, keep_identified=legs.whole and not legs.is_semantic_only)
        rest = [c for c in candidates if c.entry_id not in texts]
        return [*order, *rest], Reranking(name, len(head), time.perf_counter() - started)


def reorder(
    candidates: Sequence[Candidate], scores: Sequence[float], *, keep_identified: bool = False
) -> list[Candidate]:
    """Sort candidates by the reranker's score times their boosts; among equal ones the fused order stays.

    If any score is outside 0 to 1, all are logits: the boosts then multiply 1 / (1 + exp(-score)). With
    `keep_identified`, entries that contain the identifier that the query is stay above those that only resemble it.
    """
    for rank, at in enumerate(sorted(range(len(scores)), key=lambda at: -scores[at]), 1):
        candidates[at].rerank_rank, candidates[at].rerank_score = rank, scores[at]
    are_logits = any(not 0 <= score <= 1 for score in scores)

    def place(candidate: Candidate) -> tuple[bool, float, int]:
        score, rank = candidate.rerank_score or 0.0, candidate.rerank_rank or 0
        boost = math.prod(factor for name, factor in candidate.boosts.items() if name != "identifier")
        value = _squash(score) if are_logits else score
        return keep_identified and candidate.keyword_rank is None, -value * boost, rank

    return sorted(candidates, key=place)


def _squash(logit: float) -> float:
    return 1 / (1 + math.exp(-max(logit, -700.0)))


async def diversify(
    session: TenantSession,
    tenant: TenantContext,
    ranking: Sequence[Candidate],
    diversity: float,
    depth: int,
    as_of: datetime | None = None,
) -> list[Candidate]:
    """Reorder the first `depth` candidates by maximal marginal relevance; scores do not change."""
    head = ranking[:depth]
    found = await vectors.first_vectors(session, tenant.space, [c.entry_id for c in head], as_of)
    return [*spread(head, found, diversity), *ranking[depth:]]


def spread(candidates: Sequence[Candidate], found: dict[UUID, Vector], diversity: float) -> list[Candidate]:
    """Repeatedly take the candidate with the highest (1 - d) * relevance - d * likeness to those already taken.

    This is maximal marginal relevance by Carbonell and Goldstein (SIGIR 1998). Relevance is the score divided by the
    best score; likeness is the largest cosine to a candidate already taken, 0 for a candidate without a vector. In an
    order by a reranker, whose scores have any scale, the score of a place is the fused score that has this rank.
    """
    if not candidates:
        return []
    scores = [c.score for c in candidates]
    if any(c.rerank_rank is not None for c in candidates):
        scores.sort(reverse=True)
    relevance = np.array(scores) / (max(scores) or 1.0)
    width = max((len(v) for v in found.values()), default=1)
    # An entry without a vector gets a row of zeros, so that its likeness to all others is 0.
    matrix = np.stack([found.get(c.entry_id, np.zeros(width, np.float32)) for c in candidates])
    likeness = np.zeros(len(candidates))
    left = np.ones(len(candidates), dtype=bool)
    order: list[int] = []
    for _ in candidates:
        value = np.where(left, (1 - diversity) * relevance - diversity * likeness, -np.inf)
        index = int(np.argmax(value))
        left[index] = False
        order.append(index)
        np.maximum(likeness, matrix @ matrix[index], out=likeness)
    return [candidates[index] for index in order]
