"""The result of a tool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """The result of a tool; `structured` is plain JSON."""

    text: str
    structured: dict[str, Any]


def to_json(value: Any) -> dict[str, Any]:
    """Convert a dataclass of the services to plain JSON, as in HTTP."""
    plain: dict[str, Any] = orjson.loads(orjson.dumps(value))
    return plain
