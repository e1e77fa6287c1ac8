"""What the hits have in common: counts over a page of hits, each a link that adds a filter or takes it away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from app.console.parts.search_form import SearchForm
from app.knowledge.search.results import Hit

MOST_VALUES = 12
"""Values of a facet that are shown, the most frequent first."""


@dataclass(frozen=True, slots=True)
class FacetValue:
    """A value, on how many hits it is, whether it is filtered by, and where its link leads."""

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
"""Each facet by the parameter that filters by it: heading, whether it takes several values, and a hit's values."""


def count_facets(form: SearchForm, hits: Sequence[Hit]) -> list[Facet]:
    """The facets of these hits; what is filtered by is shown even where no hit is left."""
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
