"""Options of commands. Those of the fields of requests are made of the contract, and may have words of their own here.

`request_fields.json` has the fields of the contract, and `make golden` writes it. A field that is not named here gets
an option with the name, the values, the bounds and the first sentence of the contract.
"""

from __future__ import annotations

import functools
import inspect
import json
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple
from uuid import UUID

import typer

from app.contract.vocabulary import MAX_LIMIT
from app.errors import EntryNotFound, InvalidInput

if TYPE_CHECKING:
    from app.cli.door import Door
    from app.contract.validation import Unset

MAX_TEXT = 400_000
"""Bytes that are read from standard input: more than the longest entry of 100,000 characters has."""

EntryId = Annotated[str, typer.Argument(metavar="ID", help="The id of the entry, or its external id.")]
Query = Annotated[str, typer.Argument(metavar="QUERY", help="The query.")]
Given = dict[str, Any]
"""The fields of a request that the options of a command give, as JSON has them."""


class Own(NamedTuple):
    """What an option of a field has of its own. With `sets`, it is a flag that gives the field this value."""

    flags: tuple[str, ...] = ()
    help: str | None = None
    metavar: str | None = None
    sets: object = None


READERS = Own(
    ("--reader",),
    "Who may read it: group:NAME or user:SUB, may be repeated; all: all readers of the tenant.",
    "PRINCIPAL",
)
WRITERS = Own(
    ("--writer",), "Who of them may change it, in the same form; all: all creators of the tenant.", "PRINCIPAL"
)
OWN: Mapping[str, Mapping[str, Own]] = {
    "search": {
        "limit": Own(("--limit", "-n"), f"Number of hits, 1 to {MAX_LIMIT}."),
        "rerank": Own(help="Whether the reranker orders the first hits."),
        "tags": Own(("--tag",), "Only entries with this tag; may be repeated.", "TAG"),
        "tags_match": Own(("--all-tags",), "Require all tags.", sets="all"),
        "entry_type": Own(("--type",), "Only entries of this type; may be repeated.", "TYPE"),
        "min_confidence": Own(help="Minimum confidence, {bounds}."),
        "scope": Own(help="Only entries of this scope."),
        "filter": Own(help='Conditions on metadata and fields, such as {"field": "metadata.year", "gte": 2020}.'),
        "as_of": Own(help="Answer from what was valid at this past time."),
        "similarity_threshold": Own(("--threshold",), "Minimum similarity, {bounds}."),
        "include_superseded": Own(help="Include superseded entries.", sets=True),
        "duplicates": Own(help="Entries that differ only in numbers and dates: as one hit (fold, the default) or all."),
        "group_by": Own(help="Show each file once, with its best passages; --limit counts files."),
        "facets": Own(
            ("--facet",),
            "Count the values of a field over all matches: tags, entry_type, roles, scope, source, asset_id or"
            " metadata.KEY; may be repeated.",
            "FIELD",
        ),
        "boost": Own(help="Rank entries higher by {values}; may be repeated.", metavar="BOOST"),
        "asset_id": Own(("--asset",), "Only this uploaded file."),
        "metadata": Own(help='Only entries with these values, such as {"year": 2020}.'),
        "cursor": Own(help="Continue a search of the last 24 hours where it ended.", metavar="CURSOR"),
    },
    "entry": {
        "content": Own(help="The new text; `-` reads standard input.", metavar="TEXT"),
        "entry_type": Own(("--type",), "{values}.", "TYPE"),
        "tags": Own(("--tag",), "A tag; may be repeated.", "TAG"),
        "roles": Own(("--role",), "Audience: {values}; may be repeated.", "ROLE"),
        "parent_id": Own(("--parent",)),
        "source_ids": Own(("--source-id",)),
        "language": Own(help="The language, such as english; otherwise detected.", metavar="NAME"),
        "superseded_by_id": Own(("--superseded-by",)),
        "is_verified": Own(("--verified/--not-verified",)),
        "readers": READERS,
        "writers": WRITERS,
    },
}
LEFT_OUT = {
    "query",  # an argument
    "explain",  # also chooses the output
    *("weights", "rrf_k", "ef_search", "query_embedding", "diversity"),
}
"""Fields of a search that commands do not offer."""

KINDS: Mapping[str, tuple[Any, str | None]] = {
    "string": (str, None),
    "integer": (int, "N"),
    "number": (float, "X"),
    "boolean": (bool, None),
    "uuid": (UUID, "ID"),
    "date-time": (str, "TIME"),
    "object": (str, "JSON"),
}
"""The Python type and the placeholder of an option."""

Readers = Annotated[list[str] | None, typer.Option(*READERS.flags, metavar=READERS.metavar, help=READERS.help)]
Writers = Annotated[list[str] | None, typer.Option(*WRITERS.flags, metavar=WRITERS.metavar, help=WRITERS.help)]


@functools.cache
def _fields() -> dict[str, dict[str, dict[str, Any]]]:
    found: dict[str, dict[str, dict[str, Any]]] = json.loads(
        Path(__file__).with_name("request_fields.json").read_text("utf-8")
    )
    return found


def takes(
    kind: Literal["search", "entry"], only: Collection[str] | None = None, *, without: Collection[str] = LEFT_OUT
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of a request's fields in the place of its parameter `given`, which gets their values.

    `only` some fields have options, or all `without` some.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        names = [n for n in _fields()[kind] if (n in only if only is not None else n not in without)]
        options = [_make_option(name, _fields()[kind][name], OWN[kind].get(name, Own())) for name in names]

        @functools.wraps(command)
        def run(**values: Any) -> None:
            given = {name: values.pop(name) for name in names}
            command(**values, given=_read(kind, given))

        signature = inspect.signature(command, eval_str=True)
        parameters: list[inspect.Parameter] = []
        for each in signature.parameters.values():
            parameters += options if each.name == "given" else [each]
        placed = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
        run.__signature__ = signature.replace(parameters=placed)  # type: ignore[attr-defined]  # inspect reads it
        run.__annotations__ = {each.name: each.annotation for each in placed}
        return run

    return decorate


def _make_option(name: str, field: Mapping[str, Any], own: Own) -> inspect.Parameter:
    python: Any
    python, metavar = KINDS[field["type"]]
    if "values" in field and own.metavar is None:
        python = Literal[tuple(field["values"])]
    flags = own.flags or (f"--{name.replace('_', '-')}",)
    kind: Any
    default: Any = None
    if own.sets is not None:
        kind, default = bool, False
    else:
        kind = list[python] | None if field.get("repeated") else python | None
        if python is bool and "/" not in flags[0]:
            flags = (f"{flags[0]}/--no-{flags[0][2:]}",)
    option = typer.Option(*flags, metavar=own.metavar or metavar, help=_describe(field, own), show_default=False)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option])


def _describe(field: Mapping[str, Any], own: Own) -> str:
    """The help of an option: its own, or the contract's first sentence."""
    if own.help is None:
        first, _, _ = str(field.get("text", "")).partition(". ")
        return first.rstrip(".") + ("; may be repeated." if field.get("repeated") else ".")
    *others, last = field.get("values", [""])
    values = f"{', '.join(others)} or {last}" if others else last
    return own.help.replace("{values}", values).replace("{bounds}", f"{field.get('least')} to {field.get('most')}")


def _read(kind: str, options: Mapping[str, Any]) -> Given:
    """The fields that the options give. Raises InvalidInput for a text that is not JSON."""
    given: Given = {}
    for name, value in options.items():
        field, own = _fields()[kind][name], OWN[kind].get(name, Own())
        if value is None or (own.sets is not None and not value) or (field.get("repeated") and not value):
            continue
        if own.sets is not None:
            given[name] = own.sets
        elif field["type"] == "object":
            given[name] = _parse(name, value)
        elif name in ("readers", "writers") and value == ["all"]:
            given[name] = None
        elif isinstance(value, list):
            given[name] = [str(item) if isinstance(item, UUID) else item for item in value]
        else:
            given[name] = str(value) if isinstance(value, UUID) else value
    return given


def _parse(name: str, text: str) -> Any:
    rule = "must be a JSON object" if name == "metadata" else "must be JSON, as in the examples of the page Filters"
    try:
        return json.loads(text)
    except ValueError:
        raise InvalidInput.of(name, rule) from None


def read_principals(given: list[str] | None) -> Sequence[str] | Unset | None:
    """The list of an option: unset without one, None for `all`."""
    from app.contract.validation import UNSET

    if not given:
        return UNSET
    return None if given == ["all"] else given


def read_text(given: str) -> str:
    """The text of an argument; `-` means standard input. Raises InvalidInput."""
    if given != "-":
        return given
    data = sys.stdin.buffer.read(MAX_TEXT + 1)
    if len(data) > MAX_TEXT:
        raise InvalidInput.of("content", f"standard input has more than {MAX_TEXT} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise InvalidInput.of("content", "standard input must be UTF-8 text") from None


def find_entry_id(door: Door, given: str) -> UUID:
    """The id of an entry that is given by its id or its external id. Raises EntryNotFound."""
    try:
        return UUID(given)
    except ValueError:
        pass
    from knowledge_client import entries

    if (found := door.run(entries.find_entry(given))) is None:
        raise EntryNotFound("there is no entry with this id")
    return found.id


def read_asset_id(given: str) -> UUID:
    """The id of an asset. Raises InvalidInput for a text that is not a UUID."""
    try:
        return UUID(given)
    except ValueError:
        raise InvalidInput.of("ID", "must be the UUID of an asset; knowledge list --assets shows them") from None
