"""Putting back hits that resemble better ones, so that one document's chunks need not fill the page."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import numpy as np

from app.db import search as db
from app.db.session import TenantSession
from app.embeddings.provider import Vector
from app.knowledge.fusion import Candidate
from app.knowledge.tenants import TenantContext


async def diversify(
    session: TenantSession, tenant: TenantContext, ranking: Sequence[Candidate], diversity: float, depth: int
) -> list[Candidate]:
    """Reorder the first `depth` candidates by maximal marginal relevance; their scores stay as they are."""
    head = ranking[:depth]
    vectors = await db.first_vectors(session, tenant.space, [c.entry_id for c in head])
    return [*reorder(head, vectors, diversity), *ranking[depth:]]


def reorder(
    candidates: Sequence[Candidate], vectors: dict[UUID, Vector], diversity: float
) -> list[Candidate]:
    """Take, again and again, the candidate with the best (1 - d) * relevance - d * likeness to those taken.

    Maximal marginal relevance: Carbonell and Goldstein (SIGIR 1998). Relevance is the score as a share of the best
    one; likeness is the largest cosine to a candidate already taken, 0 for one without a vector.
    """
    if not candidates:
        return []
    best = max(c.score for c in candidates) or 1.0
    likeness = np.zeros(len(candidates))
    relevance = np.array([c.score / best for c in candidates])
    left = list(range(len(candidates)))
    chosen: list[Candidate] = []
    while left:
        value = (1 - diversity) * relevance[left] - diversity * likeness[left]
        index = left.pop(int(np.argmax(value)))
        chosen.append(candidates[index])
        taken = vectors.get(candidates[index].entry_id)
        if taken is not None:
            for other in left:
                vector = vectors.get(candidates[other].entry_id)
                if vector is not None:
                    likeness[other] = max(likeness[other], float(taken @ vector))
    return chosen
