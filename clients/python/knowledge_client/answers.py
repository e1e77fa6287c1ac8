"""JSON to and from Python: typed answers of the service, and the bodies of requests.

Without pydantic, which takes five times as long to load as this whole client: commands should start fast.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from datetime import date, datetime
from functools import cache
from types import UnionType
from typing import Any, Literal, Self, cast, dataclass_transform, get_args, get_origin, get_type_hints
from uuid import UUID

Read = Callable[[Any], Any]
"""Converts a value of JSON. Raises ValueError and TypeError for one of another form."""

REQUIRED: Any = object()


class Mismatch(ValueError):
    """A value that does not have the expected form, by its place in the answer."""

    def __init__(self, place: str) -> None:
        super().__init__(f"{place or 'the answer'} does not have the expected form")
        self.place = place


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Answer:
    """Part of an answer of the service. It cannot be changed; equal types with equal fields are equal."""

    def __init__(self, **values: Any) -> None:
        defaults = {name: default for name, (_, default) in _fields(type(self)).items() if default is not REQUIRED}
        self.__dict__.update(defaults | values)

    @classmethod
    def model_validate(cls, given: object) -> Self:
        """Read parsed JSON. Raises Mismatch."""
        if not isinstance(given, dict):
            raise Mismatch("")
        values = dict(given)
        for name, (read, default) in _fields(cls).items():
            value = given.get(name, default)
            if value is REQUIRED:
                raise Mismatch(name)
            values[name] = default if value is default else _read_part(name, read, value)
        made = cls.__new__(cls)
        made.__dict__.update(values)
        return made

    @classmethod
    def model_validate_json(cls, content: bytes) -> Self:
        """Read JSON. Raises Mismatch."""
        try:
            given = json.loads(content)
        except ValueError:
            raise Mismatch("") from None
        return cls.model_validate(given)

    @property
    def model_extra(self) -> dict[str, Any]:
        """The fields that this version of the client does not know, as in JSON."""
        return {name: value for name, value in self.__dict__.items() if name not in _fields(type(self))}

    def model_dump(
        self, *, mode: Literal["python", "json"] = "python", include: Collection[str] | None = None
    ) -> dict[str, Any]:
        """The fields as a dictionary, with those that this version does not know; in the mode `json` as in JSON."""
        show = _to_json if mode == "json" else _to_plain
        return {name: show(value) for name, value in self.__dict__.items() if include is None or name in include}

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__}.{name}: answers cannot be changed")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.__dict__ == self.__dict__

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.__dict__.items())})"


def write_json(value: object) -> bytes:
    """JSON of plain values, ids, times and answers."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_convert).encode()
    except UnicodeEncodeError:  # a lone surrogate, which the service refuses in its own words
        return json.dumps(value, separators=(",", ":"), default=_convert).encode()


def _convert(value: object) -> object:
    if isinstance(value, date):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, Answer):
        return value.__dict__
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "tolist"):  # a vector of NumPy, or one of its numbers
        return value.tolist()
    if isinstance(value, Collection):
        return list(value)
    raise TypeError(f"{type(value).__name__} cannot be sent as JSON")


def _to_json(value: object) -> Any:
    return json.loads(write_json(value))


def _to_plain(value: object) -> Any:
    if isinstance(value, Answer):
        return value.model_dump()
    if isinstance(value, list):
        return [_to_plain(each) for each in value]
    return {name: _to_plain(each) for name, each in value.items()} if isinstance(value, dict) else value


def _fields(kind: type[Answer]) -> Mapping[str, tuple[Read, Any]]:
    """How each field of a type of answers is read, and its default."""
    return _find_fields(cast("Any", kind))


@cache
def _find_fields(kind: Any) -> Mapping[str, tuple[Read, Any]]:
    return {name: (_reader(hint), getattr(kind, name, REQUIRED)) for name, hint in get_type_hints(kind).items()}


def _reader(kind: Any) -> Read:
    if kind is Any:
        return lambda value: value
    origin, args = get_origin(kind), get_args(kind)
    if origin is list:
        return _list_reader(_reader(args[0]))
    if origin is dict:
        return _dict_reader(_reader(args[1]))
    if origin is UnionType:
        return _union_reader([_reader(each) for each in args])
    if issubclass(kind, Answer):
        return cast("Read", kind.model_validate)
    readers: Mapping[type, Read] = {
        UUID: UUID, date: date.fromisoformat, datetime: datetime.fromisoformat, float: _read_float,
    }  # fmt: skip
    return readers.get(kind) or _exact_reader(kind)


def _list_reader(read: Read) -> Read:
    def read_list(value: Any) -> Any:
        if not isinstance(value, list):
            raise Mismatch("")
        return [_read_part(number, read, each) for number, each in enumerate(value)]

    return read_list


def _dict_reader(read: Read) -> Read:
    def read_dict(value: Any) -> Any:
        if not isinstance(value, dict):
            raise Mismatch("")
        return {name: _read_part(name, read, each) for name, each in value.items()}

    return read_dict


def _union_reader(readers: list[Read]) -> Read:
    def read_any(value: Any) -> Any:
        failure: Exception | None = None
        for read in readers:
            try:
                return read(value)
            except (ValueError, TypeError, AttributeError) as error:
                failure = failure or error
        raise failure or Mismatch("")

    return read_any


def _exact_reader(kind: type) -> Read:
    def read_exact(value: Any) -> Any:
        if type(value) is not kind:
            raise Mismatch("")
        return value

    return read_exact


def _read_float(value: Any) -> float:
    if type(value) not in (int, float):
        raise Mismatch("")
    return float(value)


def _read_part(name: str | int, read: Read, value: Any) -> Any:
    try:
        return read(value)
    except Mismatch as error:
        raise Mismatch(f"{name}.{error.place}".rstrip(".")) from None
    except (ValueError, TypeError, AttributeError):
        raise Mismatch(str(name)) from None
