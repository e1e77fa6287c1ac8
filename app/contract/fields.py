"""Types of single fields, principals in lists of readers and writers, and pages of lists."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Annotated, Any, Generic, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, Strict, StringConstraints, WithJsonSchema

from app.contract.text import MARKS_RULE, MOMENT, has_excess_marks, is_moment, is_storable
from app.contract.validation import DAY, read_as, require
from app.contract.validation import MOMENT as MOMENT_RULE

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A page of a list, and the cursor of the next one; null: this is the last page."""

    items: Sequence[T]
    next_cursor: str | None


MAX_PRINCIPALS = 64
"""Most principals in a list."""


PRINCIPAL = re.compile(r"(group|user):\S(.{0,256}\S)?")
"""A group or a user, by a name of 1 to 258 characters without outer blanks."""


NAME_RULE = "must be 1 to 258 printable characters without outer blanks"


PRINCIPAL_RULE = "must be group:NAME or user:SUB, printable and without outer blanks"


RULE = f"must be null, or a list of 1 to {MAX_PRINCIPALS} of group:NAME and user:SUB"


def is_principal(value: Any) -> bool:
    """Whether a value can be in a list."""
    return isinstance(value, str) and PRINCIPAL.fullmatch(value) is not None and value.isprintable()


def is_principal_list(value: Any) -> bool:
    """Whether a value is a list of principals."""
    return isinstance(value, list | tuple) and 1 <= len(value) <= MAX_PRINCIPALS and all(map(is_principal, value))


PRINCIPAL_SCHEMA: dict[str, JsonValue] = {"type": "string", "pattern": f"^{PRINCIPAL.pattern}$"}
Principal = Annotated[str, Strict(), require(is_principal, PRINCIPAL_RULE), WithJsonSchema(PRINCIPAL_SCHEMA)]
"""A group or a user in a request."""

MAX_SUBJECT_CHARACTERS = 255
"""OpenID Connect Core 1.0, section 2, `sub`."""

MAX_TOKEN_ID_CHARACTERS = 255

MAX_GROUPS = 1_000
"""Groups of one token: more than fit into its 16,384 characters as identity providers name them."""

MAX_GROUP_CHARACTERS = 258
"""The longest group name; a longer one is ignored, since no list of readers can name it."""


WHITE = r"\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
"""White space as `str.strip` removes it, for patterns: what `\\s` means differs between languages."""

NOT_BLANK = Field(json_schema_extra={"pattern": f"[^{WHITE}]"})
"""Described only: a text of white space is empty after trimming."""


def _as_written(moment: object) -> object:
    """Accept a date and time, or its text: pydantic would also accept numbers, as seconds since 1970."""
    if not isinstance(moment, str | datetime) or (
        isinstance(moment, str) and moment.strip().lstrip("+-").replace(".", "", 1).isdigit()
    ):
        raise ValueError(MOMENT_RULE)
    return moment


Moment = Annotated[datetime, BeforeValidator(_as_written)]
"""A date and time in a request."""


def _as_day(day: object) -> object:
    if isinstance(day, datetime) or not (
        isinstance(day, date) or re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", str(day))
    ):
        raise ValueError(DAY)
    return day


Day = Annotated[date, BeforeValidator(_as_day)]
"""A date in a request: pydantic would also accept seconds since 1970."""


# Postgres refuses offsets beyond 16 hours.
ZonedMoment = Annotated[
    Moment, require(is_moment, f"must be {MOMENT}"), AfterValidator(lambda moment: moment.astimezone(UTC))
]
"""A date and time with a time zone, read as UTC."""


def to_plain(number: Any) -> Any:
    """A number of NumPy as one of Python."""
    return number.item() if hasattr(number, "item") else number


def _to_plain_list(numbers: Any) -> Any:
    if hasattr(numbers, "tolist"):
        return numbers.tolist()
    if isinstance(numbers, list | tuple) and numbers and hasattr(numbers[0], "item"):
        return [to_plain(number) for number in numbers]
    return numbers


Text = Annotated[str, Field(strict=True)]
YesOrNo = Annotated[bool, Field(strict=True)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Fraction = Annotated[Number, Field(ge=0, le=1), BeforeValidator(to_plain)]
"""A number from 0 to 1."""


def _check_vector(numbers: list[float]) -> tuple[float, ...]:
    if not any(numbers):
        raise ValueError("must be finite numbers, not all zero")
    return tuple(numbers)


MAX_DIMENSIONS = 4000
"""Numbers of a vector that a caller sends; registered models have fewer."""

VectorNumbers = Annotated[
    Sequence[float],
    read_as(Annotated[list[Number], Field(min_length=1, max_length=MAX_DIMENSIONS)]),
    BeforeValidator(_to_plain_list),
    AfterValidator(_check_vector),
]
"""A vector to use instead of the embedding of a query."""

MAX_QUERY_LENGTH = 10_000


def _check_query(text: str) -> str:
    # What Python strips is white space for the tenant's searches, too.
    if not (text := text.strip()):
        raise ValueError(f"must have 1 to {MAX_QUERY_LENGTH} characters after trimming")
    if not is_storable(text):
        raise ValueError("must not contain NUL characters or lone surrogates")
    if has_excess_marks(text):
        raise ValueError(MARKS_RULE)
    return text


QueryText = Annotated[
    Text,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_QUERY_LENGTH),
    NOT_BLANK,
    AfterValidator(_check_query),
]
"""The text of a query, trimmed."""
