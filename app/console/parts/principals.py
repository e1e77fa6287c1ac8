"""Groups and users who may read or change an item, in words and in the text areas of forms."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence

from app.console.parts.search.form import read_list, write_list
from app.errors import InvalidInput
from app.knowledge.principals import MAX_PRINCIPALS, PRINCIPAL_RULE, is_principal

LISTS: Mapping[str, str] = {"readers": "Who may read", "writers": "Who may change"}
"""The lists of an item, as forms and pages name them."""

SHOWN = 60
"""Characters of a refused name that its message repeats."""


def name_principal(principal: str) -> str:
    """A principal in words, such as `finance (group)`."""
    kind, _, name = principal.partition(":")
    return f"{name} ({kind})"


def name_reason(reason: str) -> str:
    """The reason of a refusal, with the list as forms name it."""
    name, colon, rest = reason.partition(": ")
    return f"{LISTS[name]}: {rest}" if colon and name in LISTS else reason


def write_principals(principals: Sequence[str] | None) -> str:
    """The text of a form: one principal per line, and none where the list is null, which means all."""
    return "\n".join(write_list([each]) for each in principals or ())


def read_principals(text: str, field: str) -> list[str] | None:
    """Parse principals separated by commas or line breaks; None for an empty text, which means all.

    A name with a comma is in double quotes, and blanks around the colon are ignored. Raises InvalidInput.
    """
    if not text.strip():
        return None
    try:
        items = read_list(text)
    except csv.Error:
        raise InvalidInput.of(field, "must be separated by commas or line breaks") from None
    found = [":".join(part.strip() for part in item.split(":", 1)) for item in items]
    for each in found:
        if not is_principal(each):
            raise InvalidInput.of(field, f"{each[:SHOWN]!r} {PRINCIPAL_RULE}")
    if not 1 <= len(found) <= MAX_PRINCIPALS:
        raise InvalidInput.of(field, f"must be 1 to {MAX_PRINCIPALS} groups and users, or empty for all")
    return found


def read_lists(texts: Mapping[str, str]) -> dict[str, list[str] | None]:
    """The lists of a form. Raises InvalidInput."""
    return {name: read_principals(texts[name], name) for name in LISTS}
