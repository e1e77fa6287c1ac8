"""Texts of pages and forms: names of values, principals, times, lists and JSON."""

import csv
import io
import re
import tomllib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from app.contract.assets import Asset

_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_LOCAL = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?")


def write_moment(moment: datetime) -> str:
    """A time as a picker shows it, if it has whole seconds; the picker sends the same text back."""
    moment = moment.astimezone(UTC)
    if moment.microsecond:
        return moment.isoformat()
    return moment.replace(tzinfo=None).isoformat().removesuffix(":00")


def read_moment(text: str) -> str:
    """A picker's text with its time zone; any other text stays as it is."""
    text = text.strip()
    if _DAY.fullmatch(text):
        return f"{text}T00:00:00Z"
    return f"{text}Z" if _LOCAL.fullmatch(text) else text


def picker_of(text: str, kind: str) -> str:
    """The type of a field with this text: `kind`, `date` or `datetime-local`, or `text` for what it cannot show."""
    pattern = _DAY if kind == "date" else _LOCAL
    return kind if not text or pattern.fullmatch(text) else "text"


def read_list(text: str) -> list[str]:
    """Parse items separated by commas or line breaks; an item with a comma is in double quotes. Raises csv.Error."""
    rows = csv.reader(io.StringIO(text, newline=""), skipinitialspace=True)
    return [item.strip() for row in rows for item in row if item.strip()]


def read_principals(text: str) -> list[str]:
    """Parse principals as `read_list` does; blanks around the colon are ignored."""
    return [":".join(part.strip() for part in item.split(":", 1)) for item in read_list(text)]


def write_list(items: Iterable[str]) -> str:
    """Format items for `read_list`."""
    return ", ".join(map(quote_item, items))


def quote_item(item: str) -> str:
    """An item as `read_list` reads it."""
    return '"' + item.replace('"', '""') + '"' if set(item) & set(',"\r\n') else item


def pretty_json(value: Any) -> str:
    """Format JSON for people."""
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()


NAMED: Mapping[str, Mapping[str, Any]] = tomllib.loads(Path(__file__).with_name("words.toml").read_text("utf-8"))
"""What pages call the values and fields of the contract, by kind."""
LISTS: Mapping[str, str] = NAMED["lists"]
RELATIONSHIPS: Mapping[str, str] = NAMED["relationships"]


def name_document(asset: Asset) -> str:
    """What a document is called: by its title, or else by the name of its file."""
    return asset.title or asset.name


def name_value(field: str, value: str) -> str:
    """The name of a value of a field; one without a name is its own."""
    return str(NAMED["values"].get(field, {}).get(value, value))


SHOWN = 60
"""Characters of a refused item that its message repeats."""


def name_principal(principal: str) -> str:
    """A principal in words, such as `finance (group)`."""
    kind, _, name = principal.partition(":")
    return f"{name} ({kind})"


def name_reason(reason: str) -> str:
    """The reason of a refusal, with the list as forms name it."""
    name, colon, rest = reason.partition(": ")
    return f"{LISTS[name]}: {rest}" if colon and name in LISTS else reason
