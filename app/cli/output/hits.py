"""Search results for people: hits, the reasons for their ranks, and how to continue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING
from uuid import UUID

from app.cli.output.text import flatten, make_console, make_text

if TYPE_CHECKING:
    from rich.text import Text

    from app.knowledge.search.results import Explanation, Hit, HitExplanation, SearchResult
    from app.knowledge.vocabulary import Leg

INDENT = "   "
LEGS: tuple[Leg, ...] = ("semantic", "keyword")


def print_hits(result: SearchResult, *, first: int = 1, explain: bool = False) -> None:
    """Print a page of hits, numbered from `first`; `explain` adds the parts of each score."""
    from rich.padding import Padding
    from rich.text import Text

    console = make_console()
    metadata, debug = result.metadata, result.debug_info
    for warning in _warn(result):
        console.print(make_text((warning, "yellow")))
    if explain and debug is not None:
        for line in describe_plan(result, debug):
            console.print(make_text((line, "dim")))
        console.print()
    ranks = {hit.id: hit for hit in debug.hits} if debug is not None else {}
    for number, hit in enumerate(result.results, first):
        console.print(
            make_text((f"{number}. ", "bold cyan"), (flatten(hit.title or hit.content, 80), "bold"))
        )
        console.print(make_text((INDENT + _describe(hit), "dim")))
        console.print(make_text((f"{INDENT}score {hit.score:.4f}", "cyan"), (f": {_why(hit, ranks)}", "")))
        if explain and hit.id in ranks and ranks[hit.id].boosts is not None:
            console.print(make_text((INDENT + describe_score(ranks[hit.id]), "dim")))
        snippet = _highlight(hit)
        # On a terminal, long lines continue with the same indentation.
        indented = Padding.indent(snippet, len(INDENT)) if console.is_terminal else Text(INDENT) + snippet
        console.print(indented, "", sep="\n")
    if not result.results:
        console.print(metadata.filter_note or "nothing found")
    if metadata.suggestions:
        console.print(make_text((f"try: {', '.join(metadata.suggestions)}", "")))
    last = first + len(result.results) - 1
    shown = f"{first} to {last}" if result.results else "0"
    waited = f" ({metadata.waiting_ms} ms of it waiting)" if metadata.waiting_ms else ""
    times = f"{metadata.query_time_ms} ms{waited}"
    console.print(
        make_text((f"{shown} of {metadata.total} hits in {times} · search {metadata.search_id}", "dim"))
    )
    if metadata.next_cursor is not None:
        console.print(make_text((f"more: the same command with --cursor {metadata.next_cursor}", "dim")))


def describe_plan(result: SearchResult, debug: Explanation) -> Iterator[str]:
    """Describe the settings and the work of each leg, a line each; later pages have no data about legs."""
    from app.knowledge.search.results import KeywordExplanation, SemanticExplanation

    metadata, weights, model = result.metadata, debug.weights, debug.model
    fusion = f"{debug.fusion} (k {debug.rrf_k})" if debug.fusion == "rrf" else debug.fusion
    yield (
        f"mode {debug.mode}, fusion {fusion}, weights {weights.semantic:g} semantic and"
        f" {weights.keyword:g} keyword, boost {', '.join(debug.boost) or 'none'}"
    )
    semantic, keyword = debug.legs.semantic, debug.legs.keyword
    if isinstance(semantic, SemanticExplanation):
        yield (
            f"semantic: {semantic.strategy}, {semantic.candidates} candidates of"
            f" {semantic.passages_in_tenant} passages with a similarity of"
            f" {debug.similarity_threshold:g} or more, {metadata.semantic_ms} ms after {metadata.embedding_ms} ms"
            f" of embedding by {model.provider}/{model.name}"
        )
    if isinstance(keyword, KeywordExplanation):
        corrected = "".join(f", {was} read as {now}" for was, now in keyword.corrections.items())
        yield (
            f"keyword: {keyword.strategy}, {keyword.candidates} candidates of {keyword.matches} matches,"
            f" best BM25 {keyword.best_score:.2f}{corrected}, {metadata.keyword_ms} ms"
        )


def describe_score(hit: HitExplanation) -> str:
    """The parts of a score as far as they are known: the terms of the legs, times the boosts."""
    # A leg that did not find the hit may still have a term: score fusion computes its cosine.
    terms = [f"{term:.4f} {leg}" for leg in LEGS if (term := hit.term_of(leg))]
    boosts = "".join(f" × {factor:g} ({name})" for name, factor in (hit.boosts or {}).items())
    made = " + ".join(terms)
    return f"{hit.score:.4f} = " + (f"({made}){boosts}" if boosts and len(terms) > 1 else made + boosts)


def _warn(result: SearchResult) -> Iterator[str]:
    from app.knowledge.search.answer.notices import describe_degradation

    metadata = result.metadata
    yield from describe_degradation(metadata)
    if "embedding_unavailable" in metadata.degraded:
        yield "for the cause, see knowledge doctor"
    if result.results and not metadata.strong_match:
        yield "no strong match"


def _describe(hit: Hit) -> str:
    parts = [hit.entry_type]
    if hit.asset_name is not None:
        page = hit.metadata.get("page")
        parts.append(f"{flatten(hit.asset_name)}, page {page}" if page else flatten(hit.asset_name))
    if hit.tags:
        parts.append(" ".join(f"#{flatten(tag)}" for tag in hit.tags))
    if hit.is_verified:
        parts.append("verified")
    return " · ".join([*parts, str(hit.id)])


def _why(hit: Hit, ranks: Mapping[UUID, HitExplanation]) -> str:
    """The legs that found the hit, with rank and score."""
    told = ranks.get(hit.id)
    details: Mapping[Leg, str] = {
        "semantic": "" if hit.similarity is None else f"similarity {hit.similarity:.2f}",
        "keyword": "" if hit.keyword_score is None else _describe_words(hit),
    }
    parts = []
    for leg in hit.sources:
        place = f" #{told.rank_in(leg)}" if told else ""
        parts.append(f"{leg}{place}" + (f" ({details[leg]})" if details[leg] else ""))
    return ", ".join(parts)


def _describe_words(hit: Hit) -> str:
    words = f", {flatten(' '.join(hit.matched_terms), 60)}" if hit.matched_terms else ""
    return f"BM25 {hit.keyword_score:.2f}{words}"


def _highlight(hit: Hit) -> Text:
    """The snippet with the query's words marked, in any form."""
    from app.knowledge.search.answer.highlighting import Highlighter

    pieces = Highlighter(hit).split(flatten(hit.snippet))
    return make_text(*((piece.text, "bold green" if piece.found else "") for piece in pieces))
