"""Rules for text that callers send."""

from __future__ import annotations


def is_storable(text: str) -> bool:
    """Whether Postgres can hold the text: no NUL character and no lone surrogate."""
    if "\x00" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
