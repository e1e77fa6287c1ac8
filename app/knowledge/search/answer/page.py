"""Build a page of the answer: hits from ranked candidates, and the metadata of the search."""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any
from uuid import UUID

from app.concurrency.stopwatch import Stopwatch
from app.contract.results import (
    FoundEntry,
    Hit,
    HitOrigin,
    Passage,
    PassageGroup,
    Relaxation,
    SearchMetadata,
    SearchResult,
    Validity,
)
from app.contract.vocabulary import Degradation
from app.db.queries import hits as db
from app.db.queries.hits import HydratedEntry
from app.db.queries.search import Sought
from app.db.session import TenantSession
from app.knowledge.paging import PAGE_BYTES
from app.knowledge.search.answer.snippet import Snippet, SnippetMaker
from app.knowledge.search.legs.findings import Legs
from app.knowledge.search.plan import Plan
from app.knowledge.search.ranking import FURTHER, Candidate, Ranking, has_strong_match, shown, ungroup
from app.knowledge.search.receipts import PageStart
from app.knowledge.search.reranking import Reranking

CHARACTERS_AT_A_TIME = 10_000
"""Characters of entries to turn into hits before other tasks get a turn: one to two milliseconds."""

LONG = 40_000
"""Characters of entries after which other tasks get as much time as these have taken, not just a turn: a search of
another tenant takes many turns, and would wait in each for one entry of this length.
"""

HIT_CHARACTERS = 1_000
"""Added for each hit with the length of the query, however short its entry."""

MARKDOWN_TYPES = frozenset((None, "text/markdown", "text/plain"))
"""Media types whose text may be Markdown; None means an entry without an asset. Readers convert all others to text."""


@dataclass(frozen=True, slots=True)
class Page:
    """The entries of a page of candidates, in its order, as they are in the database.

    `taken` is the number of candidates on the page: those up to the entry with which it has PAGE_BYTES. `words` are the
    words for snippets. `further` are the entries grouped with the candidates that hits have. `validity` is known only
    in a search that names a time.
    """

    candidates: Sequence[Candidate]
    entries: Sequence[HydratedEntry]
    taken: int
    words: str
    further: Mapping[UUID, HydratedEntry] = field(default_factory=dict)
    validity: Mapping[UUID, Validity] = field(default_factory=dict)

    @property
    def ids(self) -> frozenset[UUID]:
        """The candidates that are hits."""
        return frozenset(entry.id for entry in self.entries)


async def fetch_page(session: TenantSession, sought: Sought, candidates: Sequence[Candidate]) -> Page:
    """Read the entries; those that were deleted or hidden since the ranking are omitted.

    The query of `sought` has the words that were searched for in place of its words, too.
    """
    words, as_of = sought.query, sought.entry_filter.as_of
    if not candidates:
        return Page((), (), 0, words)
    ids = [c.entry_id for c in candidates]
    entries = await db.hydrate(session, sought, ids, PAGE_BYTES)
    validity: Mapping[UUID, Validity] = {}
    if as_of is not None:
        validity = await db.fetch_validity(session, [entry.id for entry in entries], as_of)
    is_cut = bool(entries) and len(entries) < entries[0].passing
    taken = ids.index(entries[-1].id) + 1 if is_cut else len(ids)
    ids = [c.entry_id for head in candidates[:taken] for c in head.further[:FURTHER]]
    if not ids:
        return Page(candidates, entries, taken, words, validity=validity)
    further = await db.hydrate(session, sought, ids, PAGE_BYTES)
    return Page(candidates, entries, taken, words, {entry.id: entry for entry in further}, validity)


async def make_hits(page: Page) -> list[Hit]:
    """Make the hits of a page. This takes as long as a statement, and needs no connection."""
    by_id = {c.entry_id: c for c in page.candidates}
    snippets = SnippetMaker(page.words)
    hits: list[Hit] = []
    made, began = 0, time.perf_counter()
    for_each = HIT_CHARACTERS + len(page.words)
    for entry in page.entries:
        if made >= CHARACTERS_AT_A_TIME:
            await asyncio.sleep(time.perf_counter() - began if made >= LONG else 0)
            made, began = 0, time.perf_counter()
        made += for_each + len(entry.content)
        candidate = by_id[entry.id]
        group = None
        if candidate.passages:
            further = [(c, page.further[c.entry_id]) for c in candidate.further if c.entry_id in page.further]
            made += sum(for_each + len(other.content) for _, other in further)
            group = PassageGroup(candidate.passages, [_make_passage(*other, snippets) for other in further])
        hits.append(_make_hit(entry, candidate, snippets, group, page.validity.get(entry.id)))
    return hits


def _make_passage(candidate: Candidate, entry: HydratedEntry, snippets: SnippetMaker) -> Passage:
    stored = FoundEntry(*entry.stored)
    snippet = _make_snippet(entry, candidate, snippets)
    page = stored.metadata.get("page")
    return Passage(entry.id, candidate.score, stored.chunk_index, page, stored.title, snippet.text)


def _make_snippet(entry: HydratedEntry, candidate: Candidate, snippets: SnippetMaker) -> Snippet:
    passage = None
    if entry.char_start is not None and entry.char_end is not None and candidate.similarity is not None:
        passage = (entry.char_start, entry.char_end)
    return snippets.make(
        entry.title,
        entry.content,
        entry.language,
        entry.query_lexemes or (),
        passage,
        is_markdown=entry.media_type in MARKDOWN_TYPES,
    )


def _make_hit(
    entry: HydratedEntry,
    candidate: Candidate,
    snippets: SnippetMaker,
    group: PassageGroup | None,
    validity: Validity | None,
) -> Hit:
    snippet = _make_snippet(entry, candidate, snippets)
    return Hit(
        *entry.stored,
        score=candidate.score,
        similarity=candidate.similarity,
        keyword_score=candidate.keyword_score,
        sources=candidate.sources,
        snippet=snippet.text,
        snippet_start=snippet.start,
        snippet_end=snippet.end,
        matched_terms=snippet.matched_terms,
        group=group,
        validity=validity,
        origin=_find_origin(entry, validity),
    )


def _find_origin(entry: HydratedEntry, validity: Validity | None) -> HitOrigin | None:
    """The source of an entry; a former version differs from the origin at the time of its last agreement."""
    if entry.source is None or (validity is not None and validity.valid_until is not None):
        return None
    return HitOrigin(entry.source, entry.agreed_at)


log = logging.getLogger("app.knowledge.search")

CUT: Degradation = "ranking_truncated"
"""Only the page that ends a ranking reports it: a caller that pages on cannot reach the entries that are missing."""


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds that the parts of a search took; None for a part that did not run."""

    embedding: float | None = None
    semantic: float | None = None
    keyword: float | None = None
    fusion: float | None = None
    reranking: float | None = None

    @property
    def known(self) -> list[tuple[str, float]]:
        """The parts that ran, each with its seconds."""
        times = {field.name: getattr(self, field.name) for field in fields(self)}
        return [(part, seconds) for part, seconds in times.items() if seconds is not None]


def describe_ranking(plan: Plan, legs: Legs, candidates: Sequence[Candidate], reranking: Reranking | None) -> Ranking:
    """Make the ranking of a search that has just run."""
    failure = legs.failure
    degraded: list[Degradation] = [failure.degradation] if failure else []
    if legs.pending and not failure:  # in a fallback, no entry is compared by its vector
        degraded.append("embeddings_pending")
    if reranking is not None and reranking.failure is not None:
        degraded += [reason for reason in (reranking.failure.degradation,) if reason not in degraded]
    if legs.is_truncated(plan.wanted):
        degraded.append(CUT)
    return Ranking(
        candidates=candidates,
        strong_match=has_strong_match(legs, shown(candidates[: plan.limit]), plan.tenant.model),
        fallback=failure is not None,
        search_modes_used=legs.searched,
        degraded=degraded,
        exact=legs.exact,
        pending=legs.pending,
        estimated_matches=_estimate_matches(legs, ungroup(candidates)),
    )


def _estimate_matches(legs: Legs, candidates: Sequence[Candidate]) -> int:
    """The larger of the legs' counts: most entries that match by their words also match by their meaning."""
    semantic = legs.semantic.matches if legs.semantic else 0
    words = legs.keyword.total if legs.keyword else 0
    if legs.keyword is not None and legs.keyword.only_pending:
        semantic, words = semantic + sum(c.pending for c in candidates), 0
    return max(semantic, words, len(candidates))


COPIED = ("strong_match", "search_modes_used", "exact", "pending", "estimated_matches")
"""Facts about a ranking that the metadata has as they are."""


def make_metadata(
    start: PageStart,
    limit: int,
    ranking: Ranking,
    stopwatch: Stopwatch,
    times: Times,
    suggestions: Sequence[str] = (),
    relaxations: Sequence[Relaxation] = (),
) -> SearchMetadata:
    """Create the metadata of the page that starts at `start`; `stopwatch` measures the request."""
    total = len(ranking.candidates)
    following = PageStart(start.search_id, start.offset + limit)
    is_last = following.offset >= total
    spent: dict[str, Any] = {f"{f.name}_ms": milliseconds(getattr(times, f.name)) for f in fields(Times)}
    return SearchMetadata(
        search_id=start.search_id,
        total=total,
        fallback_mode=ranking.fallback,
        **{name: getattr(ranking, name) for name in COPIED},
        degraded=[reason for reason in ranking.degraded if is_last or reason != CUT],
        suggestions=suggestions,
        relaxations=relaxations,
        reranked=ranking.reranked,
        next_cursor=None if is_last else following.cursor,
        query_time_ms=milliseconds(stopwatch.seconds),
        waiting_ms=milliseconds(stopwatch.waited),
        **spent,
    )


def milliseconds(seconds: float | None) -> int:
    """Whole milliseconds; 0 for a part that did not run."""
    return round(1000 * (seconds or 0.0))


def log_search(plan: Plan, result: SearchResult) -> None:
    """Log a search; metadata only."""
    metadata = result.metadata
    similarities = [hit.similarity for hit in result.results if hit.similarity is not None]
    log.info(
        "search",
        extra={
            "search_id": str(metadata.search_id),
            "tenant_id": str(plan.tenant.tenant_id),
            "query_length": len(plan.query.query),
            "result_count": len(result.results),
            "top_similarity": round(max(similarities), 4) if similarities else None,
            **{f.name: getattr(metadata, f.name) for f in fields(metadata) if f.name.endswith("_ms")},
        },
    )
