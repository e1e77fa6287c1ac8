"""The parameters of a search as a person fills them in: texts in a page's address, each under its API name."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol
from urllib.parse import urlencode

import orjson

from app.errors import FieldError, InvalidInput

ADDRESS = "/console"
LONGEST_ADDRESS = 2_000
"""Characters of an address that every browser, proxy and server takes; what is longer is sent as a form."""

WORDS = ("query", "mode", "fusion", "role", "scope", "source", "tags_match", "cursor")
WHOLE_NUMBERS = ("limit", "rrf_k", "ef_search")
NUMBERS = ("similarity_threshold", "min_confidence", "diversity", "weights.semantic", "weights.keyword")
FLAGS = ("include_superseded", "explain")
CHOICES = ("entry_type", "boost")
OBJECTS = ("metadata", "query_embedding")
NAMES = (*WORDS, *WHOLE_NUMBERS, *NUMBERS, *FLAGS, *CHOICES, *OBJECTS, "tags", "asset_id")
"""Every parameter of POST /knowledge/search; the two weights are fields of their own."""

LEFT_OUT = {"mode": "hybrid", "tags_match": "any", "rrf_k": "60", "diversity": "0"}
"""What means the same as nothing, and would only make an address longer."""


class Parameters(Protocol):
    """What a form or an address holds: several texts under a name."""

    def getlist(self, key: Any) -> list[Any]:
        """All texts under the name."""


# Without slots: whether it is long is kept.
@dataclass(frozen=True)
class SearchForm:
    """A filled-in search form; `values` holds the texts under each name, without those that say nothing."""

    values: Mapping[str, Sequence[str]]

    @classmethod
    def read(cls, parameters: Parameters, names: Iterable[str] = NAMES, prefix: str = "") -> SearchForm:
        """The form in an address; `prefix` stands before each of its names there."""
        found = {name: [str(v) for v in parameters.getlist(prefix + name)] for name in names}
        return cls(_tidy(found))

    @classmethod
    def of_request(cls, request: Mapping[str, Any]) -> SearchForm:
        """The form that asks for the same as a request of POST /knowledge/search."""
        values: dict[str, list[str]] = {}
        for name, value in request.items():
            if value is None or value is False:
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
        """The text in a field, empty where there is none."""
        return next(iter(self.values.get(name, ())), "")

    def has(self, name: str, value: str) -> bool:
        """Whether the value is one of those in a field."""
        return value in self.chosen(name)

    def chosen(self, name: str) -> Sequence[str]:
        """All values in a field."""
        if name == "tags":
            return read_list(self.text(name))
        if name == "asset_id":
            return re.split(r"[\s,]+", text) if (text := self.text(name).strip()) else ()
        return self.values.get(name, ())

    def put(self, name: str, *values: str) -> SearchForm:
        """The form with these values in a field, from the first page on."""
        kept = {n: v for n, v in self.values.items() if n not in (name, "cursor")}
        if name in ("tags", "asset_id"):
            values = (write_list(values),) if values else ()
        return SearchForm(_tidy({**kept, name: values}))

    def toggle(self, name: str, value: str, *, several: bool) -> SearchForm:
        """The form with the value in a field, or without it if it was there."""
        if self.has(name, value):
            return self.put(name, *(v for v in self.chosen(name) if v != value))
        return self.put(name, *(self.chosen(name) if several else ()), value)

    def pairs(self, *without: str, prefix: str = "") -> list[tuple[str, str]]:
        """Names and texts, in the order of the form, e.g. for hidden fields."""
        order = [name for name in NAMES if name in self.values and name not in without]
        return [(prefix + name, value) for name in order for value in self.values[name]]

    def address(self, path: str = ADDRESS) -> str:
        """The address of the page that shows this search."""
        pairs = self.pairs()
        return f"{path}?{urlencode(pairs)}" if pairs else path

    @cached_property
    def is_long(self) -> bool:
        """Whether the search is too long for an address; each link of a page asks for it."""
        return len(self.address()) > LONGEST_ADDRESS

    def lead_to(self, other: SearchForm) -> str:
        """The address that leads from here to another search; where this one is long, what changes on the way.

        That is for a button of a form that holds this search: what the address names stands for the form's own.
        """
        if not self.is_long:
            return other.address()
        changed = [n for n in NAMES if tuple(self.values.get(n, ())) != tuple(other.values.get(n, ()))]
        pairs = [(name, value) for name in changed for value in other.values.get(name, ("",))]
        return f"{ADDRESS}?{urlencode(pairs)}"

    def request(self) -> dict[str, Any]:
        """The request of POST /knowledge/search. What cannot be read stays a text, for the API to refuse."""
        request: dict[str, Any] = {name: self.text(name) for name in WORDS if name in self.values}
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
        """The request as it is saved: without the page that it had come to."""
        return orjson.dumps(
            {n: v for n, v in self.request().items() if n not in ("cursor", "explain")}
        ).decode()


def errors_by_field(error: InvalidInput) -> dict[str, str]:
    """What to say at each field of the form; an item of a list counts to its list."""
    found: dict[str, list[str]] = {}
    for each in error.errors:
        name = each.field if each.field in NAMES else each.field.split(".")[0]
        found.setdefault(name, []).append(_message(each))
    return {name: "; ".join(dict.fromkeys(messages)) for name, messages in found.items()}


def read_list(text: str) -> list[str]:
    """The items of a text, separated by commas; an item with a comma in it stands in double quotes."""
    rows = csv.reader(io.StringIO(text, newline=""), skipinitialspace=True)
    return [item.strip() for row in rows for item in row if item.strip()]


def write_list(items: Iterable[str]) -> str:
    """The text that `read_list` reads."""
    return ", ".join(_quoted(item) if set(item) & set(',"\r\n') else item for item in items)


def read_number(text: str, kind: type[int] | type[float]) -> int | float | str:
    """The number in a text; the text itself where it is none, for whoever checks it to refuse."""
    try:
        return kind(text)
    except ValueError:
        return text


def _quoted(item: str) -> str:
    return '"' + item.replace('"', '""') + '"'


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
    return (
        error.message
        if error.field.count(".") == 0 or error.field in NAMES
        else f"{error.field}: {error.message}"
    )
