"""The form of the service's `filter`, for the classes of frameworks: they translate their own filters to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from knowledge_client.errors import KnowledgeError

Condition: TypeAlias = dict[str, Any]


class FilterUnsupported(KnowledgeError, ValueError):
    """A filter that the service cannot apply."""


def holds(condition: Mapping[str, Any], metadata: Mapping[str, Any]) -> bool:
    """Whether metadata fulfil a condition on metadata, by the rules of the service's searches.

    For entries that were listed: lists have no filter.
    """
    if "and" in condition:
        return all(holds(inner, metadata) for inner in condition["and"])
    if "or" in condition:
        return any(holds(inner, metadata) for inner in condition["or"])
    if "not" in condition:
        return not holds(condition["not"], metadata)
    values = list(_find_values(metadata, condition["field"][1:]))
    return all(_passes(name, given, values) for name, given in condition.items() if name != "field")


def _find_values(value: Any, path: Sequence[str]) -> Iterator[Any]:
    """The values at a path; of a list, each of its values."""
    inner = value if isinstance(value, list) else [value]
    if not path:
        yield from inner
        return
    for each in inner:
        if isinstance(each, Mapping) and path[0] in each:
            yield from _find_values(each[path[0]], path[1:])


def _passes(name: str, given: Any, values: Sequence[Any]) -> bool:
    if name == "exists":
        return any(value is not None for value in values) is given
    if name == "ne":
        return not any(_equal(value, given) for value in values)
    if name == "in":
        return any(_equal(value, one) for value in values for one in given)
    if name == "eq":
        return any(_equal(value, given) for value in values)
    return any(_in_order(name, value, given) for value in values)


def _equal(value: Any, given: Any) -> bool:
    return _kind(value) is _kind(given) and bool(value == given)


def _in_order(name: str, value: Any, given: Any) -> bool:
    if _kind(value) is not _kind(given):
        return False
    return bool({"gt": value > given, "gte": value >= given, "lt": value < given, "lte": value <= given}[name])


def _kind(value: Any) -> type:
    return float if isinstance(value, int | float) and not isinstance(value, bool) else type(value)
