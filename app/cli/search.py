"""`knowledge search`: search a tenant's knowledge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from app.cli.execution import ACTOR, open_service, read_settings
from app.cli.local.client import ask_or_open
from app.cli.options import TenantOption, examples, json_option
from app.cli.output.text import print_json

if TYPE_CHECKING:
    from app.composition.services import Services
    from app.knowledge.search.query import SearchQuery
    from app.settings import Settings


def register(app: typer.Typer) -> None:
    """Add the command `search`."""
    app.command(
        short_help="Search a tenant's knowledge, best hits first.",
        epilog=examples(
            'knowledge search "how do I order routes" --tenant demo',
            'knowledge search "Backup der Datenbank" -t demo --mode keyword --tag backup --limit 3',
            """knowledge search "restore" -t demo --filter '{"field": "metadata.year", "gte": 2020}'""",
            'knowledge search "error after deploy" -t demo --explain',
            'knowledge search "error after deploy" -t demo --group-by asset --facet tags',
            'knowledge search "error after deploy" -t demo --json',
        ),
    )(search)


def search(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="The query.")],
    tenant: TenantOption,
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-n", metavar="N", help="Number of hits, 1 to 100.", show_default=False),
    ] = None,
    mode: Annotated[
        Literal["hybrid", "semantic", "keyword"], typer.Option(help="The legs to run.")
    ] = "hybrid",
    fusion: Annotated[Literal["rrf", "score"] | None, typer.Option(help="The fusion of the legs.")] = None,
    rerank: Annotated[
        bool | None,
        typer.Option(
            "--rerank/--no-rerank", help="Whether the reranker orders the first hits.", show_default=False
        ),
    ] = None,
    role: Annotated[
        Literal["pm", "dev", "qa", "all"] | None, typer.Option(help="Only entries for this role or for all.")
    ] = None,
    tags: Annotated[
        list[str] | None,
        typer.Option("--tag", metavar="TAG", help="Only entries with this tag; may be repeated."),
    ] = None,
    all_tags: Annotated[bool, typer.Option("--all-tags", help="Require all tags.")] = False,
    entry_types: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="TYPE", help="Only entries of this type; may be repeated."),
    ] = None,
    source: Annotated[
        Literal["entry", "asset"] | None, typer.Option(help="Only written entries, or only chunks of files.")
    ] = None,
    scope: Annotated[
        Literal["global", "project"] | None, typer.Option(help="Only entries of this scope.")
    ] = None,
    min_confidence: Annotated[
        float | None, typer.Option(metavar="X", help="Minimum confidence, 0 to 1.")
    ] = None,
    condition: Annotated[
        str | None,
        typer.Option(
            "--filter",
            metavar="JSON",
            help='Conditions on metadata and fields, such as {"field": "metadata.year", "gte": 2020}.',
        ),
    ] = None,
    created_after: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only entries created at this time or later.")
    ] = None,
    created_before: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only entries created before this time.")
    ] = None,
    updated_after: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only entries changed at this time or later.")
    ] = None,
    updated_before: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only entries last changed before this time.")
    ] = None,
    as_of: Annotated[
        str | None, typer.Option(metavar="TIME", help="Answer from what was valid at this past time.")
    ] = None,
    threshold: Annotated[float | None, typer.Option(metavar="X", help="Minimum similarity, 0 to 1.")] = None,
    superseded: Annotated[
        bool, typer.Option("--include-superseded", help="Include superseded entries.")
    ] = False,
    group_by: Annotated[
        Literal["asset"] | None,
        typer.Option(help="Show each file once, with its best passages; --limit counts files."),
    ] = None,
    facets: Annotated[
        list[str] | None,
        typer.Option(
            "--facet",
            metavar="FIELD",
            help="Count the values of a field over all matches: tags, entry_type, roles, scope, source, asset_id or"
            " metadata.KEY; may be repeated.",
        ),
    ] = None,
    cursor: Annotated[
        str | None,
        typer.Option(metavar="CURSOR", help="Continue a search of the last 24 hours where it ended."),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Explain the legs and the parts of each score.")
    ] = False,
    as_json: Annotated[
        bool,
        json_option("the response of POST /knowledge/search, {results, metadata, debug_info, facets}"),
    ] = False,
) -> None:
    """Search a tenant's knowledge, best hits first, with the legs, ranks and matched words of each hit."""
    settings = read_settings()
    wanted = {
        "query": query,
        "mode": mode,
        "limit": limit,
        "fusion": fusion,
        "rerank": rerank,
        "role": role,
        "tags": tags or None,
        "tags_match": "all" if all_tags else "any",
        "entry_type": entry_types or None,
        "source": source,
        "scope": scope,
        "min_confidence": min_confidence,
        "filter": _read_json(condition),
        "created_after": created_after,
        "created_before": created_before,
        "updated_after": updated_after,
        "updated_before": updated_before,
        "as_of": as_of,
        "similarity_threshold": threshold,
        "include_superseded": superseded,
        "group_by": group_by,
        "facets": facets or (),
        "cursor": cursor,
        # The output for people shows the ranks, too.
        "explain": explain or not as_json,
    }
    arguments = {"tenant": tenant, "query": wanted, "lines": None if as_json else {"explain": explain}}
    found = ask_or_open(
        settings, "search", arguments, lambda: _search(settings, arguments), doing="searching"
    )
    if as_json:
        print_json(found)
        return
    from app.cli.output.hits import print_lines

    print_lines(found)


async def answer(services: Services, arguments: Mapping[str, Any]) -> Any:
    """The result of a search, or the lines that show it to people. Raises KnowledgeError."""
    query, start = _read_query(arguments["query"])
    tenant = await services.tenants.find(arguments["tenant"])
    result = await services.search.search(tenant.id, query, subject=ACTOR)
    if (shown := arguments["lines"]) is None:
        return result
    from app.cli.output.hits import describe_hits

    return describe_hits(result, first=1 + start, explain=shown["explain"])


async def _search(settings: Settings, arguments: Mapping[str, Any]) -> Any:
    # An invalid query fails before the database is opened.
    _read_query(arguments["query"])
    async with open_service(settings) as services:
        return await answer(services, arguments)


def _read_query(wanted: Mapping[str, Any]) -> tuple[SearchQuery, int]:
    """The query, and the number of hits before its page. Raises InvalidInput."""
    from app.knowledge.search.journal.continuation import PageStart
    from app.knowledge.search.query import SearchQuery, read_values

    query = SearchQuery(**read_values(wanted))
    return query, 0 if query.cursor is None else PageStart.from_cursor(query.cursor).offset


def _read_json(text: str | None) -> Any:
    """The value that the text describes. Raises InvalidInput for a text that is not JSON."""
    if text is None:
        return None
    import json

    from app.errors import InvalidInput

    try:
        return json.loads(text)
    except ValueError:
        raise InvalidInput.of("filter", "must be JSON, as in the examples of the page Filters") from None
