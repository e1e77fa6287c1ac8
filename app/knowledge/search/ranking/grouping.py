"""Groups of candidates: the passages of one asset together, at the place of the best of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import chain
from uuid import UUID

from app.db.queries.search import hits as db
from app.db.session import TenantSession
from app.knowledge.search.ranking.fusion import Candidate

FURTHER = 3
"""Most passages of an asset that its hit has in addition to the best one."""


async def count_groups(
    session: TenantSession, candidates: Sequence[Candidate], as_of: datetime | None = None
) -> int:
    """The number of groups that these candidates would have."""
    assets = await db.assets_of(session, [c.entry_id for c in candidates], as_of)
    return len({assets.get(c.entry_id, c.entry_id) for c in candidates})


async def group_by_asset(
    session: TenantSession, ranking: Sequence[Candidate], as_of: datetime | None = None
) -> list[Candidate]:
    """The best candidate of each asset, with the others; an entry without an asset is a group of its own."""
    assets = await db.assets_of(session, [c.entry_id for c in ranking], as_of)
    groups: dict[UUID, list[Candidate]] = {}
    for candidate in ranking:
        groups.setdefault(assets.get(candidate.entry_id, candidate.entry_id), []).append(candidate)
    for best, *others in groups.values():
        best.further, best.passages = others, 1 + len(others)
    return [members[0] for members in groups.values()]


def ungroup(candidates: Sequence[Candidate], most: int | None = None) -> Sequence[Candidate]:
    """The candidates, each followed by those that are grouped with it, at most `most`."""
    if not candidates or not candidates[0].passages:
        return candidates
    return [*chain.from_iterable((c, *c.further[:most]) for c in candidates)]


def shown(candidates: Sequence[Candidate]) -> Sequence[Candidate]:
    """The candidates with the further passages that their hits have."""
    return ungroup(candidates, FURTHER)
