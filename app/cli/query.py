"""The options for the query and the filters of a search."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.contract import vocabulary
from app.errors import InvalidInput

if TYPE_CHECKING:
    from app.contract.search import SearchQuery

Text = Annotated[str, typer.Argument(metavar="QUERY", help="The query.")]
Limit = Annotated[
    int | None,
    typer.Option(
        "--limit", "-n", metavar="N", help=f"Number of hits, 1 to {vocabulary.MAX_LIMIT}.", show_default=False
    ),
]
Mode = Annotated[vocabulary.Mode, typer.Option(help="The legs to run.")]
Fusion = Annotated[vocabulary.Fusion | None, typer.Option(help="The fusion of the legs.")]
Rerank = Annotated[
    bool | None,
    typer.Option("--rerank/--no-rerank", help="Whether the reranker orders the first hits.", show_default=False),
]
Role = Annotated[vocabulary.Audience | None, typer.Option(help="Only entries for this role or for all.")]
Tags = Annotated[
    list[str] | None,
    typer.Option("--tag", metavar="TAG", help="Only entries with this tag; may be repeated."),
]
AllTags = Annotated[bool, typer.Option("--all-tags", help="Require all tags.")]
EntryTypes = Annotated[
    list[str] | None,
    typer.Option("--type", metavar="TYPE", help="Only entries of this type; may be repeated."),
]
Source = Annotated[vocabulary.Source | None, typer.Option(help="Only written entries, or only chunks of files.")]
Scope = Annotated[vocabulary.Scope | None, typer.Option(help="Only entries of this scope.")]
MinConfidence = Annotated[float | None, typer.Option(metavar="X", help="Minimum confidence, 0 to 1.")]
Condition = Annotated[
    str | None,
    typer.Option(
        "--filter",
        metavar="JSON",
        help='Conditions on metadata and fields, such as {"field": "metadata.year", "gte": 2020}.',
    ),
]
CreatedAfter = Annotated[str | None, typer.Option(metavar="TIME", help="Only entries created at this time or later.")]
CreatedBefore = Annotated[str | None, typer.Option(metavar="TIME", help="Only entries created before this time.")]
UpdatedAfter = Annotated[str | None, typer.Option(metavar="TIME", help="Only entries changed at this time or later.")]
UpdatedBefore = Annotated[str | None, typer.Option(metavar="TIME", help="Only entries last changed before this time.")]
Threshold = Annotated[float | None, typer.Option(metavar="X", help="Minimum similarity, 0 to 1.")]
Superseded = Annotated[bool, typer.Option("--include-superseded", help="Include superseded entries.")]


def read_query(wanted: Mapping[str, Any]) -> tuple[SearchQuery, int]:
    """The query, and the number of hits before its page. Raises InvalidInput."""
    from app.contract.search import SearchQuery
    from app.contract.validation import validate
    from app.knowledge.search.receipts import PageStart

    query = validate(SearchQuery, wanted)
    return query, 0 if query.cursor is None else PageStart.from_cursor(query.cursor).offset


def read_condition(text: str | None) -> Any:
    """The filter that the text describes. Raises InvalidInput for a text that is not JSON."""
    if text is None:
        return None
    try:
        return json.loads(text)
    except ValueError:
        raise InvalidInput.of("filter", "must be JSON, as in the examples of the page Filters") from None
