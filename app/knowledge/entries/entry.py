"""The valid values of the fields of an entry that callers write."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from typing import Any, Final, get_args
from uuid import UUID

from app.contract.principals import RULE as PRINCIPALS_RULE
from app.contract.principals import is_principal_list
from app.contract.text import (
    MAX_JSON_BYTES,
    MOMENT,
    SEARCHABLE,
    STORABLE,
    STORABLE_JSON,
    is_moment,
    is_searchable,
    is_storable,
    is_storable_json,
)
from app.contract.vocabulary import FLAGS, LANGUAGES, Audience, Scope, WritableType
from app.knowledge.quarantine.flagging import FLAGS_KEY, is_allowed

MAX_CONTENT = 100_000
MAX_TITLE = 1_000
MAX_TAGS = 50
MAX_TAG = 100
MAX_SOURCES = 100
MAX_EXTERNAL_ID = 512
MAX_ROLES = len(get_args(Audience))
MAX_BULK = 1_000
"""Most entries in one bulk write."""

WRITABLE_TYPES: Final = get_args(WritableType)

PLACE = frozenset(
    {"headings", "header_chars", "flags", "ocr", "char_start", "char_end", "page", "page_end", "total_pages"}
)
"""Metadata keys for what ingestion finds out about a chunk and its place in the document; only ingestion writes them,
and no asset passes on a value of its own: a page that is cited is one of the document."""


def inheritable(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata of an asset that its chunks get."""
    return {key: value for key, value in metadata.items() if key not in PLACE}


def content_hash(content: str) -> bytes:
    """The identity of an entry without an external_id: the SHA-256 of its content."""
    return hashlib.sha256(content.encode()).digest()


def text_hash(title: str | None, content: str) -> bytes:
    """The `text_hash` of an entry: entries with the same one have the same vectors."""
    return content_hash(embedding_text(title, content))


def embedding_text(title: str | None, content: str) -> str:
    """The text that is embedded for an entry."""
    return f"{title}\n\n{content}" if title else content


def _text(low: int, high: int, fits: Callable[[str], bool] = is_storable) -> Callable[[Any], bool]:
    return lambda v: isinstance(v, str) and low <= len(v) <= high and bool(v.strip()) and fits(v)


def _list(item: Callable[[Any], bool], high: int) -> Callable[[Any], bool]:
    return lambda v: isinstance(v, list | tuple) and len(v) <= high and all(item(i) for i in v)


def _is_share(value: Any) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and math.isfinite(value)
        and 0 <= value <= 1
    )


def _is_uuid(value: Any) -> bool:
    return isinstance(value, UUID)


NULLABLE = frozenset(
    {"title", "parent_id", "language", "expires_at", "superseded_by_id", "external_id", "readers", "writers"}
)
RULES: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "content": (
        _text(1, MAX_CONTENT, is_searchable),
        f"must be text of 1 to {MAX_CONTENT} characters, {SEARCHABLE}",
    ),
    "entry_type": (lambda v: v in WRITABLE_TYPES, f"must be one of {', '.join(WRITABLE_TYPES)}"),
    "title": (
        _text(1, MAX_TITLE, is_searchable),
        f"must be text of 1 to {MAX_TITLE} characters, {SEARCHABLE}",
    ),
    "tags": (
        _list(_text(1, MAX_TAG), MAX_TAGS),
        f"must be a list of at most {MAX_TAGS} tags of 1 to {MAX_TAG} characters, {STORABLE}",
    ),
    "roles": (
        lambda v: _list(lambda r: r in get_args(Audience), MAX_ROLES)(v) and len(v) > 0,
        f"must be one or more of {', '.join(get_args(Audience))}",
    ),
    "confidence": (_is_share, "must be a number between 0 and 1"),
    "scope": (lambda v: v in get_args(Scope), "must be global or project"),
    "parent_id": (_is_uuid, "must be the id of an entry"),
    "source_ids": (_list(_is_uuid, MAX_SOURCES), f"must be a list of at most {MAX_SOURCES} ids of entries"),
    "superseded_by_id": (_is_uuid, "must be the id of an entry"),
    "is_verified": (lambda v: isinstance(v, bool), "must be true or false"),
    "metadata": (
        lambda v: is_storable_json(v) and is_allowed(v),
        f"must be a JSON object of at most {MAX_JSON_BYTES} bytes, {STORABLE_JSON}; {FLAGS_KEY}, which the service"
        f" sets, can only be a list of any of {', '.join(FLAGS)}",
    ),
    "language": (lambda v: v in LANGUAGES, f"must be one of {', '.join(LANGUAGES)}"),
    "expires_at": (is_moment, f"must be {MOMENT}"),
    "readers": (is_principal_list, PRINCIPALS_RULE),
    "writers": (is_principal_list, PRINCIPALS_RULE),
    "external_id": (
        _text(1, MAX_EXTERNAL_ID),
        f"must be text of 1 to {MAX_EXTERNAL_ID} characters, {STORABLE}",
    ),
}
