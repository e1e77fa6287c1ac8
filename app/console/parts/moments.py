"""Dates and times in forms: a browser's picker has no time zone, so that those without one are in UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime

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
