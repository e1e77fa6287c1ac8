"""Rules for text, JSON and times in requests."""

import json
import re
import unicodedata
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import orjson

MOST_MARKS = 30
"""Combining marks in a row. The time to normalise a text grows with the square of their number, here and in Postgres:
it takes half a minute for 100,000 marks."""
MARKS_RULE = f"must have at most {MOST_MARKS} combining marks in a row"
# Marks are neither letters, digits nor spaces: only such runs can have too many.
_RUN = re.compile(rf"[^\w\s\x00-\u02ff]{{{MOST_MARKS + 1},}}")
# Voiced sound marks of halfwidth kana, which are letters until they are normalised, with their normalised forms.
_HALFWIDTH = {"\uff9e": "\u3099", "\uff9f": "\u309a"}
# Tibetan vowels that are not combining until they are normalised.
_TIBETAN = frozenset("\u0f73\u0f75\u0f81")

PICTURES = r"\u231a\u231b\u23e9-\u23f3\u23f8-\u23fa\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001f0ff\U0001f300-\U0001fbef"
"""Emoji and other pictures, as a class of a regular expression. Each is a word, whatever is next to it."""


def has_excess_marks(text: str) -> bool:
    """Whether more than 30 combining marks follow one another."""
    return any(True for _ in _find_excess(text))


def drop_excess_marks(text: str) -> str:
    """The text without marks that follow thirty others."""
    kept, end = [], 0
    for first, after in _find_excess(text):
        kept.append(text[end:first])
        end = after
    return "".join([*kept, text[end:]]) if kept else text


def _find_excess(text: str) -> Iterator[tuple[int, int]]:
    """Find marks that follow thirty others: the position of the first, and the position after the last."""
    if text.isascii():
        return
    for letter, mark in _HALFWIDTH.items():
        text = text.replace(letter, mark)
    for run in _RUN.finditer(text):
        marks = 0
        for place in range(*run.span()):
            if unicodedata.combining(text[place]) or text[place] in _TIBETAN:
                marks += 1
            else:
                if marks > MOST_MARKS:
                    yield place - marks + MOST_MARKS, place
                marks = 0
        if marks > MOST_MARKS:
            yield run.end() - marks + MOST_MARKS, run.end()


MAX_JSON_BYTES = 65_536
SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
LONG_INTEGER = re.compile(rb"[0-9]{19}")
NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")

STORABLE = "no NUL and no lone surrogates"
"""The rule of `is_storable`, as error messages state it."""
SEARCHABLE = f"{STORABLE}, at most {MOST_MARKS} combining marks in a row"
"""The rule of `is_searchable`."""
STORABLE_JSON = f"with finite numbers, integers of at most 64 bits, {STORABLE}"
"""The rule of `is_storable_json`, except for the size."""
MOMENT = "a date and time with a time zone, between the years 1 and 9999 in UTC"
"""The rule of `is_moment`."""


def is_storable(text: str) -> bool:
    """Whether Postgres can hold the text: no NUL character and no lone surrogate."""
    if "\x00" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_searchable(text: str) -> bool:
    """Whether Postgres can hold the text, and find its words in linear time."""
    return is_storable(text) and not has_excess_marks(text)


def load_json(text: bytes) -> Any:
    """Parse JSON with its integers as they are: orjson alone makes a float of one beyond 64 bits. Raises ValueError.

    Lone surrogates are left to the rules of the fields, which name the field.
    """
    try:
        value = orjson.loads(text)
    except ValueError:
        if SURROGATE.search(text) is None:
            raise
    else:
        if LONG_INTEGER.search(text) is None:
            return value
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def is_storable_json(value: Any) -> bool:
    """Whether this is a JSON object of at most 64 KiB that Postgres stores and returns unchanged."""
    if not isinstance(value, dict):
        return False
    try:
        # It encodes the value later, and refuses integers beyond 64 bits. Its text is the shortest.
        if len(orjson.dumps(value)) > MAX_JSON_BYTES:
            return False
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
        return len(text.encode()) <= MAX_JSON_BYTES and not NUL.search(text)
    except (TypeError, ValueError, RecursionError):
        return False


def is_moment(value: Any) -> bool:
    """Whether this is a time with a time zone that UTC has, too."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        return False
    try:
        value.astimezone(UTC)
    except OverflowError:
        return False
    return True


def count_values(value: Any, most: int) -> int:
    """Number of values inside a JSON value at any depth; it counts no further than one above `most`."""
    count, nested = 0, [value]
    while nested and count <= most:
        container = nested.pop()
        count += len(container)
        children = container.values() if isinstance(container, dict) else container
        if count <= most:
            nested += [child for child in children if isinstance(child, (dict, list))]
    return count
