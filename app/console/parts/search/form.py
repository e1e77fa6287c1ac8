"""The search form: parameters as texts in a page's URL, each under its API name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol
from urllib.parse import urlencode

import orjson

from app.console.parts.words import read_list, read_moment, write_list
from app.contract.search import MOMENTS
from app.errors import FieldError, InvalidInput

ADDRESS = "/console"
LONGEST_ADDRESS = 2_000
"""Length of a URL that every browser, proxy and server accepts; a longer one is sent as a form."""

WORDS = (
    *("query", "mode", "fusion", "role", "scope", "source", "tags_match", "rerank", "group_by", "cursor"),
    *MOMENTS,
)
WHOLE_NUMBERS = ("limit", "rrf_k", "ef_search")
NUMBERS = ("similarity_threshold", "min_confidence", "diversity", "weights.semantic", "weights.keyword")
FLAGS = ("include_superseded", "explain")
CHOSEN = {"true": True, "false": False}
"""The texts of a field for which omitting it is a third choice."""

CHOICES = ("entry_type", "boost", "facets")
OBJECTS = ("metadata", "filter", "query_embedding")
NAMES = (*WORDS, *WHOLE_NUMBERS, *NUMBERS, *FLAGS, *CHOICES, *OBJECTS, "tags", "asset_id")
"""All parameters of POST /knowledge/search; the two weights are separate fields."""

HARMLESS = frozenset({"query", "limit", "explain", "cursor", "group_by", "facets"})
"""Fields with which a search finds no less than without them."""

LEFT_OUT = {"mode": "hybrid", "tags_match": "any", "rrf_k": "60", "diversity": "0"}
"""Values that are equivalent to omitting the field; they would only make a URL longer."""


class Parameters(Protocol):
    """The content of a form or a URL: several texts per name."""

    def getlist(self, key: Any) -> list[Any]:
        """All texts with this name."""


# Without slots: `is_long` is cached.
@dataclass(frozen=True)
class SearchForm:
    """A filled-in search form; `values` has the texts by name, without texts that equal an omitted field."""

    values: Mapping[str, Sequence[str]]

    @classmethod
    def read(cls, parameters: Parameters, names: Iterable[str] = NAMES, prefix: str = "") -> SearchForm:
        """Read the form from a URL; `prefix` precedes each of its names."""
        found = {name: [str(v) for v in parameters.getlist(prefix + name)] for name in names}
        return cls(_tidy(found))

    @classmethod
    def of_request(cls, request: Mapping[str, Any]) -> SearchForm:
        """The form of a request of POST /knowledge/search."""
        values: dict[str, list[str]] = {}
        for name, value in request.items():
            if value is None or (value is False and name != "rerank"):
                continue
            if name == "weights":
                values |= {f"weights.{leg}": [_write(weight)] for leg, weight in value.items()}
            elif name == "tags":
                values[name] = [write_list(value)]
            elif name in OBJECTS:
                values[name] = [orjson.dumps(value).decode()]
            elif isinstance(value, list):
                values[name] = [", ".join(map(str, value))] if name == "asset_id" else [str(v) for v in value]
            else:
                values[name] = [_write(value)]
        return cls(_tidy(values))

    def text(self, name: str) -> str:
        """The text of a field, or an empty string."""
        return next(iter(self.values.get(name, ())), "")

    def has(self, name: str, value: str) -> bool:
        """Whether the field contains the value."""
        return value in self.chosen(name)

    def chosen(self, name: str) -> Sequence[str]:
        """All values in a field."""
        if name == "tags":
            return read_list(self.text(name))
        if name == "asset_id":
            return re.split(r"[\s,]+", text) if (text := self.text(name).strip()) else ()
        return self.values.get(name, ())

    def put(self, name: str, *values: str) -> SearchForm:
        """Replace the values of a field and start at the first page."""
        kept = {n: v for n, v in self.values.items() if n not in (name, "cursor")}
        if name in ("tags", "asset_id"):
            values = (write_list(values),) if values else ()
        return SearchForm(_tidy({**kept, name: values}))

    def toggle(self, name: str, value: str, *, several: bool) -> SearchForm:
        """Add the value to a field, or remove it if present."""
        if self.has(name, value):
            return self.put(name, *(v for v in self.chosen(name) if v != value))
        return self.put(name, *(self.chosen(name) if several else ()), value)

    @property
    def narrowing(self) -> Sequence[str]:
        """The names of the fields that can leave a search without results."""
        return [name for name in self.values if name not in HARMLESS]

    def widen(self) -> SearchForm:
        """The same search without these fields."""
        return SearchForm({n: v for n, v in self.values.items() if n in HARMLESS and n != "cursor"})

    def pairs(self, *without: str, prefix: str = "") -> list[tuple[str, str]]:
        """Names and texts, in the order of the form, e.g. for hidden fields."""
        order = [name for name in NAMES if name in self.values and name not in without]
        return [(prefix + name, value) for name in order for value in self.values[name]]

    def address(self, path: str = ADDRESS) -> str:
        """The URL of the page that shows this search."""
        pairs = self.pairs()
        return f"{path}?{urlencode(pairs)}" if pairs else path

    @cached_property
    def is_long(self) -> bool:
        """Whether the search is too long for a URL; every link of a page needs this."""
        return len(self.address()) > LONGEST_ADDRESS

    def lead_to(self, other: SearchForm) -> str:
        """The URL of another search; if this search is long, only the changes.

        Those are for a button of a form with this search: parameters in the URL override those of the form.
        """
        if not self.is_long:
            return other.address()
        changed = [n for n in NAMES if tuple(self.values.get(n, ())) != tuple(other.values.get(n, ()))]
        pairs = [(name, value) for name in changed for value in other.values.get(name, ("",))]
        return f"{ADDRESS}?{urlencode(pairs)}"

    def request(self) -> dict[str, Any]:
        """The request of POST /knowledge/search. Unreadable values stay texts, which the API refuses."""
        request: dict[str, Any] = {name: self.text(name) for name in WORDS if name in self.values}
        request |= {name: read_moment(request[name]) for name in MOMENTS if name in request}
        if (rerank := request.get("rerank")) in CHOSEN:
            request["rerank"] = CHOSEN[rerank]
        request |= {name: read_number(self.text(name), int) for name in WHOLE_NUMBERS if name in self.values}
        request |= {name: read_number(self.text(name), float) for name in NUMBERS if name in self.values}
        request |= {name: True for name in FLAGS if name in self.values}
        request |= {name: list(self.values[name]) for name in CHOICES if name in self.values}
        request |= {name: _json(self.text(name)) for name in OBJECTS if name in self.values}
        request |= {name: list(v) for name in ("tags", "asset_id") if (v := self.chosen(name))}
        weights = {leg: request.pop(f"weights.{leg}", None) for leg in ("semantic", "keyword")}
        if given := {leg: weight for leg, weight in weights.items() if weight is not None}:
            request["weights"] = given
        return request

    def request_json(self) -> str:
        """The request to save, without the cursor."""
        return orjson.dumps({n: v for n, v in self.request().items() if n not in ("cursor", "explain")}).decode()


def errors_by_field(error: InvalidInput) -> dict[str, str]:
    """The errors of each field of the form; an error of a list item belongs to its list."""
    found: dict[str, list[str]] = {}
    for each in error.errors:
        name = each.field if each.field in NAMES else each.field.split(".")[0]
        found.setdefault(name, []).append(_message(each))
    return {name: "; ".join(dict.fromkeys(messages)) for name, messages in found.items()}


def read_number(text: str, kind: type[int] | type[float]) -> int | float | str:
    """Parse a number; return the text itself if it is not a number, so that validation refuses it."""
    try:
        return kind(text)
    except ValueError:
        return text


def _tidy(values: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
    return {
        name: kept
        for name, given in values.items()
        if (kept := tuple(v for v in given if v.strip() and v.strip() != LEFT_OUT.get(name)))
    }


def _json(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def _write(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _message(error: FieldError) -> str:
    return error.message if error.field.count(".") == 0 or error.field in NAMES else f"{error.field}: {error.message}"
