"""Manifests: what the origin of a source has, as the caller lists it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.errors import FieldError, InvalidInput
from app.knowledge.entries.entry import MAX_EXTERNAL_ID
from app.knowledge.principals import RULE, is_principal_list
from app.knowledge.text import STORABLE, is_storable
from app.origins.origin import hide_login

MAX_ITEMS = 100_000
MAX_DIGEST = 200
MAX_NAME = 512
MAX_ORIGIN = 2_000
MOST_ERRORS = 20
SOURCE_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
NAME_RULE = "must be 1 to 63 of a-z, 0-9, '.', '_' and '-', and start with a letter or a digit"
FIELDS = frozenset({"external_id", "digest", "name", "size", "readers"})
CHECKED = "sha256:"
"""A digest with this prefix is the SHA-256 of the bytes in hexadecimal, and an upload must have it."""


@dataclass(frozen=True, slots=True)
class ManifestItem:
    """A file of the origin. Equal digests mean equal bytes; `size` is in bytes, if it is known.

    `readers` are those that the origin has for it; None: those of the source.
    """

    external_id: str
    digest: str
    name: str
    size: int | None = None
    readers: Sequence[str] | None = None


def check_source_name(name: str) -> None:
    """Raise InvalidInput unless a source can have this name."""
    if not SOURCE_NAME.fullmatch(name):
        raise InvalidInput.of("name", NAME_RULE)


def read_origin(origin: str | None) -> str | None:
    """The description of where a source comes from, without user and password. Raises InvalidInput."""
    if origin is None:
        return None
    if not (1 <= len(origin) <= MAX_ORIGIN and is_storable(origin)):
        raise InvalidInput.of("origin", f"must be 1 to {MAX_ORIGIN:,} characters, {STORABLE}")
    return hide_login(origin)


def read_manifest(items: Sequence[Any]) -> list[ManifestItem]:
    """Check the items of a manifest, which may be parsed JSON. Raises InvalidInput with the first errors."""
    if len(items) > MAX_ITEMS:
        raise InvalidInput.of("items", f"must be at most {MAX_ITEMS:,} items")
    errors: list[FieldError] = []
    found: dict[str, ManifestItem] = {}
    for number, given in enumerate(items):
        item = given if isinstance(given, ManifestItem) else _read_item(given)
        wrong = item if isinstance(item, FieldError) else _find_error(item)
        if wrong is None and not isinstance(item, FieldError):
            if item.external_id in found:
                wrong = FieldError("external_id", "is in the manifest twice")
            found[item.external_id] = item
        if wrong is not None:
            errors.append(FieldError(f"items.{number}.{wrong.field}".rstrip("."), wrong.message))
            if len(errors) == MOST_ERRORS:
                break
    if errors:
        raise InvalidInput(errors)
    return list(found.values())


def _read_item(given: Any) -> ManifestItem | FieldError:
    if not isinstance(given, Mapping):
        return FieldError("", "must be an object")
    if unknown := given.keys() - FIELDS:
        return FieldError(str(min(unknown)), "unknown field")
    external_id, digest = given.get("external_id"), given.get("digest")
    if not isinstance(external_id, str):
        return FieldError("external_id", "must be a text")
    if not isinstance(digest, str):
        return FieldError("digest", "must be a text")
    name, size = given.get("name"), given.get("size")
    if name is not None and not isinstance(name, str):
        return FieldError("name", "must be a text or null")
    if size is not None and (not isinstance(size, int) or isinstance(size, bool) or size < 0):
        return FieldError("size", "must be a number of bytes or null")
    return ManifestItem(external_id, digest, name or name_of(external_id), size, given.get("readers"))


def name_of(external_id: str) -> str:
    """The name of a file without its folders."""
    return external_id.rstrip("/").rpartition("/")[2].strip() or external_id


def _find_error(item: ManifestItem) -> FieldError | None:
    for field, text, most in (
        ("external_id", item.external_id, MAX_EXTERNAL_ID),
        ("digest", item.digest, MAX_DIGEST),
        ("name", item.name, MAX_NAME),
    ):
        if not 1 <= len(text) <= most or not is_storable(text):
            return FieldError(field, f"must be 1 to {most} characters, {STORABLE}")
    if item.readers is not None and not is_principal_list(item.readers):
        return FieldError("readers", RULE)
    if "/" in item.name or "\\" in item.name or item.name != item.name.strip():
        return FieldError("name", "must not contain folders, or start or end with white space")
    return None
