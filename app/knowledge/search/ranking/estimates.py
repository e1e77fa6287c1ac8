"""Estimated cosines for entries that have no vector yet, so that score fusion does not rank them lower for that."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from app.knowledge.search.ranking.fusion import Candidate

SLOPE = 0.25
"""Increase of the cosine from an entry without the query's words to one with all of them, before any are compared."""

PRIOR = 0.5
"""Weight of SLOPE, as a sum of squared deviations: among the 30 to 100 entries with words, theirs is usually larger."""


def estimate_cosines(candidates: Sequence[Candidate], scale: float) -> None:
    """Give each pending candidate the cosine that its keyword score suggests.

    The line is fitted to the candidates that have both words of the query and a vector: their cosines by their keyword
    scores over `scale`, by ridge regression towards SLOPE. Without such candidates, it goes through the mean of the
    other cosines. Without any cosine there is no estimate, and keyword scores alone rank the entries.
    """
    known = [(c.keyword_score, cosine) for c in candidates if (cosine := c.known_cosine) is not None]
    pairs = [(words / scale, cosine) for words, cosine in known if words is not None] if scale else []
    points = pairs or [(0.0, cosine) for _, cosine in known]
    if not points:
        return
    mean_words, mean_cosine = fmean(x for x, _ in points), fmean(y for _, y in points)
    spread = sum((x - mean_words) ** 2 for x, _ in points)
    shared = sum((x - mean_words) * (y - mean_cosine) for x, y in points)
    slope = max(0.0, (shared + PRIOR * SLOPE) / (spread + PRIOR))
    for c in candidates:
        if c.pending and c.keyword_score is not None and scale:
            c.estimated_cosine = min(1.0, mean_cosine + slope * (c.keyword_score / scale - mean_words))
