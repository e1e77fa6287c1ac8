"""Facets: counts over all matches of a search, each a link that adds or removes a filter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.console.parts.search.form import SearchForm
from app.console.parts.search.words import VALUES
from app.knowledge.search.results import Facet as Counted

MOST_VALUES = 12
"""Maximum number of values per facet, most frequent first."""


@dataclass(frozen=True, slots=True)
class FacetValue:
    """A value: its number of matches, whether it is an active filter, and the address of its link."""

    value: str
    label: str
    count: str
    active: bool
    address: str


@dataclass(frozen=True, slots=True)
class Facet:
    """One property of entries and its values."""

    heading: str
    values: Sequence[FacetValue]


FACETS: Mapping[str, tuple[str, bool]] = {
    "entry_type": ("Type", True),
    "tags": ("Tags", True),
    "source": ("Source", False),
    "scope": ("Scope", False),
    "asset_id": ("Document", True),
}
"""Facets by filter parameter: heading, and whether it accepts several values."""


def show_facets(
    form: SearchForm, counted: Mapping[str, Counted] | None, names: Mapping[str, str]
) -> list[Facet]:
    """The facets of a search; active filters are shown even without matches, and alone on later pages.

    `names` are those of documents by id.
    """
    facets: list[Facet] = []
    for parameter, (heading, several) in FACETS.items():
        found = counted.get(parameter) if counted is not None else None
        counts = {str(value.value): value.count for value in found.values} if found is not None else {}
        least = "" if found is None or found.exact else "at least "
        chosen = form.chosen(parameter)
        frequent = [value for value in counts if value not in chosen][:MOST_VALUES]
        if chosen or len(counts) > 1 or (parameter == "tags" and counts):
            values = [
                FacetValue(
                    value,
                    names.get(value) or VALUES.get((parameter, value), value),
                    f"{least}{counts.get(value, 0)}",
                    value in chosen,
                    form.lead_to(form.toggle(parameter, value, several=several)),
                )
                for value in (*chosen, *frequent)
            ]
            facets.append(Facet(heading, values))
    return facets
