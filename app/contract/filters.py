"""The `filter` of searches: ranges and logic on metadata and fields of an entry, in JSON.

`read_filter` checks it and names the place of each error; `app.knowledge.search.query` compiles what it reads.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, get_args
from uuid import UUID

import orjson
from pydantic import AfterValidator, WithJsonSchema
from pydantic.config import JsonDict

from app.contract.text import MAX_JSON_BYTES, STORABLE, is_storable, is_storable_json
from app.contract.validation import InvalidParts, read_as
from app.contract.vocabulary import LANGUAGES, Audience, EntryType, Scope, Source
from app.errors import FieldError

Operator = Literal["eq", "ne", "in", "gt", "gte", "lt", "lte", "exists"]
Scalar = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class FieldPath:
    """A field of an entry, or a value in its metadata.

    Attributes:
        keys: the name of the field, or the keys from the metadata to the value.
        in_metadata: whether the keys lead into the metadata.
    """

    keys: Sequence[str]
    in_metadata: bool


@dataclass(frozen=True, slots=True)
class Test:
    """One operator on one field; `value` is a list for `in`."""

    path: FieldPath
    operator: Operator
    value: Scalar | Sequence[Scalar]


@dataclass(frozen=True, slots=True)
class Group:
    """All of its terms, or any of them."""

    operator: Literal["and", "or"]
    terms: Sequence[Term]


@dataclass(frozen=True, slots=True)
class Negation:
    """The opposite of a term."""

    term: Term


Term = Test | Group | Negation


EQUALITY: Sequence[Operator] = ("eq", "ne", "in", "exists")
RANGE: Sequence[Operator] = ("gt", "gte", "lt", "lte")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Kind:
    """What values a field has.

    Attributes:
        convert: the value as it is compared, unless it is null. Raises ValueError, TypeError or OverflowError for a
            value of another kind.
        allowed: the values that are allowed, for error messages.
        ordered: the same for `gt`, `gte`, `lt` and `lte`; None if the values have no order.
        optional: whether the field can be null.
    """

    convert: Callable[[Any], Scalar]
    allowed: str
    ordered: str | None = None
    optional: bool = False

    @property
    def operators(self) -> Sequence[Operator]:
        """The operators that fit the values."""
        return (*EQUALITY, *RANGE) if self.ordered else EQUALITY

    def read(self, value: Any, *, in_order: bool) -> Scalar:
        """The value as it is compared, by its order or not. Raises as `convert` does."""
        if value is None and self.optional and not in_order:
            return None
        if in_order and isinstance(value, bool):
            raise TypeError
        return self.convert(value)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not is_storable(value):
        raise ValueError
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError
    if not math.isfinite(value) or (isinstance(value, int) and not -(2**63) <= value < 2**64):
        raise ValueError
    return value


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _any(value: Any) -> Scalar:
    if isinstance(value, bool):
        return value
    return _number(value) if isinstance(value, (int, float)) else _text(value)


def _uuid(value: Any) -> str:
    return str(UUID(_text(value)))


def _microseconds(value: Any) -> int:
    """A time as microseconds since 1970, as the database compares it."""
    at = datetime.fromisoformat(_text(value))
    if at.tzinfo is None:
        raise ValueError
    return (at - EPOCH) // timedelta(microseconds=1)


def _choice(vocabulary: Sequence[str]) -> Kind:
    def convert(value: Any) -> str:
        if value not in vocabulary:
            raise ValueError
        return str(value)

    return Kind(convert, f"one of {', '.join(vocabulary)}")


TEXT = Kind(_text, f"a text, {STORABLE}", f"a text, {STORABLE}")
FINITE = "a finite number, an integer of at most 64 bits"
NUMBER = Kind(_number, FINITE, FINITE)
ID = Kind(_uuid, "a UUID")
ZONED = "a date and time with a time zone, such as 2026-01-31T12:00:00Z"
TIME = Kind(_microseconds, ZONED, ZONED)

METADATA = Kind(
    _any,
    f"a text ({STORABLE}), a number (finite, integers of at most 64 bits), true, false or null",
    f"a text ({STORABLE}) or a number (finite, integers of at most 64 bits)",
    optional=True,
)
"""A value in the metadata, which can be of any kind."""


def _optional(kind: Kind) -> Kind:
    return Kind(kind.convert, f"{kind.allowed}, or null", kind.ordered, optional=True)


FIELDS: Mapping[str, Kind] = {
    "id": ID,
    "entry_type": _choice(get_args(EntryType)),
    "title": _optional(TEXT),
    "tags": Kind(_text, f"a text, {STORABLE}"),
    "roles": _choice(get_args(Audience)),
    "scope": _choice(get_args(Scope)),
    "confidence": NUMBER,
    "is_verified": Kind(_boolean, "true or false"),
    "source": _choice(get_args(Source)),
    "asset_id": _optional(ID),
    "parent_id": _optional(ID),
    "superseded_by_id": _optional(ID),
    "external_id": _optional(TEXT),
    "language": _choice(LANGUAGES),
    "created_at": TIME,
    "updated_at": TIME,
    "expires_at": _optional(TIME),
}
"""The fields of an entry by name, in the order of SQL's `entry_fields`. Tags and roles are lists."""


MAX_DEPTH = 10
"""Levels of `and`, `or` and `not` inside each other."""

MAX_CONDITIONS = 50
"""Operators on fields in one filter; each is tested on each value of a list in the metadata."""

MAX_VALUES = 100
"""Values in all lists of `in` in one filter. Each is compared with each value of a list: 500 of them took
5 seconds with 40 entries that have lists of 10,500 numbers."""

MAX_KEYS = 20
"""Keys from the metadata to a value."""

OPERATORS = (*EQUALITY, *RANGE)
PART = re.compile(r"(?:[^\\.]|\\[\\.])+")
ESCAPED = re.compile(r"\\([\\.])")

NAMES = f"metadata.KEY or one of {', '.join(FIELDS)}"


class _Unreadable(Exception):
    """Stops the reading; the error is in the list."""


def read_filter(given: Any) -> tuple[Term | None, list[FieldError]]:
    """Return the filter's terms, or None and its errors; each error names its place in the filter."""
    reader = _Reader()
    term: Term | None = None
    with contextlib.suppress(_Unreadable):
        term = reader.read_term(given, "filter", MAX_DEPTH)
    if not reader.errors and not is_storable_json(given):
        reader.errors.append(FieldError("filter", f"must have at most {MAX_JSON_BYTES // 1024} KiB"))
    return (None if reader.errors else term), reader.errors


class _Reader:
    """Counts conditions and values over the whole filter, and collects the errors."""

    def __init__(self) -> None:
        self.errors: list[FieldError] = []
        self._conditions = 0
        self._values = 0

    def read_term(self, given: Any, place: str, levels: int) -> Term:
        """A group, a negation, or the tests of one field. Raises _Unreadable at a limit; an invalid term is a stub."""
        if not isinstance(given, dict) or len(kinds := [k for k in ("field", "and", "or", "not") if k in given]) != 1:
            self._count_condition(place)
            return self._refuse(place, 'must be an object with exactly one of "field", "and", "or" and "not"')
        if (kind := kinds[0]) == "field":
            return self._read_tests(given, place)
        if len(given) > 1:
            self._refuse(place, f'must have nothing but "{kind}"')
        if levels == 0:
            self._refuse(f"{place}.{kind}", f"must be nested at most {MAX_DEPTH} levels deep")
            raise _Unreadable
        inner = given[kind]
        if kind == "not":
            return Negation(self.read_term(inner, f"{place}.not", levels - 1))
        if not isinstance(inner, list) or not inner:
            self._count_condition(place)
            return self._refuse(f"{place}.{kind}", "must be a list with at least one condition")
        terms = [self.read_term(t, f"{place}.{kind}[{n}]", levels - 1) for n, t in enumerate(inner)]
        return Group("and" if kind == "and" else "or", terms)

    def _read_tests(self, given: dict[str, Any], place: str) -> Term:
        operators = [name for name in given if name != "field"]
        path = self._read_path(given["field"], f"{place}.field")
        kind = METADATA if path is None or path.in_metadata else FIELDS[path.keys[0]]
        if not operators:
            self._count_condition(place)
            self._refuse(place, f"must have one or more of {', '.join(kind.operators)}")
        tests: list[Term] = []
        for name in operators:
            self._count_condition(place)
            if name not in OPERATORS:
                self._refuse(place, f"must have only field and operators: {', '.join(kind.operators)}")
            elif name not in kind.operators:
                self._refuse(f"{place}.{name}", f"does not fit this field: use {', '.join(kind.operators)}")
            elif path is not None:
                operator: Operator = name
                tests.append(Test(path, operator, self._read_value(given[name], kind, operator, f"{place}.{name}")))
        return tests[0] if len(tests) == 1 else Group("and", tests)

    def _read_path(self, given: Any, place: str) -> FieldPath | None:
        keys = _split_path(given)
        if keys is not None and len(keys) == 1 and keys[0] in FIELDS:
            return FieldPath(keys, in_metadata=False)
        if keys is None or keys[0] != "metadata" or len(keys) == 1:
            self._refuse(place, f"must be {NAMES}; a dot in a key is written \\., or the path is a list of keys")
            return None
        if len(keys) > MAX_KEYS + 1 or not all(map(is_storable, keys)):
            self._refuse(place, f"must have at most {MAX_KEYS} keys without NUL and lone surrogates")
            return None
        return FieldPath(keys[1:], in_metadata=True)

    def _read_value(self, given: Any, kind: Kind, operator: Operator, place: str) -> Scalar | Sequence[Scalar]:
        if operator == "exists":
            if not isinstance(given, bool):
                self._refuse(place, "must be true or false")
            return bool(given)
        if operator != "in":
            return self._read_scalar(given, kind, place, in_order=operator in RANGE)
        if not isinstance(given, list) or not given:
            self._refuse(place, "must be a list with at least one value")
            return ()
        self._values += len(given)
        if self._values > MAX_VALUES:
            self._refuse(place, f"must be at most {MAX_VALUES} values, in all lists of the filter together")
            raise _Unreadable
        return [self._read_scalar(v, kind, f"{place}[{n}]", in_order=False) for n, v in enumerate(given)]

    def _read_scalar(self, given: Any, kind: Kind, place: str, *, in_order: bool) -> Scalar:
        try:
            return kind.read(given, in_order=in_order)
        except (ValueError, TypeError, OverflowError):
            self._refuse(place, f"must be {kind.ordered if in_order else kind.allowed}")
            return None

    def _count_condition(self, place: str) -> None:
        self._conditions += 1
        if self._conditions > MAX_CONDITIONS:
            self._refuse(place, f"must have at most {MAX_CONDITIONS} conditions in the whole filter")
            raise _Unreadable

    def _refuse(self, place: str, message: str) -> Term:
        self.errors.append(FieldError(place, message))
        return Group("and", ())


def _split_path(given: Any) -> Sequence[str] | None:
    """The keys of a path, which is a text with dots or a list; None if it is neither."""
    if isinstance(given, list):
        return given if given and all(isinstance(key, str) for key in given) else None
    if not isinstance(given, str):
        return None
    keys = PART.findall(given)
    # Nothing but dots is between the keys; an empty key would be two dots together.
    if ".".join(keys) != given:
        return None
    return [ESCAPED.sub(r"\1", key) for key in keys] or None


SCALAR: JsonDict = {"type": ["string", "number", "boolean", "null"]}
BOUND: JsonDict = {"type": ["string", "number"]}
TERMS: JsonDict = {"type": "array", "minItems": 1, "maxItems": MAX_CONDITIONS, "items": {"type": "object"}}

EXAMPLE: JsonDict = {
    "and": [
        {"field": "metadata.year", "gte": 2020, "lt": 2026},
        {"field": "metadata.team", "in": ["search", "ops"]},
        {"not": {"field": "is_verified", "eq": False}},
    ]
}

SCHEMA: JsonDict = {
    "type": "object",
    "minProperties": 1,
    "additionalProperties": False,
    "properties": {
        "field": {
            "description": "`metadata.KEY`, with further keys for nested objects, or a field of the entry:"
            f" {', '.join(FIELDS)}. A dot in a key is written `\\.`; or the path is a list of keys.",
            "anyOf": [{"type": "string"}, {"type": "array", "minItems": 1, "items": {"type": "string"}}],
            "examples": ["metadata.year", "confidence", ["metadata", "a.b"]],
        },
        "eq": {**SCALAR, "description": "Equal, with the same type. Of a list, one value has to fulfil a condition."},
        "ne": {**SCALAR, "description": "The opposite of `eq`; also where the field is missing."},
        "in": {
            "type": "array",
            "minItems": 1,
            "maxItems": MAX_VALUES,
            "items": SCALAR,
            "description": "Equal to one of these.",
        },
        "gt": {**BOUND, "description": "Greater: a number, a text by its characters, or a time with its zone."},
        "gte": {**BOUND, "description": "Greater or equal."},
        "lt": {**BOUND, "description": "Less."},
        "lte": {**BOUND, "description": "Less or equal."},
        "exists": {"type": "boolean", "description": "Whether it has a value: not null, and not an empty list."},
        "and": {**TERMS, "description": "All of these filters."},
        "or": {**TERMS, "description": "At least one of these filters."},
        "not": {"type": "object", "description": "The opposite of this filter."},
    },
    "examples": [EXAMPLE],
}

FILTER_DESCRIPTION = (
    "Ranges and logic on metadata and on fields of the entry: either `field` with one or more operators, all of which"
    " it has to fulfil, or exactly one of `and`, `or` and `not`. At most"
    f" {MAX_CONDITIONS} operators, {MAX_VALUES} values in lists, {MAX_DEPTH} levels and 64 KiB."
)


def _check_filter(given: dict[Any, Any]) -> dict[str, Any]:
    """A copy of the filter, which its caller cannot change. Raises InvalidParts."""
    if errors := read_filter(given)[1]:
        raise InvalidParts([FieldError(e.field.removeprefix("filter"), e.message) for e in errors])
    copy: dict[str, Any] = orjson.loads(orjson.dumps(given))
    return copy


FilterObject = Annotated[
    Mapping[str, Any], read_as(dict[Any, Any]), AfterValidator(_check_filter), WithJsonSchema(SCHEMA)
]
"""A filter in a request."""
