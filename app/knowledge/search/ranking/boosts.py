"""Boosts: factors for fused scores that a search can request."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from app.db.queries.search import hits as db
from app.db.session import TenantSession
from app.knowledge.search.ranking.fusion import Candidate, apply_boosts
from app.knowledge.tenants.context import TenantContext
from app.knowledge.vocabulary import Boost


async def apply(
    session: TenantSession,
    tenant: TenantContext,
    names: Sequence[Boost],
    candidates: Sequence[Candidate],
    as_of: datetime | None = None,
) -> None:
    """Multiply each candidate's score by its type's weight, 1 + ln(1 + accesses), and the verified factor."""
    rows = await db.boost_facts(session, [c.entry_id for c in candidates], as_of)
    settings = tenant.settings
    factors: dict[UUID, dict[str, float]] = {}
    for row in rows:
        available = {
            "type": settings.type_weights.get(row.entry_type, 1.0),
            "access": 1 + math.log1p(row.accesses),
            "verified": settings.verified_boost if row.is_verified else 1.0,
        }
        factors[row.id] = {name: available[name] for name in dict.fromkeys(names)}
    apply_boosts(candidates, factors)
