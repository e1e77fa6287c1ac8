"""`knowledge why-not`: explain why an entry is not among the results of a search."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli import fields, query
from app.cli.calls import call
from app.cli.execution import TenantOption, choose_target, examples, json_option
from app.cli.output.text import make_printable, print_json

if TYPE_CHECKING:
    from app.cli.knowledge import Knowledge


def register(app: typer.Typer) -> None:
    """Add the command `why-not`."""
    app.command(
        "why-not",
        short_help="Explain why a search does not find an entry.",
        epilog=examples(
            'knowledge why-not 0198c5a2-6c1e-7d7e-9b3c-0a4f6f2f3b11 "route order" --tenant demo',
            'knowledge why-not incident-12 "error after deploy" -t demo --mode semantic --limit 5 --tag deploy',
        ),
    )(why_not)


def why_not(
    entry: fields.EntryId,
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
    threshold: query.Threshold = None,
    superseded: query.Superseded = False,
    as_json: Annotated[
        bool, json_option("the response of POST /knowledge/search/why-not, {in_results, rank, reasons, …}")
    ] = False,
) -> None:
    """Explain why a search with these options does not find an entry: the filter, the leg, the threshold or the cut
    that excludes it.
    """
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
        "similarity_threshold": threshold,
        "include_superseded": superseded,
    }
    arguments = {"entry": entry, "query": wanted}
    found = call(target, "why-not", arguments, answer, check=lambda: query.read_query(wanted), doing="searching")
    if as_json:
        print_json(found)
        return
    rank = "" if found["rank"] is None else f", rank {found['rank']}"
    typer.echo(f"{'among the results' if found['in_results'] else 'not among the results'}{rank}")
    for reason in found["reasons"]:
        typer.echo(f"  {reason['stage']}: {make_printable(reason['detail'])}")


async def answer(knowledge: Knowledge, arguments: Mapping[str, Any]) -> Any:
    """The explanation. Raises KnowledgeError."""
    from app.contract.search import read_entry_key

    wanted, _ = query.read_query(arguments["query"])
    tenant = await knowledge.tenants.find(arguments["tenant"])
    return await knowledge.search.why_not(tenant.id, read_entry_key(arguments["entry"]), wanted)
