"""LangChain's metadata filters in the form of the service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from knowledge_client.conditions import Condition, FilterUnsupported

OPERATORS = ("$eq", "$ne", "$in", "$gt", "$gte", "$lt", "$lte", "$exists")
SUPPORTED = f"use plain values, {', '.join(OPERATORS)}, $nin, $and, $or and $not"


def read_filter(given: Any) -> Condition | None:
    """The service's `filter` for a filter of metadata; None if it has no conditions. Raises FilterUnsupported.

    A plain value is `$eq`; a plain object names keys inside the value, and of a plain list all values are required.
    """
    terms = _read_terms(given, ())
    return _join(terms) if terms else None


def _read_terms(given: Any, path: Sequence[str]) -> list[Condition]:
    if not isinstance(given, Mapping):
        raise FilterUnsupported(f"filter: must be a mapping of metadata, not {type(given).__name__}")
    terms: list[Condition] = []
    for name, value in given.items():
        if not isinstance(name, str):
            raise FilterUnsupported(f"filter: keys must be texts, not {type(name).__name__}")
        if name in ("$and", "$or") and isinstance(value, list | tuple) and value:
            parts = [_join(_read_terms(part, path)) for part in value]
            terms.append({name.removeprefix("$"): parts})
        elif name == "$not" and isinstance(value, Mapping):
            terms.append({"not": _join(_read_terms(value, path))})
        elif name.startswith("$"):
            terms.append(_read_operator(name, value, path))
        else:
            terms += _read_value(value, (*path, name))
    return terms


def _read_value(value: Any, path: Sequence[str]) -> list[Condition]:
    if isinstance(value, Mapping) and value:
        return _read_terms(value, path)
    values = value if isinstance(value, list | tuple) and value else (value,)
    return [_read_operator("$eq", each, path) for each in values]


def _read_operator(name: str, value: Any, path: Sequence[str]) -> Condition:
    if not path or name not in (*OPERATORS, "$nin"):
        raise FilterUnsupported(f"filter: {name} is not supported here; {SUPPORTED}")
    field = ["metadata", *path]
    if name in ("$in", "$nin"):
        found = {"field": field, "in": list(value) if isinstance(value, tuple | set | frozenset) else value}
        return found if name == "$in" else {"not": found}
    if isinstance(value, Mapping | list | tuple):
        raise FilterUnsupported(f"filter: {'.'.join(path)} must be compared with a text, a number, a boolean or None")
    return {"field": field, name.removeprefix("$"): value}


def _join(terms: Sequence[Condition]) -> Condition:
    if not terms:
        raise FilterUnsupported("filter: $and, $or and $not need conditions")
    return terms[0] if len(terms) == 1 else {"and": list(terms)}
