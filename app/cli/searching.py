"""`knowledge search` and `knowledge related`: asking a tenant's knowledge."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any, Literal
from uuid import UUID

import typer

from app.cli.execution import ACTOR, open_tenant, read_settings, run_async
from app.cli.options import JsonOption, TenantOption, examples
from app.cli.terminal import print_json

if TYPE_CHECKING:
    from rich.text import Text

    from app.knowledge.query import SearchQuery
    from app.knowledge.related import RelatedEntry
    from app.knowledge.results import Hit, SearchResult
    from app.settings import Settings

WORD = re.compile(r"[^\W_]+")


def register(app: typer.Typer) -> None:
    """Add the commands `search` and `related`."""
    app.command(
        epilog=examples(
            'knowledge search "how do I order routes" --tenant demo',
            'knowledge search "Backup der Datenbank" -t demo --mode keyword --tag backup --limit 3',
            'knowledge search "error after deploy" -t demo --json',
        )
    )(search)
    app.command(epilog=examples("knowledge related 0198c5a2-… --tenant demo"))(related)


def search(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What is asked.")],
    tenant: TenantOption,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", help="Hits, 1 to 100.", show_default=False)
    ] = None,
    mode: Annotated[
        Literal["hybrid", "semantic", "keyword"], typer.Option(help="Which legs run.")
    ] = "hybrid",
    fusion: Annotated[Literal["rrf", "score"] | None, typer.Option(help="How the legs are fused.")] = None,
    role: Annotated[
        Literal["pm", "dev", "qa", "all"] | None, typer.Option(help="Whom it is meant for.")
    ] = None,
    tags: Annotated[list[str] | None, typer.Option("--tag", help="A tag it has; may be repeated.")] = None,
    all_tags: Annotated[bool, typer.Option("--all-tags", help="It must have all of the tags.")] = False,
    entry_types: Annotated[
        list[str] | None, typer.Option("--type", help="Entry type; may be repeated.")
    ] = None,
    source: Annotated[
        Literal["entry", "asset"] | None, typer.Option(help="Written entries, or files.")
    ] = None,
    scope: Annotated[Literal["global", "project"] | None, typer.Option(help="Its scope.")] = None,
    min_confidence: Annotated[float | None, typer.Option(help="Least confidence, 0 to 1.")] = None,
    threshold: Annotated[float | None, typer.Option(help="Least similarity of meaning, 0 to 1.")] = None,
    superseded: Annotated[
        bool, typer.Option("--include-superseded", help="Also what was superseded.")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="With --json: ranks, raw scores and choices.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Search a tenant's knowledge, best hits first. --json prints what POST /knowledge/search answers."""
    from app.knowledge.query import SearchQuery

    settings = read_settings()
    chosen: Any = entry_types or None
    wanted = SearchQuery(
        query=query,
        mode=mode,
        limit=settings.search.default_limit if limit is None else limit,
        fusion=fusion,
        role=role,
        tags=tags or None,
        tags_match="all" if all_tags else "any",
        entry_type=chosen,
        source=source,
        scope=scope,
        min_confidence=min_confidence,
        similarity_threshold=threshold,
        include_superseded=superseded,
        explain=explain,
    )
    result = run_async(_search(settings, tenant, wanted))
    if as_json:
        print_json(result)
    else:
        _print_result(result)


def related(
    entry_id: Annotated[UUID, typer.Argument(metavar="ID", help="Id of an entry.")],
    tenant: TenantOption,
    limit: Annotated[int, typer.Option("--limit", "-n", help="Entries, 1 to 20.")] = 5,
    as_json: JsonOption = False,
) -> None:
    """Show the entries around an entry: its parent, its siblings, and those that share two or more tags."""
    found = run_async(_related(read_settings(), tenant, entry_id, limit))
    if as_json:
        print_json(describe_related(found))
        return
    console = _console()
    if not found:
        console.print("nothing is related to it")
    for item in found:
        entry = item.entry
        shared = f" ({item.overlap_count} shared tags)" if item.overlap_count else ""
        console.print(_styled((entry.title or _shorten(entry.content, 80), "bold")))
        console.print(_styled((f"   {item.relationship}{shared} · {entry.entry_type} · {entry.id}", "dim")))
        console.print(_styled((f"   {_shorten(entry.content, 160)}\n", "")))


def describe_related(found: Sequence[RelatedEntry]) -> dict[str, Any]:
    """What GET /knowledge/entries/{id}/related answers."""
    results = [
        {
            **{f.name: getattr(item.entry, f.name) for f in fields(item.entry)},
            "relationship": item.relationship,
            "overlap_count": item.overlap_count,
        }
        for item in found
    ]
    kinds = list(dict.fromkeys(item.relationship for item in found))
    return {"results": results, "metadata": {"total": len(results), "relationship_types": kinds}}


async def _search(settings: Settings, slug: str, query: SearchQuery) -> SearchResult:
    async with open_tenant(settings, slug) as (services, tenant):
        return await services.search.search(tenant.id, query, subject=ACTOR)


async def _related(settings: Settings, slug: str, entry_id: UUID, limit: int) -> Sequence[RelatedEntry]:
    async with open_tenant(settings, slug) as (services, tenant):
        return await services.related.related(tenant.id, entry_id, limit)


def _print_result(result: SearchResult) -> None:
    console = _console()
    metadata = result.metadata
    if metadata.fallback_mode:
        console.print(_styled(("the embedding provider is away: searched by words alone", "yellow")))
    for number, hit in enumerate(result.results, 1):
        console.print(_styled((f"{number}. ", "bold"), (hit.title or _shorten(hit.content, 80), "bold")))
        console.print(_styled((f"   {_describe(hit)}", "dim")))
        console.print(_highlighted(hit), "", sep="\n")
    if not result.results:
        console.print("nothing found")
    if metadata.suggestions:
        console.print(_styled((f"try: {', '.join(metadata.suggestions)}", "")))
    summary = f"{len(result.results)} of {metadata.total} hits in {metadata.query_time_ms} ms"
    console.print(_styled((f"{summary} · search {metadata.search_id}", "dim")))


def _describe(hit: Hit) -> str:
    parts = [f"score {hit.score:.4f}", "+".join(hit.sources), hit.entry_type]
    if hit.similarity is not None:
        parts.insert(1, f"similarity {hit.similarity:.2f}")
    if hit.asset_name is not None:
        page = hit.metadata.get("page")
        parts.append(f"{hit.asset_name}, page {page}" if page else hit.asset_name)
    if hit.tags:
        parts.append(" ".join(f"#{tag}" for tag in hit.tags))
    return " · ".join([*parts, str(hit.id)])


def _highlighted(hit: Hit) -> Text:
    """The snippet with the query's words marked, in whatever form they stand there."""
    from Stemmer import Stemmer

    stemmers = [Stemmer("english"), Stemmer("german")]
    terms = {stemmer.stemWord(term.lower()) for term in hit.matched_terms for stemmer in stemmers}
    snippet = " ".join(hit.snippet.split())
    text = _styled(("   " + snippet, ""))
    for match in WORD.finditer(snippet):
        if any(stemmer.stemWord(match[0].lower()) in terms for stemmer in stemmers):
            text.stylize("bold green", match.start() + 3, match.end() + 3)
    return text


def _styled(*parts: tuple[str, str]) -> Text:
    # Text, not markup: what is stored may look like markup.
    from rich.text import Text

    return Text.assemble(*parts)


def _console() -> Any:
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        console.soft_wrap = True
    return console


def _shorten(text: str, length: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= length else line[: length - 1] + "…"
