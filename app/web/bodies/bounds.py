"""How large and how intricate the body of a request may be, by path and role.

docs/bounds.md has the same table; a test compares them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

KIB, MIB = 1024, 1024 * 1024


@dataclass(frozen=True, slots=True)
class BodyBounds:
    """The largest body of a path.

    Attributes:
        bytes: its length.
        containers: objects and lists of JSON.
        values: commas of JSON, which separate its values.
    """

    bytes: int
    containers: int = 2_000
    values: int = 8_000


SMALL = BodyBounds(64 * KIB)
"""Of all paths that are not named."""

SEARCH = BodyBounds(256 * KIB)
"""A query of 10,000 characters, 1,000 ids of assets and a vector of 4,000 numbers at the same time."""

ENTRY = BodyBounds(2 * MIB, 40_000, 70_000)
"""100,000 characters, each escaped, and metadata of 64 KiB, which can be 32,000 lists."""

SEARCHES = BodyBounds(4 * MIB, 64_000, 256_000)
"""32 searches, each with a vector."""

MESSAGE = BodyBounds(4 * MIB, 64_000, 256_000)
"""A model writes a message token by token; 40 entries of the maximum length, or 1,000 of 4,000 characters."""

BULK = BodyBounds(32 * MIB, 200_000, 500_000)
"""1,000 entries of ordinary length, or the manifest of a source with 100,000 files."""

BODIES: Mapping[str, BodyBounds] = {
    "/knowledge/search": SEARCH,
    "/knowledge/search/batch": SEARCHES,
    "/knowledge/saved-searches": SEARCH,
    "/knowledge/entries": ENTRY,
    "/knowledge/entries/bulk": BULK,
    "/knowledge/assets": ENTRY,
    "/knowledge/sources": BULK,
    "/mcp": MESSAGE,
    "/console/entries": ENTRY,
    "/console/assets": ENTRY,
    "/console/sign-in": SMALL,
    "/console": SEARCH,
}
"""By path; a path below one of these has the same bounds. The longest path counts."""

MCP_READER = BodyBounds(1 * MIB, 4_000, 16_000)
"""Messages to /mcp of callers that may not write: a search with its vector."""

UPLOADS = frozenset({"/knowledge/assets", "/console/assets"})
"""Paths of files, whose length KB_MAX_UPLOAD_BYTES limits."""

UPLOAD_ROOM = 1 * MIB
"""The parts of a form around its file."""

DEPTH = 64
"""Objects and lists inside one another; the deepest request that the API describes has four."""

FORM_FIELDS = 1_000
"""Fields of a form."""


def bounds_of(path: str) -> BodyBounds:
    """The bounds of a path."""
    path = path.rstrip("/")
    while path:
        if path in BODIES:
            return BODIES[path]
        path = path.rpartition("/")[0]
    return SMALL
