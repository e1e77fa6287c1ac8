"""ETags of what callers edit, and the header If-Match."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import Header

from app.errors import PreconditionFailed

IfMatch = Annotated[
    str | None,
    Header(
        alias="If-Match",
        description="The ETag that was read, to avoid overwriting other changes; several separated by commas, or *.",
    ),
]
_VERSION = re.compile(r"[0-9]{1,18}")
_ETAG = re.compile(r'"([0-9]{1,18})"')


def etag(version: int) -> str:
    """The ETag of a version."""
    return f'"{version}"'


def read_versions(if_match: str | None) -> frozenset[int] | None:
    """The versions that If-Match names; `*` only requires that the item exists. Weak ETags never match.

    Raises PreconditionFailed if it names none.
    """
    if if_match is None or if_match.strip() == "*":
        return None
    if _VERSION.fullmatch(if_match.strip()):  # without its quotes
        return frozenset({int(if_match)})
    named = (_ETAG.fullmatch(tag.strip()) for tag in if_match.split(","))
    versions = frozenset(int(tag[1]) for tag in named if tag)
    if not versions:
        raise PreconditionFailed("If-Match is not an ETag of this item")
    return versions
