"""The two sides of a comparison: what each has for itself, what they share, and the address that holds both."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode

from app.console.parts.search.form import NAMES, SearchForm

COMPARE_ADDRESS = "/console/compare"
SIDES = ("a", "b")
SETTINGS = (
    "mode", "fusion", "weights.semantic", "weights.keyword", "rrf_k", "similarity_threshold", "boost", "diversity",
    "ef_search", "rerank",
)  # fmt: skip
"""What each side has for itself."""

SHARED = tuple(name for name in NAMES if name not in (*SETTINGS, "cursor", "explain", "group_by", "facets"))


def compare_with(form: SearchForm) -> dict[str, SearchForm]:
    """Sides to begin with: a search's own settings, and the same with the other fusion."""
    own = {name: values for name, values in form.values.items() if name in SETTINGS}
    fusion = form.text("fusion") or "score"
    other = "rrf" if fusion == "score" else "score"
    return {"a": SearchForm({**own, "fusion": (fusion,)}), "b": SearchForm({**own, "fusion": (other,)})}


def comparison_address(shared: SearchForm, sides: Mapping[str, SearchForm]) -> str:
    """The address of the comparison; without what is shared where that is long and stands in a form."""
    own = () if shared.is_long else shared.pairs()
    pairs = [(name, value) for name, value in own if name in SHARED]
    for side, form in sides.items():
        pairs += form.pairs(prefix=f"{side}.")
    return f"{COMPARE_ADDRESS}?{urlencode(pairs)}"
