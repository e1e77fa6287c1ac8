"""Search results for people: hits, the reasons for their ranks, and how to continue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from app.cli.output.text import flatten, make_console, make_text

if TYPE_CHECKING:
    from knowledge_client.models import Hit, SearchResult

INDENT = "   "
LEGS = ("semantic", "keyword")
Line = list[tuple[str, str]]
"""A line as texts with their styles."""


def print_hits(result: SearchResult, debug: Mapping[str, Any], *, explain: bool) -> None:
    """Print a page of hits for people; `explain` adds the parts of each score. `debug` is the answer's `debug_info`."""
    metadata = result.metadata
    console = make_console()

    def show(*parts: tuple[str, str]) -> None:
        console.print(make_text(*parts))

    for warning in _warn(result):
        show((warning, "yellow"))
    if explain:
        for line in _describe_plan(result, debug):
            show((line, "dim"))
        show()
    ranks = {hit["id"]: hit for hit in debug["hits"]}
    first = debug["hits"][0]["rank"] if debug["hits"] else 1
    for number, hit in enumerate(result.results, first):
        told = ranks.get(str(hit.id))
        show((f"{number}. ", "bold cyan"), (flatten(hit.title or hit.content, 80), "bold"))
        show((INDENT + _describe(hit), "dim"))
        show((f"{INDENT}score {hit.score:.4f}", "cyan"), (f": {_why(hit, told)}", ""))
        if explain and told is not None and told["boosts"] is not None:
            show((INDENT + _describe_score(told), "dim"))
        if console.is_terminal:
            from rich.padding import Padding

            # Long lines continue with the same indentation.
            console.print(Padding.indent(make_text(*_highlight(hit)), len(INDENT)))
        else:
            show((INDENT + flatten(hit.snippet), ""))
        for text in _describe_group(hit):
            show((INDENT + text, "dim"))
        if hit.duplicates:
            differ = "entry differs" if hit.duplicates == 1 else "entries differ"
            show((f"{INDENT}{hit.duplicates} more {differ} only in numbers and dates: --duplicates show", "dim"))
        show()
    for text in _describe_facets(result):
        show((text, ""))
    if not result.results:
        show((_explain_absence(result), ""))
    if metadata.suggestions:
        show((f"try: {', '.join(metadata.suggestions)}", ""))
    last = first + len(result.results) - 1
    shown = f"{first} to {last}" if result.results else "0"
    waited = f" ({metadata.waiting_ms} ms of it waiting)" if metadata.waiting_ms else ""
    times = f"{metadata.query_time_ms} ms{waited}"
    show((f"{shown} of {metadata.total} hits in {times} · search {metadata.search_id}", "dim"))
    if metadata.next_cursor is not None:
        show((f"more: the same command with --cursor {metadata.next_cursor}", "dim"))


def _describe_plan(result: SearchResult, debug: Mapping[str, Any]) -> Iterator[str]:
    """Describe the settings and the work of each leg, a line each; later pages have no data about legs."""
    metadata, weights, model, fusion = result.metadata, debug["weights"], debug["model"], debug["fusion"]
    if fusion == "rrf":
        fusion = f"rrf (k {debug['rrf_k']})"
    elif debug["keyword_scale"] is not None:
        fusion = f"{fusion} (keyword scale {debug['keyword_scale']:.4f})"
    yield (
        f"mode {debug['mode']}, fusion {fusion}, weights {weights['semantic']:g} semantic and"
        f" {weights['keyword']:g} keyword (from {debug['weights_from']}), boost {', '.join(debug['boost']) or 'none'}"
    )
    semantic, keyword = debug["legs"]["semantic"], debug["legs"]["keyword"]
    if semantic is not None and semantic["strategy"] is not None:
        yield (
            f"semantic: {semantic['strategy']}, {semantic['candidates']} candidates of"
            f" {semantic['passages_in_tenant']} passages with a similarity of"
            f" {debug['similarity_threshold']:g} or more, {metadata.semantic_ms} ms after {metadata.embedding_ms} ms"
            f" of embedding by {model['provider']}/{model['name']}"
        )
    if keyword is not None and keyword["strategy"] is not None:
        corrected = "".join(f", {was} read as {now}" for was, now in keyword["corrections"].items())
        corrected += "".join(f", {was}… read as {', '.join(now)}" for was, now in keyword["completions"].items())
        corrected += "".join(f", {was} also as {' + '.join(now)}" for was, now in keyword["compounds"].items())
        corrected += "".join(f", {was} also as {', '.join(now)}" for was, now in keyword["synonyms"].items())
        corrected += f", ignored {' '.join(keyword['ignored'])}" if keyword["ignored"] else ""
        yield (
            f"keyword: {keyword['strategy']}, {keyword['candidates']} candidates of {keyword['matches']} matches,"
            f" best BM25 {keyword['best_score']:.2f}{corrected}, {metadata.keyword_ms} ms"
        )


def _describe_score(told: Mapping[str, Any]) -> str:
    """The parts of a score as far as they are known: the terms of the legs, times the boosts."""
    # A leg that did not find the hit may still have a term: score fusion computes its cosine.
    terms = [f"{term:.4f} {leg}" for leg in LEGS if (term := told[f"{leg}_term"])]
    boosts = "".join(f" × {factor:g} ({name})" for name, factor in told["boosts"].items())
    made = " + ".join(terms)
    return f"{told['score']:.4f} = " + (f"({made}){boosts}" if boosts and len(terms) > 1 else made + boosts)


def _warn(result: SearchResult) -> Iterator[str]:
    metadata = result.metadata
    if metadata.degraded:
        from app.knowledge.presentation import describe_degradation

        yield from describe_degradation(metadata.degraded, metadata.pending)
    if not {"embedding_unavailable", "reranker_unavailable"}.isdisjoint(metadata.degraded):
        yield "for the cause, see knowledge doctor"
    if result.results and not metadata.strong_match:
        yield "no strong match: these are only the nearest entries"


def _explain_absence(result: SearchResult) -> str:
    """Why nothing was found, as far as the filters are the cause."""
    if not result.metadata.relaxations:
        return "nothing found"
    from app.contract.results import Relaxation, note_relaxations

    return note_relaxations([Relaxation(each.without, each.matches) for each in result.metadata.relaxations])


def _describe(hit: Hit) -> str:
    parts: list[str] = [hit.entry_type]
    if hit.asset_name is not None:
        page = hit.metadata.get("page")
        parts.append(f"{flatten(hit.asset_name)}, page {page}" if page else flatten(hit.asset_name))
    if hit.origin is not None:
        from app.contract.results import HitOrigin

        parts.append(f"from {HitOrigin(hit.origin.source, hit.origin.agreed_at).text}")
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


def _why(hit: Hit, told: Mapping[str, Any] | None) -> str:
    """The legs that found the hit, with rank and score."""
    details = {
        "semantic": "" if hit.similarity is None else f"similarity {hit.similarity:.2f}",
        "keyword": "" if hit.keyword_score is None else _describe_words(hit),
    }
    parts = []
    for leg in hit.sources:
        place = f" #{told[f'{leg}_rank']}" if told else ""
        parts.append(f"{leg}{place}" + (f" ({details[leg]})" if details[leg] else ""))
    if told is not None and told["rerank_rank"] is not None:
        parts.append(f"reranker #{told['rerank_rank']} ({told['rerank_score']:.4g})")
    return ", ".join(parts)


def _describe_words(hit: Hit) -> str:
    words = f", {flatten(' '.join(hit.matched_terms), 60)}" if hit.matched_terms else ""
    return f"BM25 {hit.keyword_score:.2f}{words}"


def _highlight(hit: Hit) -> Line:
    """The snippet with the query's words marked, in any form."""
    from app.knowledge.presentation import Highlighter

    pieces = Highlighter(hit.title, hit.content, hit.matched_terms).split(flatten(hit.snippet))
    return [(piece.text, "bold green" if piece.found else "") for piece in pieces]
