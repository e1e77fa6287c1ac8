"""Compile filters from their JSON form to SQL/JSON paths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from app.contract.filters import FIELDS, FieldPath, Group, Negation, Term, Test
from app.db.queries.search import Condition

POSITIONS = {name: position for position, name in enumerate(FIELDS)}
SIGNS = {"eq": "==", "in": "==", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}


def compile_filter(term: Term) -> Condition:
    """Return the condition for the database."""
    paths = _Paths()
    path = paths.write(term, negated=False)
    return Condition(
        path=path,
        values_json=_json(paths.values),
        fields=paths.fields,
        indexed=_write_indexed(term, negated=False),
    )


class _Paths:
    """Writes the path of a filter, and collects the values of its variables.

    In lax mode, a path looks into lists, one level deep: at each key into the objects of a list, and at its end into
    the values of a list. A test of values of different types is unknown; below a negation that counts as false, so that
    a term and its negation are never both false.
    """

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.fields = 0

    def write(self, term: Term, *, negated: bool) -> str:
        """The path of a term, or of its opposite. Negations are moved to the tests."""
        if isinstance(term, Negation):
            return self.write(term.term, negated=not negated)
        if isinstance(term, Group):
            sign = " && " if (term.operator == "and") != negated else " || "
            return f"({sign.join(self.write(part, negated=negated) for part in term.terms)})"
        if not term.path.in_metadata:
            self.fields |= 1 << POSITIONS[term.path.keys[0]]
        operator, opposite = _positive(term)
        path = _write_path(term.path)
        if operator == "exists":
            return f"(!({path} != null))" if opposite != negated else f"({path} != null)"
        name = f"v{len(self.values)}"
        self.values[name] = term.value
        test = f"({path} {SIGNS[operator]} ${name}{'[*]' if operator == 'in' else ''})"
        return f"(!{test} || {test} is unknown)" if opposite != negated else test


def _write_indexed(term: Term, *, negated: bool) -> str | None:
    """The part of the path that the index of the metadata answers: every entry that the filter admits passes it.

    An index finds values, not ranges, and needs them as literals. None if there is no such part.
    """
    if isinstance(term, Negation):
        return _write_indexed(term.term, negated=not negated)
    if isinstance(term, Group):
        parts = [_write_indexed(part, negated=negated) for part in term.terms]
        if (term.operator == "and") != negated:
            known = [part for part in parts if part is not None]
            return f"({' && '.join(known)})" if known else None
        complete = [part for part in parts if part is not None]
        return f"({' || '.join(complete)})" if len(complete) == len(parts) else None
    operator, opposite = _positive(term)
    if opposite != negated or operator not in ("eq", "in") or not term.path.in_metadata:
        return None
    path = _write_path(term.path)
    values: Sequence[Any] = term.value if isinstance(term.value, (list, tuple)) else (term.value,)
    return f"({' || '.join(f'{path} == {_json(value)}' for value in values)})"


def _positive(test: Test) -> tuple[str, bool]:
    """The operator that a path has, and whether the test is its opposite."""
    if test.operator == "ne":
        return "eq", True
    return test.operator, test.operator == "exists" and not test.value


def _write_path(path: FieldPath) -> str:
    """The path to a value: a key is a string of JSON, which SQL/JSON reads alike."""
    return "".join(["$" if path.in_metadata else "$entry", *(f".{_json(key)}" for key in path.keys)])


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()
