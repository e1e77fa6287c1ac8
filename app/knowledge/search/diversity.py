"""Move hits down that resemble better ones, so that chunks of one document do not fill the page."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import numpy as np

from app.db.queries import vectors as db
from app.db.session import TenantSession
from app.embeddings.provider import Vector
from app.knowledge.search.ranking import Candidate
from app.knowledge.tenants.directory import TenantContext


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
    vectors = await db.first_vectors(session, tenant.space, [c.entry_id for c in head], as_of)
    return [*reorder(head, vectors, diversity), *ranking[depth:]]


def reorder(candidates: Sequence[Candidate], vectors: dict[UUID, Vector], diversity: float) -> list[Candidate]:
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
    width = max((len(v) for v in vectors.values()), default=1)
    # An entry without a vector gets a row of zeros, so that its likeness to all others is 0.
    matrix = np.stack([vectors.get(c.entry_id, np.zeros(width, np.float32)) for c in candidates])
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
