"""Limits of a tenant: the service's defaults, the platform's limits for one tenant, and the tenant's own, if lower."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from app.errors import FieldError, InvalidInput

GREATEST = 10**15
"""Within the integers that all JSON parsers represent exactly."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one tenant; 0 means unlimited.

    Attributes:
        requests_per_minute: requests over HTTP and MCP in each instance; a burst can use all of them at once.
        concurrent_searches: simultaneous searches in each instance; further ones wait briefly for their turn.
        entries: stored entries, including chunks.
        bytes: bytes of uploaded files, plus one for each character of entries' text (two for a title's).
        receipts: records of searches; the oldest are removed.
        embedding_tokens_per_day: tokens of texts and queries, with four bytes of text per token; days are in UTC.
    """

    requests_per_minute: int = 0
    concurrent_searches: int = 0
    entries: int = 0
    bytes: int = 0
    receipts: int = 0
    embedding_tokens_per_day: int = 0

    def replaced(self, given: Mapping[str, int]) -> Limits:
        """These limits, overridden by the platform's limits for one tenant."""
        known = {name: value for name, value in given.items() if name in NAMES}
        return Limits(**{**asdict(self), **known})

    def lowered(self, own: Mapping[str, int | None]) -> Limits:
        """These limits, overridden by the tenant's own where those are lower; a tenant cannot raise a limit."""
        lowest = {
            name: min(value, getattr(self, name) or value)
            for name, value in own.items()
            if name in NAMES and value
        }
        return Limits(**{**asdict(self), **lowest})

    def as_mapping(self) -> dict[str, int]:
        """The limits by name."""
        return asdict(self)


NAMES = tuple(f.name for f in fields(Limits))


def check_limits(given: Any, least: int, prefix: str = "limits") -> list[FieldError]:
    """Return what is wrong with given limits; None, which removes a limit, is valid."""
    if not isinstance(given, Mapping):
        return [FieldError(prefix, "must be an object")]
    errors: list[FieldError] = []
    for name, value in given.items():
        if name not in NAMES:
            errors.append(FieldError(f"{prefix}.{name}", f"unknown; allowed are {', '.join(NAMES)}"))
        elif value is not None and (type(value) is not int or not least <= value <= GREATEST):
            errors.append(
                FieldError(f"{prefix}.{name}", f"must be an integer between {least} and {GREATEST}")
            )
    return errors


def require_lower(own: Mapping[str, Any], allowed: Limits) -> None:
    """Raise InvalidInput for a tenant's own limits that exceed the platform's."""
    errors = [
        FieldError(f"limits.{name}", f"must be at most {most}, the platform's limit for this tenant")
        for name, value in own.items()
        if value is not None and 0 < (most := getattr(allowed, name)) < value
    ]
    if errors:
        raise InvalidInput(errors)
