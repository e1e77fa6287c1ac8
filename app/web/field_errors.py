"""Messages for invalid fields, in plain words instead of the framework's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from app.errors import FieldError

OBJECT = "must be a JSON object"
INTEGER = "must be an integer"
NUMBER = "must be a number"
YES_OR_NO = "must be true or false"
UUID_TEXT = "must be a UUID"
MOMENT = "must be a date and time, such as 2026-01-31T12:00:00Z"
UNKNOWN = "is not valid"

MAX_ITEMS = 3
"""Items of a list for which the same error is repeated."""

MESSAGES: Mapping[str, str] = {
    "json_invalid": "must be valid JSON",
    "extra_forbidden": "unknown field",
    "missing": "is required",
    "string_type": "must be text",
    "string_unicode": "must not contain lone surrogates",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "too_short": "must have at least {min_length} items",
    "too_long": "must have at most {max_length} items",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "finite_number": "must be a finite number",
    "list_type": "must be a list",
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), OBJECT),
    **dict.fromkeys(("int_type", "int_parsing", "int_parsing_size", "int_from_float"), INTEGER),
    **dict.fromkeys(("float_type", "float_parsing"), NUMBER),
    **dict.fromkeys(("bool_type", "bool_parsing"), YES_OR_NO),
    **dict.fromkeys(("uuid_type", "uuid_parsing"), UUID_TEXT),
    **dict.fromkeys(
        (
            *("datetime_type", "datetime_parsing", "datetime_object_invalid"),
            *("datetime_from_date_parsing", "timezone_aware", "timezone_naive"),
        ),
        MOMENT,
    ),
}
"""By pydantic's name for the rule."""

MOST = 100
"""Invalid fields that an answer names: a body can have thousands."""


def field_errors(found: Iterable[Mapping[str, Any]]) -> list[FieldError]:
    """Each field once for each rule that it broke; of many items of a list that broke the same rule, only the first.
    The first MOST."""
    pairs = [(str(error.get("type")), _field_error(error)) for error in found]
    better = {error.field for kind, error in pairs if kind != "list_type"}
    lists = {error.field.rpartition(".")[0] for _, error in pairs}
    # For a value or a list of values, the error of the single value is enough, and of a list that of its item.
    return _shorten(
        [
            error
            for kind, error in pairs
            if error.field not in lists and (kind != "list_type" or error.field not in better)
        ]
    )[:MOST]


def _shorten(found: Sequence[FieldError]) -> list[FieldError]:
    """Replace the errors of many items of a list that broke the same rule by the first, which counts the others."""
    groups: dict[tuple[str, str], list[FieldError]] = {}
    for error in found:
        name, _, place = error.field.rpartition(".")
        groups.setdefault((name if place.isdigit() else error.field, error.message), []).append(error)
    shown: list[FieldError] = []
    for (_, message), errors in groups.items():
        if len(errors) <= MAX_ITEMS:
            shown += errors
        else:
            shown.append(
                FieldError(errors[0].field, f"{message}; the same holds for {len(errors) - 1} more items")
            )
    return shown


def _field_error(error: Mapping[str, Any]) -> FieldError:
    location: Sequence[Any] = error.get("loc", ())
    kind = str(error.get("type"))
    # The name of a union's branch, such as list[str], means nothing to the caller.
    parts = [str(part) for part in location[1:] if isinstance(part, int) or "[" not in str(part)]
    if kind == "json_invalid":
        parts = ["body"]
    return FieldError(".".join(parts) or str(location[0] if location else "body"), _message(kind, error))


def _message(kind: str, error: Mapping[str, Any]) -> str:
    context: Mapping[str, Any] = error.get("ctx") or {}
    if kind == "value_error":
        return str(context.get("error", UNKNOWN))
    if kind == "literal_error":
        return f"must be {str(context.get('expected', '')).replace(chr(39), '')}"
    bounds = {n: int(v) if isinstance(v, float) and v.is_integer() else v for n, v in context.items()}
    message = MESSAGES.get(kind, UNKNOWN).format_map(bounds)
    return message[:-1] if message.endswith((" 1 characters", " 1 items")) else message
