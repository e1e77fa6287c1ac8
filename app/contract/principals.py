"""Groups and users in lists of readers and writers."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, JsonValue, Strict, WithJsonSchema

MAX_PRINCIPALS = 64
"""Most principals in a list."""


PRINCIPAL = re.compile(r"(group|user):\S(.{0,256}\S)?")
"""A group or a user, by a name of 1 to 258 characters without outer blanks."""


NAME_RULE = "must be 1 to 258 printable characters without outer blanks"


PRINCIPAL_RULE = "must be group:NAME or user:SUB, printable and without outer blanks"


RULE = f"must be null, or a list of 1 to {MAX_PRINCIPALS} of group:NAME and user:SUB"


def is_principal(value: Any) -> bool:
    """Whether a value can be in a list."""
    return isinstance(value, str) and PRINCIPAL.fullmatch(value) is not None and value.isprintable()


def is_principal_list(value: Any) -> bool:
    """Whether a value is a list of principals."""
    return (
        isinstance(value, list | tuple)
        and 1 <= len(value) <= MAX_PRINCIPALS
        and all(map(is_principal, value))
    )


def _check_principal(value: str) -> str:
    if not is_principal(value):
        raise ValueError(PRINCIPAL_RULE)
    return value


PRINCIPAL_SCHEMA: dict[str, JsonValue] = {"type": "string", "pattern": f"^{PRINCIPAL.pattern}$"}
Principal = Annotated[str, Strict(), AfterValidator(_check_principal), WithJsonSchema(PRINCIPAL_SCHEMA)]
"""A group or a user in a request."""

MAX_SUBJECT_CHARACTERS = 255
"""OpenID Connect Core 1.0, section 2, `sub`."""

MAX_TOKEN_ID_CHARACTERS = 255

MAX_GROUPS = 1_000
"""Groups of one token: more than fit into its 16,384 characters as identity providers name them."""

MAX_GROUP_CHARACTERS = 258
"""Of a group's name; a longer one is ignored, since no list of readers can name it."""
