"""The query parameters of a route: others are refused, as unknown fields of a body are."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from difflib import get_close_matches

from fastapi.dependencies.utils import get_flat_params
from fastapi.params import Query
from fastapi.routing import APIRoute

from app.errors import FieldError, InvalidInput

MAX_SHOWN = 100
"""Characters of an unknown name that the problem repeats."""


def query_names(route: APIRoute) -> frozenset[str]:
    """The names that the route and its dependencies read."""
    fields = get_flat_params(route.dependant)
    return frozenset(field.alias for field in fields if isinstance(field.field_info, Query))


def refuse_unknown(given: Collection[str], allowed: frozenset[str]) -> None:
    """Raise InvalidInput with each name that is not allowed, and the allowed one that is most like it."""
    if unknown := sorted(set(given) - allowed):
        raise InvalidInput(list(_errors(unknown, allowed)))


def _errors(unknown: Collection[str], allowed: frozenset[str]) -> Iterator[FieldError]:
    listed = f"must be one of {', '.join(sorted(allowed))}" if allowed else "the path has no query parameters"
    for name in unknown:
        close = get_close_matches(name.lower()[:MAX_SHOWN], sorted(allowed), n=1)
        advice = f"did you mean {close[0]}? " if close else ""
        yield FieldError(name[:MAX_SHOWN], f"unknown query parameter; {advice}{listed}")
