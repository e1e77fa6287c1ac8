"""Rules for text and JSON that callers send."""

from __future__ import annotations

import json
import re
from typing import Any

import orjson

MAX_JSON_BYTES = 65_536
NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")

STORABLE = "no NUL and no lone surrogates"
"""The rule of `is_storable`, as error messages state it."""


def is_storable(text: str) -> bool:
    """Whether Postgres can hold the text: no NUL character and no lone surrogate."""
    if "\x00" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_storable_json(value: Any) -> bool:
    """Whether this is a JSON object of at most 64 KiB that Postgres stores and returns unchanged."""
    if not isinstance(value, dict):
        return False
    try:
        orjson.dumps(value)  # encodes it later; refuses integers beyond 64 bits
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
        return len(text.encode()) <= MAX_JSON_BYTES and not NUL.search(text)
    except (TypeError, ValueError, RecursionError):
        return False
