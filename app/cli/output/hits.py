"""Search results for people: hits, the reasons for their ranks, and how to continue."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from app.cli.output.text import flatten, make_console, make_text

if TYPE_CHECKING:
    from rich.text import Text

    from app.contract.results import Explanation, Hit, HitExplanation, SearchResult
    from app.contract.vocabulary import Leg

Line = list[tuple[str, str]]
"""A line as texts with their styles."""

INDENT = "   "
INDENTED = "indented"
"""The style of the indentation of a text that can be longer than a line of the terminal."""

LEGS: tuple[Leg, ...] = ("semantic", "keyword")


def describe_hits(result: SearchResult, *, first: int = 1, explain: bool = False) -> list[Line]:
    """A page of hits in lines for people, numbered from `first`; `explain` adds the parts of each score."""
    metadata, debug = result.metadata, result.debug_info
    lines: list[Line] = [[(warning, "yellow")] for warning in _warn(result)]
    if explain and debug is not None:
        lines += ([(line, "dim")] for line in describe_plan(result, debug))
        lines.append([])
    ranks = {hit.id: hit for hit in debug.hits} if debug is not None else {}
    for number, hit in enumerate(result.results, first):
        lines.append([(f"{number}. ", "bold cyan"), (flatten(hit.title or hit.content, 80), "bold")])
        lines.append([(INDENT + _describe(hit), "dim")])
        lines.append([(f"{INDENT}score {hit.score:.4f}", "cyan"), (f": {_why(hit, ranks)}", "")])
        if explain and hit.id in ranks and ranks[hit.id].boosts is not None:
            lines.append([(INDENT + describe_score(ranks[hit.id]), "dim")])
        lines.append([(INDENT, INDENTED), *_highlight(hit)])
        lines += ([(INDENT + text, "dim")] for text in _describe_group(hit))
        lines.append([])
    lines += ([(text, "")] for text in _describe_facets(result))
    if not result.results:
        lines.append([(metadata.filter_note or "nothing found", "")])
    if metadata.suggestions:
        lines.append([(f"try: {', '.join(metadata.suggestions)}", "")])
    last = first + len(result.results) - 1
    shown = f"{first} to {last}" if result.results else "0"
    waited = f" ({metadata.waiting_ms} ms of it waiting)" if metadata.waiting_ms else ""
    times = f"{metadata.query_time_ms} ms{waited}"
    lines.append([(f"{shown} of {metadata.total} hits in {times} · search {metadata.search_id}", "dim")])
    if metadata.next_cursor is not None:
        lines.append([(f"more: the same command with --cursor {metadata.next_cursor}", "dim")])
    return lines


def print_lines(lines: Iterable[Sequence[Sequence[str]]]) -> None:
    """Print lines of parts, each a text and its style."""
    from rich.padding import Padding

    console = make_console()
    for parts in lines:
        if console.is_terminal and parts and parts[0][1] == INDENTED:
            # Long lines continue with the same indentation.
            console.print(Padding.indent(_assemble(parts[1:]), len(INDENT)))
        else:
            console.print(_assemble(parts))


def _assemble(parts: Iterable[Sequence[str]]) -> Text:
    return make_text(*((text, "" if style == INDENTED else style) for text, style in parts))


def describe_plan(result: SearchResult, debug: Explanation) -> Iterator[str]:
    """Describe the settings and the work of each leg, a line each; later pages have no data about legs."""
    from app.contract.results import KeywordExplanation, SemanticExplanation

    metadata, weights, model = result.metadata, debug.weights, debug.model
    fusion = debug.fusion
    if fusion == "rrf":
        fusion = f"rrf (k {debug.rrf_k})"
    elif debug.keyword_scale is not None:
        fusion = f"{fusion} (keyword scale {debug.keyword_scale:.4f})"
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
        corrected += "".join(f", {was}… read as {', '.join(now)}" for was, now in keyword.completions.items())
        corrected += "".join(f", {was} also as {' + '.join(now)}" for was, now in keyword.compounds.items())
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
    from app.knowledge.search.answer.facets import describe_degradation

    metadata = result.metadata
    yield from describe_degradation(metadata)
    if not {"embedding_unavailable", "reranker_unavailable"}.isdisjoint(metadata.degraded):
        yield "for the cause, see knowledge doctor"
    if result.results and not metadata.strong_match:
        yield "no strong match: these are only the nearest entries"


def _describe(hit: Hit) -> str:
    parts: list[str] = [hit.entry_type]
    if hit.asset_name is not None:
        page = hit.metadata.get("page")
        parts.append(f"{flatten(hit.asset_name)}, page {page}" if page else flatten(hit.asset_name))
    if hit.origin is not None:
        parts.append(f"from {hit.origin.text}")
    if hit.tags:
        parts.append(" ".join(f"#{flatten(tag)}" for tag in hit.tags))
    if hit.is_verified:
        parts.append("verified")
    if isinstance(flags := hit.metadata.get("flags"), list):
        parts.append(f"suspicious: {', '.join(flags)}")
    return " · ".join([*parts, str(hit.id)])


def _describe_group(hit: Hit) -> Iterator[str]:
    """The further passages of the hit's asset, a line each."""
    if hit.group is None or hit.group.total == 1:
        return
    for passage in hit.group.further:
        page = f"page {passage.page}, " if passage.page else ""
        yield f"also {page}score {passage.score:.4f}: {flatten(passage.snippet, 80)} · {passage.id}"
    if left := hit.group.total - 1 - len(hit.group.further):
        yield f"and {left} more {'passage' if left == 1 else 'passages'}"


def _describe_facets(result: SearchResult) -> Iterator[str]:
    """The values of each facet with their counts, a line each."""
    for name, facet in (result.facets or {}).items():
        least = "" if facet.exact else "at least "
        parts = [f"{flatten(str(value.value))} {least}{value.count}" for value in facet.values]
        others = (("others", facet.other), ("none", facet.missing))
        parts += [f"({label} {least}{count})" for label, count in others if count]
        yield f"{name}: {', '.join(parts) or 'no values'}"


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
    if told is not None and told.rerank_rank is not None:
        parts.append(f"reranker #{told.rerank_rank} ({told.rerank_score:.4g})")
    return ", ".join(parts)


def _describe_words(hit: Hit) -> str:
    words = f", {flatten(' '.join(hit.matched_terms), 60)}" if hit.matched_terms else ""
    return f"BM25 {hit.keyword_score:.2f}{words}"


def _highlight(hit: Hit) -> Line:
    """The snippet with the query's words marked, in any form."""
    from app.knowledge.search.answer.snippet import Highlighter

    pieces = Highlighter(hit).split(flatten(hit.snippet))
    return [(piece.text, "bold green" if piece.found else "") for piece in pieces]
