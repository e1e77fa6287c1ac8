"""The small pages and sections that share a chunk, as `parts` of its metadata lists them."""

from collections.abc import Mapping
from typing import Any

OF_PART = frozenset({"headings", "char_start", "char_end", "page", "page_end"})
"""Metadata keys of a chunk that a hit has of the part that matched."""


def list_parts(given: object, length: int) -> list[Mapping[str, Any]]:
    """The parts of a chunk with `length` characters, from `parts` in its metadata, which an import may have spoilt."""
    parts: list[Mapping[str, Any]] = (
        [part for part in given if isinstance(part, dict)] if isinstance(given, list) else []
    )
    spans = [(part.get("start"), part.get("end")) for part in parts]
    return parts if all(type(a) is type(z) is int and 0 <= a < z <= length for a, z in spans) else []


def point_to(metadata: Mapping[str, Any], part: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata of a chunk, with the place of one of its parts."""
    kept = {name: value for name, value in metadata.items() if name not in OF_PART and name != "parts"}
    place = {name: part[name] for name in OF_PART & part.keys()}
    if type(start := metadata.get("char_start")) is int and type(lead := metadata.get("header_chars", 0)) is int:
        place |= {f"char_{edge}": start + max(0, part[edge] - lead) for edge in ("start", "end")}
    return kept | place
