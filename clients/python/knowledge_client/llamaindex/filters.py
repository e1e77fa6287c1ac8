"""LlamaIndex's metadata filters in the form of the service."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from llama_index.core.vector_stores.types import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters

from knowledge_client.conditions import Condition, FilterUnsupported
from knowledge_client.llamaindex.nodes import NODE, REF_DOC_ID

COMPARED: Mapping[FilterOperator, str] = {
    FilterOperator.EQ: "eq",
    FilterOperator.NE: "ne",
    FilterOperator.GT: "gt",
    FilterOperator.GTE: "gte",
    FilterOperator.LT: "lt",
    FilterOperator.LTE: "lte",
    FilterOperator.CONTAINS: "eq",
}
"""Operators that take a text or a number; of a list in the metadata, the service compares each value."""

LISTED: Mapping[FilterOperator, Callable[[list[str], list[Any]], Condition]] = {
    FilterOperator.IN: lambda field, values: {"field": field, "in": values},
    FilterOperator.ANY: lambda field, values: {"field": field, "in": values},
    FilterOperator.NIN: lambda field, values: {"not": {"field": field, "in": values}},
    FilterOperator.ALL: lambda field, values: {"and": [{"field": field, "eq": value} for value in values]},
}
"""Operators that take a list."""

DOCUMENT = ("doc_id", "document_id", REF_DOC_ID)
"""Keys by which LlamaIndex filters on a node's document."""


def read_filters(given: MetadataFilters | None) -> Condition | None:
    """The service's `filter` for metadata filters; None if there are none. Raises FilterUnsupported."""
    return _read_group(given) if given is not None and given.filters else None


def _read_group(given: MetadataFilters) -> Condition:
    if not given.filters:
        raise FilterUnsupported("filters: filters inside filters must not be empty")
    terms = [_read_group(one) if isinstance(one, MetadataFilters) else _read_filter(one) for one in given.filters]
    if given.condition is FilterCondition.NOT:
        return {"not": terms[0] if len(terms) == 1 else {"or": terms}}
    name = "or" if given.condition is FilterCondition.OR else "and"
    return terms[0] if len(terms) == 1 else {name: terms}


def _read_filter(given: MetadataFilter) -> Condition:
    field = ["metadata", NODE, REF_DOC_ID] if given.key in DOCUMENT else ["metadata", given.key]
    operator, value = given.operator, given.value
    if operator is FilterOperator.IS_EMPTY:
        return {"or": [{"field": field, "exists": False}, {"field": field, "eq": ""}]}
    if operator in LISTED:
        if not isinstance(value, list) or not value:
            raise FilterUnsupported(f"filters: {given.key} {operator.value} needs a list with values")
        return LISTED[operator](field, value)
    if operator not in COMPARED:
        known = ", ".join(one.value for one in (*COMPARED, *LISTED, FilterOperator.IS_EMPTY))
        raise FilterUnsupported(f"filters: {operator.value} is not supported; use {known}")
    if value is None or isinstance(value, list):
        hint = "; is_empty finds missing values" if value is None else ""
        raise FilterUnsupported(f"filters: {given.key} {operator.value} needs a text or a number{hint}")
    return {"field": field, COMPARED[operator]: value}
