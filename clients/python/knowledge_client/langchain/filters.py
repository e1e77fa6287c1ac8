"""LangChain's metadata filters, as far as the service can apply them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from knowledge_client.errors import KnowledgeError


class FilterUnsupported(KnowledgeError, ValueError):
    """A filter that the service cannot apply."""


def read_filter(given: Any) -> dict[str, Any]:
    """The metadata that an entry must contain: plain values, `$eq`, and `$and` of these. Raises FilterUnsupported."""
    if not isinstance(given, Mapping):
        raise FilterUnsupported(f"filter: must be a mapping of metadata, not {type(given).__name__}")
    wanted: dict[str, Any] = {}
    for name, value in given.items():
        if name == "$and" and isinstance(value, list | tuple):
            parts = [read_filter(part) for part in value]
        elif isinstance(name, str) and name.startswith("$"):
            raise _refuse(name)
        else:
            parts = [{name: _read_value(value)}]
        for part in parts:
            for field, required in part.items():
                if wanted.setdefault(field, required) != required:
                    raise FilterUnsupported(f"filter: {field} has two values, which no entry has")
    return wanted


def _read_value(value: Any) -> Any:
    if isinstance(value, Mapping) and any(isinstance(name, str) and name.startswith("$") for name in value):
        if set(value) != {"$eq"}:
            raise _refuse(next(name for name in value if name != "$eq"))
        return value["$eq"]
    return value


def _refuse(operator: Any) -> FilterUnsupported:
    return FilterUnsupported(f"filter: {operator} is not supported; use plain values, $eq, or $and of these")
