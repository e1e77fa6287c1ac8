"""What a tenant may use: the service's defaults, the platform's word on one tenant, and the tenant's own, if lower."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from app.errors import FieldError, InvalidInput

GREATEST = 10**15
"""Well inside of what JSON's readers keep exact."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one tenant; 0 is no limit.

    Attributes:
        requests_per_minute: over HTTP and MCP, in each process of the service; as many may come at once.
        concurrent_searches: under way at the same time, in each process; others wait a moment for their turn.
        entries: stored, chunks of documents included.
        bytes: of uploaded files, and one for each character of entries' text (a title's count twice).
        embedding_tokens_per_day: of texts and queries, a token being four bytes of text; a day is one of UTC.
    """

    requests_per_minute: int = 0
    concurrent_searches: int = 0
    entries: int = 0
    bytes: int = 0
    embedding_tokens_per_day: int = 0

    def replaced(self, given: Mapping[str, int]) -> Limits:
        """With the platform's limits for one tenant in the place of these."""
        known = {name: value for name, value in given.items() if name in NAMES}
        return Limits(**{**asdict(self), **known})

    def lowered(self, own: Mapping[str, int | None]) -> Limits:
        """With the tenant's own limits where they are lower: a tenant cannot lift what the platform set."""
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
    """What is wrong with limits that somebody gives; None takes one back."""
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
    """Raise InvalidInput for limits of a tenant's own that are above what the platform allows it."""
    errors = [
        FieldError(f"limits.{name}", f"must be at most {most}, the platform's limit for this tenant")
        for name, value in own.items()
        if value is not None and 0 < (most := getattr(allowed, name)) < value
    ]
    if errors:
        raise InvalidInput(errors)
