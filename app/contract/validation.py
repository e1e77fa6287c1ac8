"""Validate each type that callers fill once, when it is created, with pydantic's compiled validator.

`@request` makes such a type. HTTP, MCP, commands, pages and Python make the same one, so that each rule and each
message has one place. All violations are named at once.
"""

import ast
import copy
import dataclasses
import inspect
import sys
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import MISSING
from enum import Enum
from functools import cache, lru_cache, partial, reduce
from itertools import pairwise
from operator import or_
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    TypeVar,
    Union,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

import pydantic.dataclasses
from pydantic import (
    AfterValidator,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    GetPydanticSchema,
    TypeAdapter,
    ValidationError,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from app.errors import FieldError, InvalidInput

T = TypeVar("T")


class Unset(Enum):
    """The type of `UNSET`, the value of a field that the caller did not send; null is a value."""

    UNSET = "unset"

    def __repr__(self) -> str:
        return self.name


UNSET: Final = Unset.UNSET


def read_as(kind: Any) -> GetPydanticSchema:
    """In an annotation: the value is read as another type, such as a list for a Sequence, which would be copied item by
    item and answered in the words of no message."""
    return GetPydanticSchema(lambda _, handler: handler(kind))


def require(fits: Callable[[T], bool], rule: str) -> AfterValidator:
    """In an annotation: a value that does not fit is refused with the rule."""

    def check(value: T) -> T:
        if not fits(value):
            raise ValueError(rule)
        return value

    return AfterValidator(check)


class InvalidParts(ValueError):
    """Violations inside the value of one field; their names are the places below it."""

    def __init__(self, errors: Sequence[FieldError]) -> None:
        super().__init__("; ".join(e.message for e in errors))
        self.errors = errors


@cache
def descriptions_of(shape: type) -> Mapping[str, str]:
    """The docstrings of the fields of a shape, which describe them in JSON schemas, each on one line."""
    found: dict[str, str] = {}
    for each in reversed(shape.__mro__):
        if each.__module__.startswith("app.contract."):
            found |= _docstrings(each.__module__).get(each.__name__, {})
    return {name: text for name, text in found.items() if text}


@cache
def _docstrings(module: str) -> Mapping[str, Mapping[str, str]]:
    """The docstring of each field of each class, empty without one; read from the source when a schema is made."""
    return {
        node.name: {
            field.target.id: " ".join(text.value.value.split())
            if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
            else ""
            for field, text in pairwise([*node.body, ast.Pass()])
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        }
        for node in ast.parse(inspect.getsource(sys.modules[module])).body
        if isinstance(node, ast.ClassDef)
    }


def _describe(shape: type, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
    made = handler(schema)
    properties = handler.resolve_ref_schema(made).get("properties", {})
    for name, text in descriptions_of(shape).items():
        properties[name]["description"] = text
    return made


class Described:
    """An answer whose JSON schema has the docstrings of its fields as their descriptions, like that of a request."""

    __slots__ = ()
    __get_pydantic_json_schema__: ClassVar[Any] = classmethod(_describe)


@overload
def request(cls: type[T]) -> type[T]: ...


@overload
def request(*, schema: dict[str, Any]) -> Callable[[type[T]], type[T]]: ...


@dataclass_transform(frozen_default=True)
def request(
    cls: type[Any] | None = None, *, schema: dict[str, Any] | None = None
) -> type[Any] | Callable[[type[Any]], type[Any]]:
    """Make a frozen dataclass whose fields are validated when it is made, from names and values or from JSON.

    Making one raises InvalidInput with all invalid fields; unknown fields are invalid. Null in a field with a default
    is read as the default, as if the field were omitted: generated clients send null for fields that are not set. Only
    a type with `Unset | None` keeps it, as the value that clears a field. Its JSON schema has no defaults, since
    generated clients would send them: what an omitted field means can depend on the tenant, and in a patch it is the
    stored value. `schema` is added to it, such as `examples`.
    """
    return partial(_make, schema=schema) if cls is None else _make(cls, schema)


def _make(cls: type[T], schema: dict[str, Any] | None) -> type[T]:
    hints = get_type_hints(cls, include_extras=True)
    own = vars(cls).get("__annotations__", {})
    cls.__annotations__ = {name: _sent(hints[name], vars(cls).get(name, MISSING)) for name in own}
    setattr(cls, "__get_pydantic_json_schema__", classmethod(_without_defaults))  # noqa: B010
    config = ConfigDict(extra="forbid", json_schema_extra=schema)
    made: Any = pydantic.dataclasses.dataclass(frozen=True, slots=True, config=config)(cls)
    names = tuple(f.name for f in dataclasses.fields(made) if f.init and not f.kw_only)
    make = made.__init__

    def checked(self: Any, *args: Any, **values: Any) -> None:
        if len(args) > len(names):
            raise TypeError(f"{cls.__name__} takes at most {len(names)} positional arguments, not {len(args)}")
        given = dict(zip(names, args, strict=False)) | values
        try:
            make(self, **{name: value for name, value in given.items() if value is not UNSET})
        except ValidationError as error:
            raise invalid_input(error) from None

    made.__init__ = checked
    return cast("type[T]", made)


def _sent(hint: Any, default: object) -> Any:
    """The type of a field as callers send it: null in a field with a default is the default."""
    sent = _given(hint)
    is_fixed = default is MISSING or ClassVar in (hint, get_origin(hint))
    return sent if is_fixed or _admits_none(sent) else Annotated[sent, _null_as(default)]


def nullable_fields(kind: type) -> frozenset[str]:
    """The fields of a request of which null is a value, not only another way to omit them."""
    return frozenset(f.name for f in dataclasses.fields(kind) if _admits_none(f.type))


def _admits_none(hint: Any) -> bool:
    if get_origin(hint) in (Annotated, Union, UnionType):
        return any(map(_admits_none, get_args(hint)[: 1 if get_origin(hint) is Annotated else None]))
    return hint in (None, NoneType, Any)


def _null_as(default: object) -> GetPydanticSchema:
    def make(source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(
            lambda value: default if value is None else value, core_schema.nullable_schema(handler(source))
        )

    return GetPydanticSchema(make)


def _given(hint: Any) -> Any:
    """The type of a field where it is sent: without `Unset`, which only its default has."""
    if get_origin(hint) is Annotated:
        kind, *notes = get_args(hint)
        return Annotated[_given(kind), *notes]
    if get_origin(hint) not in (Union, UnionType):
        return hint
    return reduce(or_, (each for each in get_args(hint) if each is not Unset))


class _List:
    """Validates any sequence of a Python caller as a list, whose messages callers know."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        (item,) = get_args(source)
        return core_schema.list_schema(handler.generate_schema(item))


Items = Annotated[Sequence[T], _List()]
"""A list in a request. Give it `AfterValidator(tuple)`, so that the caller cannot change it later."""


def given_fields(values: object) -> dict[str, Any]:
    """The fields of a request that the caller sent."""
    found = ((f.name, getattr(values, f.name)) for f in dataclasses.fields(cast("Any", values)))
    return {name: value for name, value in found if value is not UNSET}


def same_fields(found: object, wanted: type) -> dict[str, Any]:
    """The fields of a dataclass that another one has by the same names, to make it of them."""
    names = {f.name for f in dataclasses.fields(wanted)}
    return {f.name: getattr(found, f.name) for f in dataclasses.fields(cast("Any", found)) if f.name in names}


def stored_fields(values: object, names: Container[str]) -> dict[str, Any]:
    """The fields among `names` that the caller sent, with lists as rows have them."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in given_fields(values).items()
        if name in names
    }


def amend(request: T, **values: Any) -> T:
    """A copy of a request with values that the service has made, which are not validated."""
    amended = copy.copy(request)
    for name, value in values.items():
        object.__setattr__(amended, name, value)
    return amended


def validate(kind: type[T], values: object) -> T:
    """Make a request from the parsed JSON of a caller. Raises InvalidInput with all invalid fields."""
    try:
        return cast("T", _adapter(cast("Any", kind)).validate_python(values))
    except ValidationError as error:
        raise invalid_input(error) from None


@lru_cache(maxsize=256)
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _without_defaults(cls: type, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
    made = _describe(cls, schema, handler)
    for field in handler.resolve_ref_schema(made).get("properties", {}).values():
        field.pop("default", None)
    return made


def invalid_input(error: ValidationError) -> InvalidInput:
    """Convert pydantic's error to ours; the names of fields start at the type's root."""
    found = error.errors(include_url=False)
    return InvalidInput(field_errors({**e, "loc": ("body", *e["loc"])} for e in found))


OBJECT = "must be a JSON object"
INTEGER = "must be an integer"
NUMBER = "must be a number"
YES_OR_NO = "must be true or false"
UUID_TEXT = "must be a UUID"
MOMENT = "must be a date and time, such as 2026-01-31T12:00:00Z"
DAY = "must be a date, such as 2026-01-31"
UNKNOWN = "is not valid"

MAX_ITEMS = 3
"""Items of a list for which the same error is repeated."""

MESSAGES: Mapping[str, str] = {
    "json_invalid": "must be valid JSON",
    **dict.fromkeys(("extra_forbidden", "unexpected_keyword_argument"), "unknown field"),
    "missing": "is required",
    "string_type": "must be text",
    **dict.fromkeys(("bytes_type", "bytes_invalid_encoding"), "must be bytes"),
    "string_unicode": "must not contain lone surrogates",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "too_short": "must have at least {min_length} items",
    "too_long": "must have at most {max_length} items",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "finite_number": "must be a finite number",
    "list_type": "must be a list",
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type", "dataclass_type"), OBJECT),
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
    **dict.fromkeys(("date_type", "date_parsing", "date_from_datetime_parsing", "date_from_datetime_inexact"), DAY),
}
"""By pydantic's name for the rule."""

MOST = 100
"""Invalid fields that an answer names: a body can have thousands."""


def field_errors(found: Iterable[Mapping[str, Any]]) -> list[FieldError]:
    """Each field once for each rule that it broke; of many items of a list that broke the same rule, only the first.
    The first MOST."""
    pairs = [pair for error in found for pair in _read(error)]
    better = {error.field for kind, error in pairs if kind != "list_type"}
    lists = {error.field.rpartition(".")[0] for kind, error in pairs if kind != PART}
    # For a value or a list of values, the error of the single value suffices; for a list, the error of its item.
    return _shorten(
        [
            error
            for kind, error in pairs
            if kind == PART or (error.field not in lists and (kind != "list_type" or error.field not in better))
        ]
    )[:MOST]


def _shorten(found: Sequence[FieldError]) -> list[FieldError]:
    """Replace the errors of many items of a list that broke the same rule by the first, which counts the others."""
    groups: dict[tuple[str, str], list[FieldError]] = {}
    for error in found:
        name, _, place = error.field.rpartition(".")
        groups.setdefault((name if place.isdigit() else error.field, error.message), []).append(error)
    shown: list[FieldError] = []
    for (_, message), same in groups.items():
        if len(same) <= MAX_ITEMS:
            shown += same
        else:
            shown.append(FieldError(same[0].field, f"{message}; the same holds for {len(same) - 1} more items"))
    return shown


PART = "part"


def _read(error: Mapping[str, Any]) -> Sequence[tuple[str, FieldError]]:
    """The kind and the field of a violation, or of each of several inside one value."""
    one = _field_error(error)
    parts = (error.get("ctx") or {}).get("error")
    if not isinstance(parts, InvalidParts):
        return [(str(error.get("type")), one)]
    above = one.field if len(error.get("loc", ())) > 1 else ""
    names = [(above + part.field).lstrip(".") or one.field for part in parts.errors]
    return [(PART, FieldError(name, p.message)) for name, p in zip(names, parts.errors, strict=True)]


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
