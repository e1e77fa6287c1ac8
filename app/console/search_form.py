"""The search form: parameters as texts in a page's URL, each under its API name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import urlencode

import orjson

from app.console.forms import Form, Input, Parameters, inputs_of, show_form
from app.contract.search import SearchQuery

ADDRESS = "/console"
LONGEST_ADDRESS = 2_000
"""Length of a URL that every browser, proxy and server accepts; a longer one is sent as a form."""

INPUTS: Mapping[str, Input] = inputs_of(SearchQuery)

RANKING = (
    "mode", "fusion", "rerank", "weights.semantic", "weights.keyword", "rrf_k", "similarity_threshold", "diversity",
    "ef_search", "boost", "recent_half_life_days",
)  # fmt: skip
"""Parameters of the ranking, which each side of a comparison has for itself."""

PAGES = ("cursor", "explain", "duplicates", "group_by", "facets")
"""Parameters that change how the results are shown."""

FILTERS = tuple(n for n in INPUTS if n not in (*RANKING, *PAGES, "query", "limit", "query_embedding"))

HARMLESS = frozenset({"query", "limit", *PAGES})
"""Fields with which a search finds no less than without them."""


# Without slots: `is_long` is cached.
@dataclass(frozen=True)
class SearchForm(Form):
    """A filled-in search form; `values` has the texts by name, without texts that equal an omitted field."""

    kind: type = SearchQuery

    @classmethod
    def read(cls, parameters: Parameters, names: Iterable[str] = tuple(INPUTS), prefix: str = "") -> SearchForm:
        """Read the form from a URL; `prefix` precedes each of its names."""
        found = {n: [v for v in parameters.getlist(prefix + n) if isinstance(v, str)] for n in names}
        return cls(_tidy({name: INPUTS[name].clean(texts) for name, texts in found.items() if texts}))

    @classmethod
    def of_request(cls, request: Mapping[str, Any]) -> SearchForm:
        """The form of a request of POST /knowledge/search."""
        return cls(_tidy(show_form(SearchQuery, request, dump=_compact).values))

    def put(self, name: str, *values: str) -> SearchForm:
        """Replace the values of a field and start at the first page."""
        kept = {n: v for n, v in self.values.items() if n not in (name, "cursor")}
        texts = INPUTS[name].write(values) if INPUTS[name].kind in ("list", "ids") else values
        return SearchForm(_tidy({**kept, name: texts}))

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
        changed = [n for n in INPUTS if tuple(self.values.get(n, ())) != tuple(other.values.get(n, ()))]
        pairs = [(name, value) for name in changed for value in other.values.get(name, ("",))]
        return f"{ADDRESS}?{urlencode(pairs)}"

    def request(self) -> dict[str, Any]:
        """The request of POST /knowledge/search. Raises InvalidInput."""
        return self.changes(EMPTY)

    def request_json(self) -> str:
        """The request to save, without the cursor."""
        return _compact({n: v for n, v in self.request().items() if n not in ("cursor", "explain")})


EMPTY = Form(dict.fromkeys(INPUTS, ()), SearchQuery)

UNSAID = frozenset({"query", "cursor", "explain", "facets"})
"""Parameters that a description omits: they do not change which results a search has."""


def describe_search(request: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Label and value of each parameter of a request, without its query."""
    form = SearchForm.of_request(request)
    for name, field in INPUTS.items():
        if name in form.values and name not in UNSAID:
            vector = request.get(name) if name == "query_embedding" else None
            if vector is True:  # of a receipt, which does not have it
                yield field.label, "given"
            else:
                yield field.label, f"{len(vector)} numbers" if vector else field.say(form.values[name])


def _tidy(values: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
    return {
        name: kept
        for name, given in values.items()
        if (kept := tuple(v for v in given if v.strip() and v.strip() != INPUTS[name].default))
    }


def _compact(value: Any) -> str:
    return orjson.dumps(value).decode()
