"""A search in words: the labels of its parameters, and their values as people read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from app.console.parts.entry_types import TYPES

LABELS = {
    "tags": "Tags",
    "tags_match": "Tags match",
    "role": "Audience",
    "source": "Source",
    "scope": "Scope",
    "min_confidence": "Minimum confidence",
    "entry_type": "Entry type",
    "asset_id": "Documents",
    "created_after": "Created from",
    "created_before": "Created before",
    "updated_after": "Changed from",
    "updated_before": "Changed before",
    "as_of": "As it was at (UTC)",
    "metadata": "Metadata contains",
    "filter": "Conditions",
    "include_superseded": "Include superseded entries",
    "mode": "Mode",
    "fusion": "Fusion",
    "rerank": "Reranker",
    "weights": "Weights",
    "weights.semantic": "Semantic weight",
    "weights.keyword": "Keyword weight",
    "rrf_k": "RRF constant",
    "similarity_threshold": "Minimum similarity",
    "diversity": "Diversity",
    "ef_search": "Search effort (ef_search)",
    "boost": "Boost",
    "limit": "Results per page",
    "group_by": "Group results",
    "query_embedding": "Query vector",
    "explain": "Explain each result",
}
"""The parameters of POST /knowledge/search, in the order of their form."""

VALUES: Mapping[tuple[str, str], str] = {
    **{("entry_type", entry_type): name for entry_type, name in TYPES.items()},
    ("source", "entry"): "written entries",
    ("source", "asset"): "documents",
    ("mode", "semantic"): "semantic only",
    ("mode", "keyword"): "keyword only",
    ("boost", "type"): "by type",
    ("boost", "access"): "frequently read",
    ("group_by", "asset"): "by document",
}
"""Values that people see under another name."""

UNSAID = frozenset({"query", "cursor", "explain", "facets"})
"""Parameters that a description omits: they do not change which results a search has."""


def describe_search(request: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Label and value of each parameter of a request, without its query."""
    order = list(LABELS)
    for name in sorted(request, key=lambda name: order.index(name) if name in order else len(order)):
        if name not in UNSAID and request[name] is not None:
            yield LABELS.get(name, name), _say(name, request[name])


def _say(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name == "query_embedding":
        return f"{len(value)} numbers"
    if name == "weights":
        return ", ".join(f"{leg} {value[leg]:g}" for leg in ("semantic", "keyword") if leg in value)
    if isinstance(value, dict):
        return orjson.dumps(value).decode()
    if isinstance(value, list):
        return ", ".join(_say(name, item) for item in value)
    return VALUES.get((name, str(value)), str(value))
