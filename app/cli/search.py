"""`knowledge search`: search a tenant's knowledge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from app.cli import query
from app.cli.calls import call
from app.cli.execution import ACTOR, TenantOption, choose_target, examples, json_option
from app.cli.output.text import print_json

if TYPE_CHECKING:
    from app.cli.knowledge import Knowledge


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
    text: query.Text,
    tenant: TenantOption,
    limit: query.Limit = None,
    mode: query.Mode = "hybrid",
    fusion: query.Fusion = None,
    rerank: query.Rerank = None,
    role: query.Role = None,
    tags: query.Tags = None,
    all_tags: query.AllTags = False,
    entry_types: query.EntryTypes = None,
    source: query.Source = None,
    scope: query.Scope = None,
    min_confidence: query.MinConfidence = None,
    condition: query.Condition = None,
    created_after: query.CreatedAfter = None,
    created_before: query.CreatedBefore = None,
    updated_after: query.UpdatedAfter = None,
    updated_before: query.UpdatedBefore = None,
    as_of: Annotated[
        str | None, typer.Option(metavar="TIME", help="Answer from what was valid at this past time.")
    ] = None,
    threshold: query.Threshold = None,
    superseded: query.Superseded = False,
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
    explain: Annotated[bool, typer.Option("--explain", help="Explain the legs and the parts of each score.")] = False,
    as_json: Annotated[
        bool,
        json_option("the response of POST /knowledge/search, {results, metadata, debug_info, facets}"),
    ] = False,
) -> None:
    """Search a tenant's knowledge, best hits first, with the legs, ranks and matched words of each hit."""
    target = choose_target(tenant)
    wanted = {
        "query": text,
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
        "filter": query.read_condition(condition),
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
    arguments = {"query": wanted, "lines": None if as_json else {"explain": explain}}
    found = call(target, "search", arguments, answer, check=lambda: query.read_query(wanted), doing="searching")
    if as_json:
        print_json(found)
        return
    from app.cli.output.hits import print_lines

    print_lines(found)


async def answer(knowledge: Knowledge, arguments: Mapping[str, Any]) -> Any:
    """The result of a search, or the lines that show it to people. Raises KnowledgeError."""
    wanted, start = query.read_query(arguments["query"])
    tenant = await knowledge.tenants.find(arguments["tenant"])
    result = await knowledge.search.search(tenant.id, wanted, subject=ACTOR)
    if (shown := arguments["lines"]) is None:
        return result
    from app.cli.output.hits import describe_hits

    return describe_hits(result, first=1 + start, explain=shown["explain"])
