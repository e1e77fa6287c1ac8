"""`knowledge search`, `why-not` and `related`: search a tenant's knowledge, and explain the results."""

from typing import Annotated

import typer

from app.cli import options
from app.cli.door import open_door
from app.cli.execution import TenantOption, choose_target, json_option, program
from app.cli.output.text import flatten, make_console, make_printable, make_text, print_json
from knowledge_client import searches


@program.add(
    'knowledge search "how do I order routes" --tenant demo',
    'knowledge search "Backup der Datenbank" -t demo --mode keyword --tag backup --limit 3',
    """knowledge search "restore" -t demo --filter '{"field": "metadata.year", "gte": 2020}'""",
    'knowledge search "error after deploy" -t demo --explain',
    'knowledge search "error after deploy" -t demo --group-by asset --facet tags',
    'knowledge search "error after deploy" -t demo --json',
)
@options.takes("search")
def search(
    text: options.Query,
    tenant: TenantOption,
    given: options.Given,
    explain: Annotated[bool, typer.Option("--explain", help="Explain the legs and the parts of each score.")] = False,
    as_json: Annotated[
        bool, json_option("the response of POST /knowledge/search, {results, metadata, debug_info, facets}")
    ] = False,
) -> None:
    """Search a tenant's knowledge, best hits first, with the legs, ranks and matched words of each hit."""
    target = choose_target(tenant)
    # The output for people shows the ranks, too.
    wanted = given | {"explain": explain or not as_json}
    with open_door(target, doing="searching") as door:
        if as_json:
            door.fetch(searches.search(text, **wanted))
        else:
            result = door.run(searches.search(text, **wanted))
    if as_json:
        print_json(door.answer)
        return
    from app.cli.output.hits import print_hits

    print_hits(result, door.read_answer()["debug_info"], explain=explain)


@program.add(
    'knowledge why-not 0198c5a2-6c1e-7d7e-9b3c-0a4f6f2f3b11 "route order" --tenant demo',
    'knowledge why-not incident-12 "error after deploy" -t demo --mode semantic --limit 5 --tag deploy',
    name="why-not",
)
@options.takes("search", without={*options.LEFT_OUT, "as_of", "group_by", "facets", "cursor"})
def why_not(
    entry: options.EntryId,
    text: options.Query,
    tenant: TenantOption,
    given: options.Given,
    as_json: Annotated[
        bool, json_option("the response of POST /knowledge/search/why-not, {in_results, rank, reasons, …}")
    ] = False,
) -> None:
    """Explain why a search with these options does not find an entry: the filter, the leg, the threshold or the cut
    that excludes it.
    """
    target = choose_target(tenant)
    with open_door(target, doing="searching") as door:
        found = door.run(searches.why_not(entry, text, **given))
    if as_json:
        print_json(door.answer)
        return
    rank = "" if found.rank is None else f", rank {found.rank}"
    typer.echo(f"{'among the results' if found.in_results else 'not among the results'}{rank}")
    for reason in found.reasons:
        typer.echo(f"  {reason.stage}: {make_printable(reason.detail)}")


@program.add(
    "knowledge related 0198c5a2-6c1e-7d7e-9b3c-0a4f6f2f3b11 --tenant demo",
    "knowledge related incident-12 -t demo --limit 20 --json",
)
def related(
    entry: options.EntryId,
    tenant: TenantOption,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", help="Maximum number of entries, 1 to 20.")] = 5,
    as_json: Annotated[
        bool, json_option("the response of GET /knowledge/entries/{id}/related, {results, metadata}")
    ] = False,
) -> None:
    """Show the entries related to an entry: its parent, siblings and children, its sources, entries
    derived from it, and those that share two or more tags.
    """
    with open_door(choose_target(tenant), doing="reading relations") as door:
        found = door.run(searches.related(options.find_entry_id(door, entry), limit=limit))
    if as_json:
        print_json(door.answer)
        return
    console = make_console()
    if not found:
        console.print("there are no related entries")
    for item in found:
        shared = f" ({item.overlap_count} shared tags)" if item.overlap_count else ""
        console.print(make_text((flatten(item.title or item.content, 80), "bold")))
        kind = f" · {item.entry_type} · {item.id}"
        console.print(make_text((f"   {item.relationship}{shared}", "cyan"), (kind, "dim")))
        console.print(make_text((f"   {flatten(item.content, 160)}\n", "")))
