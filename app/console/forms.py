"""Forms: the fields of a request as inputs of a page, and a form that was sent as the fields of a request.

What an input is, and its choices and bounds, follows from the type of the request in the contract; `words.toml` has
what does not.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal, Protocol

from fastapi import Request
from pydantic import TypeAdapter
from starlette.datastructures import FormData

from app.console.words import (
    NAMED,
    SHOWN,
    name_value,
    pretty_json,
    quote_item,
    read_list,
    read_moment,
    read_principals,
    write_list,
    write_moment,
)
from app.contract.fields import PRINCIPAL_SCHEMA
from app.contract.text import load_json
from app.contract.validation import UNSET, nullable_fields
from app.errors import Conflict, FieldError, InvalidInput

Kind = Literal[
    "text",
    "area",
    "number",
    "flag",
    "switch",
    "choice",
    "choices",
    "list",
    "lines",
    "principal",
    "principals",
    "id",
    "ids",
    "moment",
    "json",
]
"""A `flag` is on or off; a `switch` can also be left to a default; a `list` has commas between its items,
`lines` have one in each."""

LAYOUT: Mapping[Kind, tuple[str, int, str]] = {
    "area": ("", 0, "double"),
    "choices": ("", 0, "wide"),
    "list": ("Separated by commas", 0, ""),
    "lines": ("One a line", 3, ""),
    "principals": ("", 3, ""),
    "ids": ("Ids, separated by commas", 0, "double"),
    "moment": ("", 0, "long"),
    "json": ("A JSON object", 2, "double"),
}
"""Hint, lines of a text area (0 for a field of one line) and width of a kind of input."""
MONO = frozenset({"id", "ids", "json", "principal", "principals"})
TRIMMED = frozenset({"number", "switch", "choice", "id", "lines", "moment"})
LARGEST = 1_000_000
"""A larger bound is not worth a hint."""
EXAMPLE = "Such as 2026-01-31T12:00:00Z"
CHOSEN = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Look:
    """How a field is shown. What is None follows from the contract.

    `empty` is the word for no choice; without one, a value is always chosen.
    """

    label: str | None = None
    hint: str | None = None
    kind: Kind | None = None
    rows: int = 0
    placeholder: str = ""
    empty: str = "not set"
    width: str = ""
    picker: str = "datetime-local"
    is_known: bool = False


def look_of(kind: type, name: str) -> Look:
    """How a form for a type of request shows a field, as `words.toml` has it."""
    field, _, part = name.partition(".")
    known = [NAMED["fields"][key] for key in (f"{field}.*", name, f"{kind.__name__}.{name}") if key in NAMED["fields"]]
    look = Look(**{option: value for table in known for option, value in table.items()}, is_known=bool(known))
    return replace(look, label=look.label.format(name_value("entry_type", part))) if look.label else look


@dataclass(frozen=True, slots=True)
class Input:
    """A field of a request as a form has it; a part of a nested field is named with a dot.

    Attributes:
        options: values that can be chosen, with their words.
        default: the text that is equivalent to none.
        rows: lines of a text area; 0 for a field of one line.
        longest: characters of a text; 0 without a bound.
        is_whole: whether a number has no fraction.
        is_optional: whether null is a value, which an empty text stands for.
        parts: whether a part of a nested field can be sent without the others.
    """

    name: str
    kind: Kind
    label: str
    hint: str
    options: Sequence[tuple[str, str]]
    default: str
    placeholder: str
    rows: int
    width: str
    picker: str
    longest: int
    is_whole: bool
    is_optional: bool
    is_required: bool = False
    parts: bool = False

    @property
    def is_mono(self) -> bool:
        """Whether its text is shown in letters of one width."""
        return self.kind in MONO or self.name.endswith("_id")

    @property
    def is_box(self) -> bool:
        """Whether a browser sends nothing for it when nothing is checked."""
        return self.kind in ("flag", "choices")

    def clean(self, texts: Iterable[str]) -> Sequence[str]:
        """The texts that a browser sent, which writes a line break as two characters."""
        if self.kind == "flag":
            return ("true",) if any(text.strip() not in ("", "false") for text in texts) else ()
        if self.kind == "choices":
            return tuple(text for text in texts if text.strip())
        text = ", ".join(texts) if self.kind == "list" else next(iter(texts), "")
        text = text.replace("\r\n", "\n")
        return (text.strip() if self.kind in TRIMMED else text,)

    def as_sent(self, texts: Sequence[str]) -> object:
        """What a browser sends for these texts, for comparisons: it drops line breaks outside text areas."""
        if self.kind == "choices":
            return frozenset(texts)
        text = next(iter(texts), "").replace("\r\n", "\n").replace("\r", "\n")
        text = text if self.rows else text.replace("\n", "")
        return "" if text == self.default else text

    def items(self, text: str) -> list[str]:
        """The items of a text. Raises InvalidInput."""
        if self.kind == "lines":
            return [line.strip() for line in text.splitlines() if line.strip()]
        if self.kind == "ids":
            return [read_id(item) for item in re.split(r"[\s,]+", text) if item]
        try:
            return read_principals(text) if self.kind in ("principal", "principals") else read_list(text)
        except csv.Error:
            lines = " or line breaks" if self.rows else ""
            raise InvalidInput.of(self.name, f"must be separated by commas{lines}") from None

    def item(self, text: str) -> str:
        """The only item of a text. Raises InvalidInput."""
        items = self.items(text)
        if len(items) != 1:
            raise InvalidInput.of(self.name, "must be one group or user")
        return items[0]

    def read(self, texts: Sequence[str]) -> Any:
        """The value for the request. An unreadable one stays a text, which the contract refuses.

        Raises InvalidInput.
        """
        text = next(iter(texts), "")
        if self.kind == "flag":
            return bool(text)
        if self.kind == "choices":
            return list(texts)
        if self.is_optional and not text.strip():
            return None
        match self.kind:
            case "list" | "lines" | "principals" | "ids":
                return self.items(text)
            case "principal":
                return self.item(text)
            case "number":
                return read_number(text, int if self.is_whole else float)
            case "switch":
                return CHOSEN.get(text, text)
            case "id":
                return read_id(text)
            case "moment":
                return read_moment(text)
            case "json":
                return _load(text) if text.strip() else {}
            case "area":
                return text
        return text.strip()

    def write(self, value: Any, dump: Callable[[Any], str] = pretty_json) -> Sequence[str]:
        """The texts of a value."""
        if value in (None, UNSET, {}) or (value is False and self.kind == "flag"):
            return ()
        match self.kind:
            case "choices":
                return [value] if isinstance(value, str) else [str(item) for item in value]
            case "list":
                return [write_list(value)]
            case "lines":
                return ["\n".join(value)]
            case "principals":
                return ["\n".join(map(quote_item, value))]
            case "principal":
                return [quote_item(value)]
            case "ids":
                return [("\n" if self.rows else ", ").join(map(str, value))]
            case "json":
                return [dump(value)]
        if isinstance(value, bool):
            return [str(value).lower()]
        if isinstance(value, float):
            return [f"{value:.10g}"]
        return [write_moment(value) if isinstance(value, datetime) else str(value)]

    def say(self, texts: Sequence[str]) -> str:
        """The texts for people; empty without any."""
        words = dict(self.options)
        if self.kind == "flag":
            return "on" if texts else "off"
        return ", ".join(words.get(text, text) for text in texts if text)


@lru_cache
def inputs_of(kind: type) -> Mapping[str, Input]:
    """The inputs of the fields of a request, by name, in the order of the contract."""
    schema = TypeAdapter(kind).json_schema()
    required, optional = schema.get("required", ()), nullable_fields(kind)
    found: dict[str, Input] = {}
    for field in fields(kind):
        described, is_optional = _simplify(schema["properties"][field.name]), field.name in optional
        default = None if field.default in (MISSING, UNSET) else field.default
        reference = None if look_of(kind, field.name).kind else described.get("$ref")
        if reference is not None:
            nested = schema["$defs"][reference.rpartition("/")[2]]
            parts, optional_parts = nested["properties"], "required" not in nested
        elif names := described.get("propertyNames"):
            parts, optional_parts = dict.fromkeys(names["enum"], described["additionalProperties"]), False
        else:
            made = _make_input(kind, field.name, described, is_optional, default)
            found[field.name] = replace(made, is_required=field.name in required)
            continue
        for part, inner in parts.items():
            name = f"{field.name}.{part}"
            found[name] = replace(_make_input(kind, name, _simplify(inner), True, None), parts=optional_parts)
    return found


def _simplify(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema of a value other than null, of the list where one value or a list is allowed."""
    options = [option for option in schema.get("anyOf", ()) if option != {"type": "null"}]
    if not options:
        return schema
    found = next((option for option in options if option.get("type") == "array"), options[0])
    return {"description": schema.get("description", ""), **found}


def _make_input(kind: type, name: str, schema: Mapping[str, Any], is_optional: bool, default: Any) -> Input:
    look = look_of(kind, name)
    shown = look.kind or _kind_of(schema, is_optional=is_optional)
    hint, rows, width = LAYOUT.get(shown, ("", 0, ""))
    low, high = schema.get("minimum"), schema.get("maximum", LARGEST)
    if low is not None and high < LARGEST:
        hint = f"{low:g} to {high:g}"
    if not look.is_known:
        hint = schema.get("description", "").split(". ")[0].removesuffix(".") or hint
    values = ["true", "false"] if shown == "switch" else _list_values(schema)
    words = NAMED["values"].get(f"{kind.__name__}.{name}", NAMED["values"].get(name, {}))
    options = [(value, words.get(value, value)) for value in values]
    if shown in ("choice", "switch") and is_optional and look.empty:
        options.insert(0, ("", look.empty))
    text = f"{default:g}" if isinstance(default, float) else str(default or "")
    return Input(
        name,
        shown,
        label=look.label or name.rpartition(".")[2].replace("_", " ").capitalize(),
        hint=hint if look.hint is None else look.hint,
        options=options,
        default=text,
        placeholder=look.placeholder or (text if shown == "number" else ""),
        rows=look.rows or rows,
        width=look.width or width,
        picker=look.picker,
        longest=schema.get("maxLength", 0) if shown == "text" else 0,
        is_whole=schema.get("type") == "integer",
        is_optional=is_optional,
    )


def _list_values(schema: Mapping[str, Any]) -> Sequence[str]:
    """The values of a choice, or of the items of a list of choices."""
    schema = schema.get("items", schema)
    values: Sequence[str] = schema.get("enum", [schema["const"]] if "const" in schema else [])
    return values


def _kind_of(schema: Mapping[str, Any], *, is_optional: bool) -> Kind:
    items = schema.get("items", {})
    match schema.get("type"):
        case "boolean":
            return "switch" if is_optional else "flag"
        case "integer" | "number":
            return "number"
        case "array" if "enum" in items:
            return "choices"
        case "array" if items == PRINCIPAL_SCHEMA:
            return "principals"
        case "array" if items.get("format") == "uuid":
            return "ids"
        case "array" if items.get("type") == "string":
            return "list"
        case "array" | "object":
            return "json"
    if "enum" in schema or "const" in schema:
        return "choice"
    if schema.items() >= PRINCIPAL_SCHEMA.items():
        return "principal"
    kinds: Mapping[str, Kind] = {"uuid": "id", "date-time": "moment"}
    return kinds.get(schema.get("format", ""), "text")


class Parameters(Protocol):
    """The content of a form or a URL: several texts per name."""

    def getlist(self, key: Any) -> list[Any]:
        """All texts with this name."""


@dataclass(frozen=True)
class Form:
    """A filled-in form for requests of a type: the texts of each of its inputs, by name."""

    values: Mapping[str, Sequence[str]]
    kind: type

    @property
    def inputs(self) -> Mapping[str, Input]:
        """The inputs that a form of this type can have."""
        return inputs_of(self.kind)

    def parts_of(self, field: str) -> list[str]:
        """The names of the inputs of a field: several of a nested one."""
        return [name for name in self.inputs if name.partition(".")[0] == field]

    def text(self, name: str) -> str:
        """The text of a field, or an empty string."""
        return next(iter(self.values.get(name, ())), "")

    def shown(self, name: str) -> str:
        """The text of a field, or the text that is equivalent to none."""
        return self.text(name) or self.inputs[name].default

    def chosen(self, name: str) -> Sequence[str]:
        """All values in a field."""
        if self.inputs[name].kind in ("list", "lines", "principals", "ids"):
            return self.inputs[name].items(self.text(name))
        return self.values.get(name, ())

    def has(self, name: str, value: str) -> bool:
        """Whether the field contains the value."""
        return value in self.chosen(name)

    def fill(self, sent: Parameters) -> Form:
        """The form as it was sent. A field that was not sent is unchanged, except boxes, which are then unchecked."""
        values = dict(self.values)
        for name in self.values:
            texts = [text for text in sent.getlist(name) if isinstance(text, str)]
            if texts or self.inputs[name].is_box:
                values[name] = self.inputs[name].clean(texts)
        return replace(self, values=values)

    def changed(self, shown: Form) -> list[str]:
        """The names of the inputs that differ from the form as it was shown."""
        pairs = (
            (each, self.values[name], shown.values[name]) for name, each in self.inputs.items() if name in self.values
        )
        return [each.name for each, now, then in pairs if each.as_sent(now) != each.as_sent(then)]

    def changes(self, shown: Form) -> dict[str, Any]:
        """The fields of a request that differ from the form as it was shown. Raises InvalidInput."""
        given: dict[str, Any] = {}
        refused: list[FieldError] = []
        for name in self.changed(shown):
            field, _, part = name.partition(".")
            try:
                if not part:
                    given[field] = self.inputs[name].read(self.values[name])
                elif self.inputs[name].parts:
                    given.setdefault(field, {})[part] = self.inputs[name].read(self.values[name])
                elif field not in given:
                    given[field] = self._read_nested(field)
            except InvalidInput as error:
                refused += error.errors
        if refused:
            raise InvalidInput(refused)
        return given

    def _read_nested(self, field: str) -> dict[str, Any] | None:
        names = [name for name in self.parts_of(field) if name in self.values]
        read = {name.partition(".")[2]: self.inputs[name].read(self.values[name]) for name in names}
        return {part: value for part, value in read.items() if value is not None} or None

    def pairs(self, *without: str, prefix: str = "") -> list[tuple[str, str]]:
        """Names and texts, in the order of the contract, e.g. for hidden fields."""
        order = [name for name in self.inputs if name in self.values and name not in without]
        return [(prefix + name, value) for name in order for value in self.values[name] or ("",)]


def show_form(
    kind: type, stored: Any, *, without: Collection[str] = (), dump: Callable[[Any], str] = pretty_json
) -> Form:
    """The form that shows a stored thing, or values by name."""
    found = {n: i.write(_find(stored, n), dump) for n, i in inputs_of(kind).items() if n not in without}
    return Form(found, kind)


def _find(stored: Any, name: str) -> Any:
    for part in name.split("."):
        stored = stored.get(part) if isinstance(stored, Mapping) else getattr(stored, part, None)
    return stored


def list_facts(kind: type, stored: Any, without: Collection[str]) -> Iterator[tuple[str, str]]:
    """Label and value of each field of a stored thing that has one, in the order of the contract."""
    for name, texts in show_form(kind, stored, without=without).values.items():
        if texts:
            yield inputs_of(kind)[name].label, inputs_of(kind)[name].say(texts)


def errors_at(errors: Sequence[FieldError], form: Form | None = None) -> dict[str, str]:
    """The errors at the inputs of a form: that of an item at its list, and that of a nested field at its first part."""
    found: dict[str, list[str]] = {}
    for error in errors:
        name, message = _locate(error, form)
        found.setdefault(name, []).append(message)
    return {name: "; ".join(dict.fromkeys(messages)) for name, messages in found.items()}


def refusal_at(error: InvalidInput | Conflict, form: Form, name: str) -> tuple[dict[str, str], int]:
    """The errors at the inputs of a form, that of a conflict at the input `name`, and the status of the page."""
    if isinstance(error, InvalidInput):
        return errors_at(error.errors, form), 422
    return errors_at((FieldError(name, str(error)),), form), 409


def _locate(error: FieldError, form: Form | None) -> tuple[str, str]:
    if form is not None and error.field in form.inputs:
        return error.field, error.message
    field, _, place = error.field.partition(".")
    name = next(iter(form.parts_of(field)), field) if form is not None else field
    if not place.isdecimal():
        return name, f"{place}: {error.message}" if place else error.message
    items = form.chosen(name) if form is not None and name in form.values else ()
    number = int(place)
    return name, f"{items[number][:SHOWN]!r} {error.message}" if number < len(
        items
    ) else f"{number + 1}: {error.message}"


async def read_texts(request: Request) -> FormData:
    """Read a form of texts; files are discarded."""
    async with request.form() as form:
        return form


def read_version(text: object, page: str) -> int:
    """The version for which a form was made. Raises InvalidInput if it is missing, with the page to open instead."""
    if not isinstance(text, str) or not text.isascii() or not text.isdigit() or len(text) > 18:
        raise InvalidInput.of("version", f"is missing: open {page} and try again there")
    return int(text)


def read_number(text: str, kind: type[int] | type[float]) -> int | float | str:
    """Parse a number; return the text itself if it is not a number, so that validation refuses it."""
    try:
        return kind(text)
    except ValueError:
        return text


_ADDRESS = re.compile(r"(?:https?://[^/\s]*)?/console/entries/(?P<id>[0-9a-fA-F-]{36})(?:[/?#]\S*)?")


def read_id(text: str) -> str:
    """The id in the address of an entry's page, which people can copy; any other text stays as it is."""
    address = _ADDRESS.fullmatch(text.strip())
    return address["id"] if address else text.strip()


def _load(text: str) -> Any:
    try:
        return load_json(text.encode())
    except ValueError:
        return text
