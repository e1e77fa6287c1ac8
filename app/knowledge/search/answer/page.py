"""Build the answer: hits, facets, metadata, explanations and suggestions; and tell why an entry is not found."""

import asyncio
import logging
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any
from uuid import UUID

from app.concurrency.stopwatch import Stopwatch
from app.contract.receipts import Receipt
from app.contract.results import (
    EmbeddingFailure,
    Explanation,
    Facet,
    FacetValue,
    FoundEntry,
    Hit,
    HitExplanation,
    HitOrigin,
    KeywordExplanation,
    LegExplanations,
    Passage,
    PassageGroup,
    PinnedLeg,
    Relaxation,
    RerankerExplanation,
    SearchMetadata,
    SearchResult,
    SemanticExplanation,
    Validity,
)
from app.contract.search import METADATA_FACET, Reason, WhyNot
from app.contract.validation import same_fields
from app.contract.vocabulary import Degradation
from app.db.queries import hits as db
from app.db.queries import search, vectors
from app.db.queries.hits import HydratedEntry, Verdict
from app.db.queries.search import CountedValue, KeywordQuery, MatchQuery, Sought, filtered_ids, match_words
from app.db.session import TenantSession
from app.embeddings.cosines import cosine_stretch
from app.embeddings.provider import Vector
from app.knowledge.paging import PAGE_BYTES
from app.knowledge.parts import list_parts, point_to
from app.knowledge.search.answer.snippet import Snippet, SnippetMaker
from app.knowledge.search.journal import PageStart
from app.knowledge.search.legs.findings import Legs
from app.knowledge.search.legs.keyword import search_words
from app.knowledge.search.legs.semantic import margin, search_vectors
from app.knowledge.search.plan import Plan
from app.knowledge.search.query import QUOTED, Asked
from app.knowledge.search.ranking import (
    FURTHER,
    Candidate,
    Ranking,
    Reranking,
    has_strong_match,
    join_legs,
    shown,
    ungroup,
)
from app.knowledge.words import find_words, is_run, remove_runs, spell

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


METADATA = [field.name for field in fields(FoundEntry)].index("metadata")
"""Its place among the values of an entry."""


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
    snippet, stored = _make_snippet(entry, candidate, snippets)
    found = FoundEntry(*stored)
    page = found.metadata.get("page")
    return Passage(entry.id, candidate.score, found.chunk_index, page, found.title, snippet.text)


def _make_snippet(entry: HydratedEntry, candidate: Candidate, snippets: SnippetMaker) -> tuple[Snippet, Sequence[Any]]:
    """The snippet, and the values of the entry, of which the place is that of the part that matched."""
    passage = None
    if entry.char_start is not None and entry.char_end is not None and candidate.similarity is not None:
        passage = (entry.char_start, entry.char_end)
    metadata = entry.stored[METADATA]
    parts = list_parts(metadata.get("parts"), len(entry.content)) if entry.media_type is not None else ()
    snippet = snippets.make(
        entry.title,
        entry.content,
        entry.language,
        entry.query_lexemes or (),
        passage,
        parts=[(part["start"], part["end"]) for part in parts],
        is_markdown=entry.media_type in MARKDOWN_TYPES,
    )
    if snippet.part is None:
        return snippet, entry.stored
    stored = list(entry.stored)
    stored[METADATA] = point_to(metadata, parts[snippet.part])
    return snippet, stored


def _make_hit(
    entry: HydratedEntry,
    candidate: Candidate,
    snippets: SnippetMaker,
    group: PassageGroup | None,
    validity: Validity | None,
) -> Hit:
    snippet, stored = _make_snippet(entry, candidate, snippets)
    return Hit(
        *stored,
        score=candidate.score,
        similarity=candidate.similarity,
        keyword_score=candidate.keyword_score,
        sources=candidate.sources,
        snippet=snippet.text,
        snippet_start=snippet.start,
        snippet_end=snippet.end,
        matched_terms=snippet.matched_terms,
        duplicates=candidate.duplicates,
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
"""The first page reports it, and the page that ends the ranking: a caller that pages on cannot reach the entries that
are missing."""


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
    failure = legs.embedding.failure
    degraded: list[Degradation] = [failure.degradation] if failure else []
    if legs.embedding.unknown:
        degraded.append("query_unknown")
    if legs.pending and legs.embedding.vectors:  # else no entry is compared by its vector
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
        weights=plan.weights,
        weights_from=plan.weights_from,
    )


def _estimate_matches(legs: Legs, candidates: Sequence[Candidate]) -> int:
    """The larger of the legs' counts: most entries that match by their words also match by their meaning."""
    semantic = legs.semantic.matches if legs.semantic else 0
    words = legs.keyword.total if legs.keyword else 0
    if legs.keyword is not None and legs.keyword.only_pending:
        semantic, words = semantic + sum(c.pending for c in candidates), 0
    return max(semantic, words, len(candidates))


COPIED = (*("strong_match", "search_modes_used", "exact", "pending", "estimated_matches"), *("weights", "weights_from"))
"""Facts about a ranking that the metadata has as they are."""


def make_metadata(
    start: PageStart,
    limit: int,
    asked: Asked,
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
        phrases=asked.phrases,
        excluded=asked.excluded,
        fallback_mode=ranking.fallback,
        **{name: getattr(ranking, name) for name in COPIED},
        degraded=[reason for reason in ranking.degraded if is_last or start.offset == 0 or reason != CUT],
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


def explain(
    plan: Plan, legs: Legs, page: Sequence[Candidate], shown: Collection[UUID], reranking: Reranking | None = None
) -> Explanation:
    """Explain the first page of a search, on which the entries `shown` are hits."""
    query, model, failure = plan.query, plan.tenant.model, legs.embedding.failure
    semantic = keyword = scale = None
    if legs.semantic is not None and legs.semantic.compared:
        semantic = SemanticExplanation(legs.semantic.strategy, len(legs.semantic.hits), legs.semantic.passages)
    if (found := legs.keyword) is not None:
        keyword = KeywordExplanation(
            strategy=found.strategy,
            candidates=len(found.hits),
            matches=found.total,
            phrases=plan.asked.phrases,
            corrections=found.replacements.corrections,
            completions=found.replacements.completions,
            compounds=found.replacements.compounds,
            synonyms=found.replacements.synonyms,
            ignored=found.ignored,
            best_score=found.hits[0].value if found.hits else 0.0,
            full_match_score=found.full_match,
        )
        if plan.fusion == "score":
            scale = found.scale or None
    return Explanation(
        mode=query.mode,
        fusion=plan.fusion,
        weights=plan.weights,
        weights_from=plan.weights_from,
        adaptation=plan.tenant.adaptation if plan.weights_from == "searches" else None,
        rrf_k=query.rrf_k,
        keyword_scale=scale,
        cosine_stretch=cosine_stretch(model.similarity_threshold) if plan.fusion == "score" else None,
        boost=query.boost,
        diversity=query.diversity,
        similarity_threshold=plan.threshold,
        model=model.info,
        legs=LegExplanations(semantic, keyword),
        embedding_failure=None if failure is None else EmbeddingFailure(failure.attempts),
        reranker=None
        if reranking is None
        else RerankerExplanation(
            reranking.name, reranking.candidates, None if reranking.failure is None else reranking.failure.attempts
        ),
        hits=[_explain_hit(c, rank) for rank, c in enumerate(page, 1) if c.entry_id in shown],
    )


def explain_page(receipt: Receipt, page: Sequence[Candidate], shown: Collection[UUID], offset: int) -> Explanation:
    """Explain a later page from the receipt of its search; values that the receipt lacks are None.

    What was deleted or hidden since is not among the entries `shown`, and not explained.
    """
    semantic, keyword = (PinnedLeg() if leg in receipt.search_modes_used else None for leg in ("semantic", "keyword"))
    return Explanation(
        **same_fields(receipt, Explanation),
        adaptation=None,
        keyword_scale=None,
        cosine_stretch=None,
        boost=receipt.options.get("boost", ()),
        diversity=receipt.options.get("diversity", 0.0),
        legs=LegExplanations(semantic, keyword),
        embedding_failure=None,
        reranker=None,
        hits=[_explain_hit(c, rank, is_pinned=True) for rank, c in enumerate(page, offset + 1) if c.entry_id in shown],
    )


def _explain_hit(candidate: Candidate, rank: int, *, is_pinned: bool = False) -> HitExplanation:
    c = candidate
    copied: dict[str, Any] = {n: None if is_pinned and n in FUSED else getattr(c, n) for n in EXPLAINED}
    return HitExplanation(id=c.entry_id, rank=rank, cosine=c.cosine if c.similarity is None else c.similarity, **copied)


FUSED = ("semantic_term", "keyword_term", "boosts")
EXPLAINED = tuple(f.name for f in fields(HitExplanation) if f.name not in ("id", "rank", "cosine"))
"""What an explanation has of a candidate; later pages lack what the receipt does not have."""


def judge(
    entry_id: UUID, plan: Plan, legs: Legs, ranking: Sequence[Candidate], verdict: Verdict | None, stopwatch: Stopwatch
) -> WhyNot:
    """Derive the reasons from the legs, the ranking and the facts about the entry."""
    rank = next((p for p, c in enumerate(ranking, 1) if any(entry_id in m.ids for m in (c, *c.further))), None)
    in_results = rank is not None and rank <= plan.limit
    if rank is not None and in_results:
        reasons = _behind_duplicate(entry_id, ranking[rank - 1]) or _behind_others(entry_id, ranking[rank - 1])
        in_results = not reasons
    elif rank is not None:
        detail = f"ranked {rank} of {len(ranking)} candidates; the page ends at {plan.limit}"
        reasons = [Reason("cut", detail), *_reranker_reason(ranking, rank)]
    else:
        reasons = _find_reasons(plan, legs, verdict)
    times = milliseconds(stopwatch.seconds), milliseconds(stopwatch.waited)
    return WhyNot(entry_id, in_results, rank, reasons, *times)


def _reranker_reason(ranking: Sequence[Candidate], rank: int) -> list[Reason]:
    """The rank that the reranker gave to the candidate, if it compared any."""
    compared = sum(c.rerank_rank is not None for c in ranking)
    placed = ranking[rank - 1].rerank_rank
    if not compared:
        return []
    if placed is None:
        return [Reason("reranker", f"not among the {compared} candidates that the reranker compared")]
    return [Reason("reranker", f"the reranker ranked it {placed} of {compared}")]


def _behind_duplicate(entry_id: UUID, best: Candidate) -> list[Reason]:
    """The reason why an entry is only counted under another one that differs in numbers and dates."""
    shown = next((c.entry_id for c in (best, *best.further) if entry_id in c.folded), None)
    if shown is None:
        return []
    detail = f"differs only in numbers and dates from {shown}, which stands for it; see duplicates"
    return [Reason("duplicate", detail)]


def _behind_others(entry_id: UUID, best: Candidate) -> list[Reason]:
    """The reason why an entry is not among the passages that the hit of its asset has."""
    if entry_id in (c.entry_id for c in shown([best])):
        return []
    place = next(place for place, c in enumerate(best.further, 2) if c.entry_id == entry_id)
    detail = f"passage {place} of {best.passages} of its asset; a hit has the best {1 + FURTHER}"
    return [Reason("cut", detail)]


def _find_reasons(plan: Plan, legs: Legs, verdict: Verdict | None) -> list[Reason]:
    """The reasons why the entry is not a candidate."""
    if verdict is None:
        return [Reason("entry", "there is no entry with this id")]
    reasons: list[Reason] = []
    if not verdict.unexpired:
        reasons.append(Reason("filter", "expired"))
    if not verdict.current:
        reasons.append(Reason("filter", "superseded by another entry; see include_superseded"))
    if not verdict.released:
        reasons.append(Reason("filter", "quarantined because of its flags, until an admin releases it"))
    reasons += [Reason("filter", f"{name} does not match") for name in verdict.failed]
    reasons += [Reason("excluded", f"has the excluded {term}") for term in verdict.excluded]
    if not reasons and verdict.repeated:
        reasons = [Reason("duplicate", "another asset with the same bytes has this text and is found instead")]
    if not reasons:
        reasons = [_semantic_reason(plan, legs, verdict), _keyword_reason(plan, legs, verdict)]
    return reasons


def _semantic_reason(plan: Plan, legs: Legs, verdict: Verdict) -> Reason:
    if legs.embedding.failure is not None:
        return Reason("semantic", "the embedding provider was unavailable; only the keyword leg ran")
    if legs.embedding.unknown:
        return Reason("semantic", "the model knows no word of the query; only the keyword leg ran")
    if legs.semantic is None:
        return Reason("semantic", f"not searched in mode {plan.query.mode}")
    cosine = verdict.cosine
    if cosine is None:
        return Reason("semantic", "the entry has no vector of the tenant's model; see its embedding_status")
    if cosine < plan.threshold:
        return Reason("semantic", f"similarity {cosine:.4f} is below the threshold {plan.threshold:.4f}")
    hits = legs.semantic.hits
    if not hits or cosine > hits[-1].value:
        # This happens only in an approximate scan; an exact scan keeps all nearest entries.
        return Reason("semantic", f"similarity {cosine:.4f}; the index, which is approximate, missed it")
    return Reason("semantic", f"similarity {cosine:.4f}; {len(hits)} entries down to {hits[-1].value:.4f} were nearer")


def _keyword_reason(plan: Plan, legs: Legs, verdict: Verdict) -> Reason:
    if legs.keyword is None or (legs.keyword.only_pending and verdict.cosine is not None):
        return Reason("keyword", f"not searched in mode {plan.query.mode}")
    synonyms = [synonym for found in legs.keyword.replacements.synonyms.values() for synonym in found]
    words = f"the query or its synonyms ({', '.join(synonyms)})" if synonyms else "the query"
    if not verdict.shares_words:
        return Reason("keyword", f"shares no word with {words}")
    if not verdict.has_phrases:
        return Reason("keyword", f"does not have the phrase {' and '.join(map(repr, plan.asked.phrases))}")
    taken = len(legs.keyword.hits)
    if legs.whole and taken < plan.wanted:
        return Reason("keyword", f"has only parts of the identifier; {taken} entries contain all of it")
    return Reason("keyword", f"shares words with {words}; {taken} entries share more or rarer ones")


MOST_MATCHES = 20_000
"""Most entries that match by their words and are counted; reading more would take too long."""

MOST_PASSAGES = 200_000
"""Passages of a tenant that are all compared with the query; in a larger one, facets count the nearest entries."""

NEAREST = 1_000
"""Entries that the index finds in such a tenant."""

MOST_VALUES = 50
LONGEST_VALUE = 200
"""Values of a facet in the answer, and the characters of one; the others are counted together."""


async def count_facets(session: TenantSession, plan: Plan, legs: Legs) -> Mapping[str, Facet]:
    """Count the values of the fields that the search asks for, among all of its matches.

    A match passes the filters, and has one of the query's words or reaches the similarity threshold, in the legs that
    ran. The counts are exact if every entry that passes the filters was compared, else lower bounds.
    """
    wanted = plan.query.facets
    query, nothing_cut = await _describe_matches(session, plan, legs)
    rows = await search.count_values(
        session,
        plan.tenant.space,
        query,
        [name for name in wanted if not name.startswith(METADATA_FACET)],
        [name.removeprefix(METADATA_FACET) for name in wanted if name.startswith(METADATA_FACET)],
        most=MOST_MATCHES,
        values=MOST_VALUES,
        longest=LONGEST_VALUE,
    )
    exact = nothing_cut and all(row.complete for row in rows)
    return {name: _make_facet([row for row in rows if row.name == name], exact) for name in wanted}


async def _describe_matches(session: TenantSession, plan: Plan, legs: Legs) -> tuple[MatchQuery, bool]:
    """What makes an entry a match, and whether all entries that pass the filter are compared with it."""
    tenant, vector = plan.tenant, legs.embedding.vector
    near: list[UUID] = []
    exact = legs.semantic is None or not legs.pending
    if len(legs.embedding.vectors) > 1 and legs.semantic is not None:
        near, vector, exact = [hit.entry_id for hit in legs.semantic.hits], None, False
    ids = None
    many = legs.semantic is not None and legs.semantic.strategy == "indexed"
    if plan.is_selective and not many:
        found = await filtered_ids(session, plan.entry_filter, plan.exact_limit + 1)
        ids = found if len(found) <= plan.exact_limit else None
    max_distance = margin(plan.threshold)
    if vector is not None and ids is None and tenant.passages > MOST_PASSAGES:
        wanted = vectors.Nearest(tenant.space, vector, max_distance, plan.entry_filter, NEAREST)
        found_near = await vectors.indexed(session, wanted)
        own = legs.semantic.hits if legs.semantic is not None else ()
        near, vector, exact = [hit.entry_id for hit in (*own, *found_near.hits)], None, False
    text = plan.asked.text if legs.keyword is not None else None
    return (
        MatchQuery(
            text,
            "" if legs.whole else legs.words_compared(plan.asked.text),
            vector,
            max_distance,
            plan.entry_filter,
            ids,
            near,
            alternatives=legs.alternatives,
            pending_only=legs.keyword is not None and legs.keyword.only_pending,
            required=plan.required,
        ),
        exact,
    )


def _make_facet(rows: Sequence[CountedValue], exact: bool) -> Facet:
    values = [FacetValue(row.value, row.count) for row in rows if row.kind == "value" and row.value is not None]
    counts = {row.kind: row.count for row in rows}
    return Facet(
        sorted(values, key=lambda v: (-v.count, str(v.value))), counts.get("other", 0), counts.get("missing", 0), exact
    )


SUGGESTIONS = 5
LEAST_LIKENESS = 0.3
"""Trigram similarity that a suggestion must exceed; the default of pg_trgm."""

SUGGESTED_WORDS = 3
"""Most suggestions that come from words instead of tags; each requires a search for an entry with the word."""

COMPARED_TAGS = 12
"""Most tags that are tried as queries; each is a keyword search of 2 ms, and only of a search without results."""

COMPARED_WORDS = 5
"""Most words of the query that are compared with the tenant's tags."""

COMPARED_CHARACTERS = 1_000


async def suggest(session: TenantSession, plan: Plan) -> list[str]:
    """Suggest the query without its operators, then tags and words of the tenant that resemble the query's words, most
    similar first, then its top tags.

    Each suggestion is tried: it finds an entry that passes the search's filters. A word is spelt as in that entry.
    """
    query = plan.asked.text
    text = query[:COMPARED_CHARACTERS]
    words = list(dict.fromkeys(word for word in find_words(text.lower()) if len(word) > 2 or is_run(word)))
    tags = await search.suggest_tags(session, words[:COMPARED_WORDS], LEAST_LIKENESS, COMPARED_TAGS)
    lexemes = await search.suggest_lexemes(
        session, remove_runs(text), plan.entry_filter, LEAST_LIKENESS, SUGGESTED_WORDS
    )
    found = [(row.likeness or 0.0, row.tag) for row in tags]
    for row in lexemes:
        word = spell(row.lexeme, row.language, f"{row.title or ''} {row.content}")
        if word is not None:
            found.append((row.likeness, word))
    found.sort(key=lambda pair: -pair[0])
    unique: dict[str, str] = {}
    if plan.required is not None:
        found.insert(0, (1.0, " ".join(QUOTED.sub(lambda match: f" {match[0][1:-1]} ", query).split())))
    for _, suggestion in found:
        unique.setdefault(suggestion.lower(), suggestion)
    unique.pop(query.lower(), None)
    useful: list[str] = []
    for suggestion in unique.values():
        if len(useful) < SUGGESTIONS:
            asked = KeywordQuery(suggestion, plan.entry_filter, 1, plan.keyword_budget)
            useful += [suggestion] if (await match_words(session, asked)).hits else []
    return useful


async def relax(session: TenantSession, plan: Plan, vectors: Sequence[Vector]) -> list[Relaxation]:
    """Search again without each filter; if that finds nothing, without all of them. Only for an empty result.

    The legs are those of the search; there are no `vectors` if only the keyword leg ran.
    """
    active = list(plan.entry_filter.split())
    found = [Relaxation([name], await _count(session, plan, [name], vectors)) for name in active]
    helpful = [relaxation for relaxation in found if relaxation.matches]
    if not helpful and len(active) > 1 and (matches := await _count(session, plan, active, vectors)):
        helpful = [Relaxation(active, matches)]
    return helpful


async def _count(session: TenantSession, plan: Plan, without: Sequence[str], vectors: Sequence[Vector]) -> int:
    relaxed = replace(plan, entry_filter=plan.entry_filter.without(*without))
    words = (
        await search_words(session, relaxed, relaxed.wanted) if plan.query.mode != "semantic" or not vectors else None
    )
    nearest = await search_vectors(session, relaxed, vectors) if vectors else None
    joined = join_legs(nearest.hits if nearest else (), words.hits if words else ())
    return max(len(joined), words.total if words else 0)
