"""Facets: counts over a page of hits, each a link that adds or removes a filter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from app.console.parts.search_form import SearchForm
from app.knowledge.search.results import Hit

MOST_VALUES = 12
"""Maximum number of values per facet, most frequent first."""


@dataclass(frozen=True, slots=True)
class FacetValue:
    """A value: its number of hits, whether it is an active filter, and the address of its link."""

    value: str
    label: str
    count: int
    active: bool
    address: str


@dataclass(frozen=True, slots=True)
class Facet:
    """One property of entries and its values."""

    heading: str
    values: Sequence[FacetValue]


def _source(hit: Hit) -> Iterable[str]:
    return ("entry" if hit.asset_id is None else "asset",)


FACETS: Mapping[str, tuple[str, bool, Callable[[Hit], Iterable[str]]]] = {
    "entry_type": ("Type", True, lambda hit: (hit.entry_type,)),
    "tags": ("Tags", True, lambda hit: hit.tags),
    "source": ("Source", False, _source),
    "scope": ("Scope", False, lambda hit: (hit.scope,)),
    "asset_id": ("Document", True, lambda hit: (str(hit.asset_id),) if hit.asset_id else ()),
}
"""Facets by filter parameter: heading, whether it accepts several values, and the values of a hit."""


def count_facets(form: SearchForm, hits: Sequence[Hit]) -> list[Facet]:
    """Count the facets of these hits; active filters are shown even without hits."""
    names = {str(hit.asset_id): hit.asset_name or "" for hit in hits if hit.asset_id}
    facets: list[Facet] = []
    for parameter, (heading, several, values_of) in FACETS.items():
        counts = Counter(value for hit in hits for value in dict.fromkeys(values_of(hit)))
        chosen = form.chosen(parameter)
        frequent = [value for value, _ in counts.most_common(MOST_VALUES) if value not in chosen]
        if chosen or len(counts) > 1 or (parameter == "tags" and counts):
            values = [
                FacetValue(
                    value,
                    names.get(value, value),
                    counts[value],
                    value in chosen,
                    form.lead_to(form.toggle(parameter, value, several=several)),
                )
                for value in (*chosen, *frequent)
            ]
            facets.append(Facet(heading, values))
    return facets
