"""Rank the hits of both legs: fusion, boosts, groups, reranker and diversity; and decide whether a match is clear."""

from __future__ import annotations

import logging
import math
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import chain, groupby
from statistics import fmean
from uuid import UUID

import numpy as np

from app.contract.search import SearchQuery, Weights
from app.contract.vocabulary import Degradation, Fusion, Leg, WeightsOrigin
from app.db.queries import hits as db
from app.db.queries import vectors
from app.db.queries.search import LegHit, Sought
from app.db.session import TenantSession
from app.embeddings.cosines import REFERENCE_THRESHOLD, cosine_stretch, distance_scale, stretch_cosine
from app.embeddings.provider import EmbeddingModel, Vector
from app.errors import ProviderUnavailable, RerankerUnavailable
from app.knowledge.search.legs.findings import Legs
from app.knowledge.search.legs.keyword import COVERAGE_EXPONENT
from app.knowledge.search.plan import Plan
from app.knowledge.tenants.directory import TenantContext
from app.knowledge.tenants.quotas import TokenMeter
from app.reranking import Reranker, count_tokens
from app.telemetry.tracing import span


@dataclass(slots=True)
class Candidate:
    """An entry that at least one leg found; ranks start at 1.

    `pattern` is the same in near-duplicates; `duplicates` is the number of those that are counted under this candidate,
    and `folded` has their ids, which a receipt does not have.

    In a search grouped by asset, `further` are the other candidates of its asset, best first, and `passages` is the
    number of all of them; `passages` is 0 for these others, and in any other search.

    `similarity` is None if the semantic leg did not find the entry; `cosine` is then the value that score fusion
    computed for it. `pending`: the entry has no vector yet; score fusion then uses `estimated_cosine`.
    """

    entry_id: UUID
    updated_at: datetime
    semantic_rank: int | None = None
    similarity: float | None = None
    cosine: float | None = None
    pending: bool = False
    estimated_cosine: float | None = None
    keyword_rank: int | None = None
    keyword_score: float | None = None
    semantic_term: float = 0.0
    keyword_term: float = 0.0
    rerank_rank: int | None = None
    rerank_score: float | None = None
    boosts: dict[str, float] = field(default_factory=dict)
    score: float = 0.0
    further: Sequence[Candidate] = ()
    passages: int = 0
    pattern: int | None = None
    duplicates: int = 0
    folded: frozenset[UUID] = frozenset()

    @property
    def ids(self) -> frozenset[UUID]:
        """The entry, and those that are counted under it."""
        return self.folded | {self.entry_id}

    @property
    def known_cosine(self) -> float | None:
        """The cosine, from the semantic leg or computed by score fusion."""
        return self.cosine if self.cosine is not None else self.similarity

    @property
    def sources(self) -> list[Leg]:
        """The legs that found the entry."""
        legs: Mapping[Leg, int | None] = {"semantic": self.semantic_rank, "keyword": self.keyword_rank}
        return [leg for leg, rank in legs.items() if rank is not None]


def join_legs(semantic: Sequence[LegHit], keyword: Sequence[LegHit]) -> list[Candidate]:
    """Make one candidate for each entry, with its rank in each leg."""
    found: dict[UUID, Candidate] = {}
    for rank, hit in enumerate(semantic, 1):
        found[hit.entry_id] = Candidate(hit.entry_id, hit.updated_at, rank, hit.value, pattern=hit.pattern)
    for rank, hit in enumerate(keyword, 1):
        candidate = found.get(hit.entry_id)
        if candidate is None:
            candidate = found[hit.entry_id] = Candidate(hit.entry_id, hit.updated_at, pattern=hit.pattern)
        candidate.keyword_rank, candidate.keyword_score = rank, hit.value
    return list(found.values())


def keep_pending(candidates: Sequence[Candidate]) -> list[Candidate]:
    """For mode `semantic`: of the entries found by their words, keep only pending ones, ranked among themselves."""
    pending = sorted((c for c in candidates if c.pending), key=lambda c: c.keyword_rank or 0)
    for rank, candidate in enumerate(pending, 1):
        candidate.keyword_rank = rank
    found = [c for c in candidates if c.semantic_rank is not None]
    for candidate in found:
        candidate.keyword_rank = candidate.keyword_score = None
    return [*found, *pending]


def reciprocal_rank_fusion(candidates: Sequence[Candidate], weights: Weights, k: int = 60) -> None:
    """Score each candidate by w_semantic/(k + rank) + w_keyword/(k + rank); an absent leg adds nothing.

    Reciprocal Rank Fusion and k = 60 are from Cormack, Clarke and Büttcher (SIGIR 2009).
    """
    for c in candidates:
        c.semantic_term = weights.semantic / (k + c.semantic_rank) if c.semantic_rank else 0.0
        c.keyword_term = weights.keyword / (k + c.keyword_rank) if c.keyword_rank else 0.0
        c.score = c.semantic_term + c.keyword_term


def score_fusion(
    candidates: Sequence[Candidate], weights: Weights, scale: float, threshold: float = REFERENCE_THRESHOLD
) -> None:
    """Score each candidate by w_semantic * cosine + w_keyword * (BM25 / scale) ** COVERAGE_EXPONENT.

    `threshold` is the similarity threshold of the model: cosines of models that keep unrelated texts close together are
    stretched, see `stretch_cosine`.

    `scale` is `KeywordHits.scale`: both legs are measured against a perfect match, and an entry has the same score in
    any pool in which no candidate exceeds a full match. Unlike ranks, scores distinguish a clear match from a vague
    one, so a weak leg cannot displace the hits of a strong one. Cosines are also computed for entries that only the
    keyword leg found. A negative cosine counts as 0, an absent leg adds nothing. The cosine of a pending entry is
    estimated from its words. Based on the convex combination of Bruch, Gai and Ingber (ACM TOIS 2023).
    """
    stretch = cosine_stretch(threshold)
    for c in candidates:
        cosine = c.known_cosine if c.estimated_cosine is None else c.estimated_cosine
        c.semantic_term = weights.semantic * max(stretch_cosine(cosine or 0.0, stretch), 0.0)
        words = (c.keyword_score or 0.0) / scale if scale else 0.0
        c.keyword_term = weights.keyword * words**COVERAGE_EXPONENT
        c.score = c.semantic_term + c.keyword_term


def fuse(
    candidates: Sequence[Candidate],
    fusion: Fusion,
    weights: Weights,
    scale: float,
    k: int = 60,
    *,
    threshold: float = REFERENCE_THRESHOLD,
) -> None:
    """Score each candidate by the fusion with this name."""
    if fusion == "score":
        score_fusion(candidates, weights, scale, threshold)
    else:
        reciprocal_rank_fusion(candidates, weights, k)


def apply_boosts(candidates: Sequence[Candidate], factors: Mapping[UUID, Mapping[str, float]]) -> None:
    """Multiply fused scores by the named factors of each entry."""
    for c in candidates:
        for name, factor in factors.get(c.entry_id, {}).items():
            c.boosts[name] = factor
            c.score *= factor


def lift_identified(candidates: Sequence[Candidate]) -> None:
    """If the query is an identifier, boost the entries that contain it above those that only resemble it.

    An embedding of 3.11.4 is often nearer to 3.14.1 than to a text about 3.11.4. The factor is the smallest that works.
    """
    having = [c for c in candidates if c.keyword_rank is not None]
    best_other = max((c.score for c in candidates if c.keyword_rank is None), default=0.0)
    least = min((c.score for c in having), default=0.0)
    if 0 < least <= best_other:
        factor = 1.01 * best_other / least
        for c in having:
            c.boosts["identifier"] = factor
            c.score *= factor


def rank(candidates: Sequence[Candidate], only_leg: Leg | None = None) -> list[Candidate]:
    """Sort best first; ties by newest change, then by id.

    If only one leg ran, ties keep its order, because all scores are 0 when its weight is 0.
    """

    def place(c: Candidate) -> tuple[float, int]:
        if only_leg is None:
            return (-c.score, 0)
        return (-c.score, (c.semantic_rank if only_leg == "semantic" else c.keyword_rank) or 0)

    def in_tie(c: Candidate) -> tuple[float, bytes]:
        return (-c.updated_at.timestamp(), c.entry_id.bytes)

    ranking: list[Candidate] = []
    # Ties are few: reading the time and the id of every candidate would take longer than all the rest.
    for _, tied in groupby(sorted(candidates, key=place), key=place):
        group = list(tied)
        ranking += sorted(group, key=in_tie) if len(group) > 1 else group
    return ranking


NUMBER = re.compile(r"\S*\d\S*")
"""A word of a query that names a number, such as 4711, v1.2 or KNOW-004."""


async def fold_duplicates(
    session: TenantSession, ranking: Sequence[Candidate], query: str, as_of: datetime | None = None
) -> list[Candidate]:
    """One candidate of those that differ only in numbers and dates: the best of those with most numbers of the query.

    It keeps its place, which is near that of the others, since they have the same words.
    """
    alike: dict[int, list[Candidate]] = {}
    for c in ranking:
        if c.pattern is not None:
            alike.setdefault(c.pattern, []).append(c)
    groups = [members for members in alike.values() if len(members) > 1]
    named: Mapping[UUID, int] = {}
    if groups and (numbers := NUMBER.findall(query)):
        named = await db.count_named(session, [c.entry_id for c in chain(*groups)], " ".join(numbers), as_of)
    dropped: set[UUID] = set()
    for members in groups:
        best = max(members, key=lambda c: named.get(c.entry_id, 0))
        best.folded = frozenset(c.entry_id for c in members if c is not best)
        best.duplicates = len(best.folded)
        dropped |= best.folded
    return [c for c in ranking if c.entry_id not in dropped]


RECENT = 0.5
"""What the boost of an entry that has just changed adds to its score. Half of the score moves the new version of a rule
before the old one, whose words and meaning are nearly the same, but no entry that has half of an answer's score."""


def recency(changed: datetime, now: datetime, half_life_days: float) -> float:
    """The factor of an entry by its last change: 1 + RECENT * 0.5^(age / half-life).

    This is the exponential decay of Elasticsearch's `function_score` (decay 0.5 at `scale`, which is the half-life),
    added to 1, so that age alone never makes a score vanish.
    """
    age = max(0.0, (now - changed) / timedelta(days=1))
    return float(1 + RECENT * 0.5 ** (age / half_life_days))


def reference_time(as_of: datetime | None, now: datetime) -> datetime:
    """The time from which ages count: that of the search, else the last full hour, so that the same search has the same
    scores for a while. Later pages have the ranking of the first one."""
    return as_of or now.replace(minute=0, second=0, microsecond=0)


async def apply(
    session: TenantSession, tenant: TenantContext, query: SearchQuery, candidates: Sequence[Candidate]
) -> None:
    """Multiply each candidate's score by the query's boosts.

    They are its type's weight, 1 + ln(1 + accesses), the verified factor and that of its last change.
    """
    rows = await db.boost_facts(session, [c.entry_id for c in candidates], query.as_of)
    settings, changed = tenant.settings, {c.entry_id: c.updated_at for c in candidates}
    now = reference_time(query.as_of, datetime.now(UTC))
    half_life = query.recent_half_life_days or settings.recent_half_life_days
    factors: dict[UUID, dict[str, float]] = {}
    for row in rows:
        available = {
            "type": settings.type_weights.get(row.entry_type, 1.0),
            "access": 1 + math.log1p(row.accesses),
            "verified": settings.verified_boost if row.is_verified else 1.0,
            "recent": recency(changed[row.id], now, half_life),
        }
        factors[row.id] = {name: available[name] for name in dict.fromkeys(query.boost)}
    apply_boosts(candidates, factors)


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


MEANING_SHARE = 0.6
STRONG = 0.5
STRONG_WORDS = 0.9
STRONG_KEYWORD_ONLY = 0.64
STRONG_SEMANTIC_ONLY = 0.4
"""Bounds of 0.6 * cosine + 0.4 * sqrt(BM25 / BM25 of a full match), used with either fusion.

Measured with all-MiniLM-L6-v2 on Cranfield, SciFact and half of SQuAD's paragraphs, 300 questions each: 94 to 100 % of
the correct first hits are strong; 96 to 100 % of the questions from the other two collections have no strong match, and
39 % of the questions whose paragraph is in the omitted half. Keyword only: 91 to 94 % and 89 to 100 %.
"""


def has_strong_match(legs: Legs, page: Sequence[Candidate], model: EmbeddingModel) -> bool:
    """Whether the scores of a hit suggest a clear match for the query."""
    return any(_is_strong(legs, candidate, model) for candidate in page)


def _is_strong(legs: Legs, candidate: Candidate, model: EmbeddingModel) -> bool:
    full_match = legs.keyword.full_match if legs.keyword else 0.0
    words = math.sqrt(min(1.0, (candidate.keyword_score or 0.0) / full_match)) if full_match > 0 else 0.0
    if legs.whole and candidate.keyword_rank is not None:
        return True
    if not legs.compares_vectors or candidate.pending or not legs.embedding.reads_words:
        return words >= STRONG_KEYWORD_ONLY
    cosine, threshold = candidate.known_cosine, model.similarity_threshold
    # Scaled to the measured model.
    meaning = 0.0 if cosine is None or threshold >= 1 else max(0.0, stretch_cosine(cosine, distance_scale(threshold)))
    if legs.is_semantic_only:
        return meaning >= STRONG_SEMANTIC_ONLY
    fused = MEANING_SHARE * meaning + (1 - MEANING_SHARE) * words
    return fused >= STRONG or words >= STRONG_WORDS


FURTHER = 3
"""Most passages of an asset that its hit has in addition to the best one."""


async def count_groups(session: TenantSession, candidates: Sequence[Candidate], as_of: datetime | None = None) -> int:
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
    """The candidates, each followed by its group, at most `most`."""
    if not candidates or not candidates[0].passages:
        return candidates
    return [*chain.from_iterable((c, *c.further[:most]) for c in candidates)]


def shown(candidates: Sequence[Candidate]) -> Sequence[Candidate]:
    """The candidates with the further passages that their hits have."""
    return ungroup(candidates, FURTHER)


@dataclass(frozen=True, slots=True)
class Ranking:
    """All candidates of a search, best first, and the facts that are the same for every page."""

    candidates: Sequence[Candidate]
    strong_match: bool
    fallback: bool
    search_modes_used: Sequence[Leg]
    degraded: Sequence[Degradation]
    exact: bool
    pending: int
    estimated_matches: int
    weights: Weights
    weights_from: WeightsOrigin

    @property
    def reranked(self) -> bool:
        """Whether the reranker scored any candidate."""
        return any(c.rerank_rank is not None for c in self.candidates)


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
        words = legs.words_sought(plan.asked.text)
        sought = Sought(plan.tenant.space, words, legs.embedding.vector, plan.entry_filter)
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
        query = plan.asked.text[:TEXT_CHARACTERS]
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
        value = 1 / (1 + math.exp(-max(score, -700.0))) if are_logits else score
        return keep_identified and candidate.keyword_rank is None, -value * boost, rank

    return sorted(candidates, key=place)


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
