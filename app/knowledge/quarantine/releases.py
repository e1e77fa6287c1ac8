"""Releases from quarantine: each covers the flagged fields as they were when it was given.

A field is the title, the content, one tag, the metadata, or the name of the file. Flags that no field has by itself
(hidden text of a file, a phrase that is cut in two) belong to all fields together.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar
from uuid import UUID

import orjson

from app.contract.vocabulary import FLAGS, Flag
from app.db.queries import quarantine
from app.db.queries.quarantine import ScreenedEntry
from app.db.session import TenantSession
from app.documents.screening.screen import screen

AT_ONCE = 500
"""Entries whose fields are read at once."""

OF_PLACE = frozenset({"char_start", "char_end", "page", "page_end", "total_pages", "header_chars", "ocr"})
"""Metadata of a chunk about its place in the file; the same text in another place counts as the same."""

Result = TypeVar("Result")


def flagged_fields(entry: ScreenedEntry) -> dict[bytes, set[Flag]]:
    """The hashes of an entry's flagged fields, with their flags."""
    stored = {flag for flag in FLAGS if flag in entry.metadata.get("flags", ())}
    fields: dict[bytes, set[Flag]] = {}
    for text in _fields(entry):
        if flags := stored.intersection(screen(text)):
            fields[_hash(text)] = flags
    if rest := stored.difference(*fields.values()):
        fields[_hash(_whole(entry))] = rest
    return fields


def all_fields(entry: ScreenedEntry) -> set[bytes]:
    """The hashes of all fields of an entry, and of all of them together."""
    return {_hash(text) for text in (*_fields(entry), _whole(entry))}


async def find_released(session: TenantSession, ids: Sequence[UUID]) -> list[UUID]:
    """Return the flagged entries whose flagged fields are all released for their flags."""
    if not ids or not await quarantine.has_releases(session):
        return []
    released = []
    for found in await _read(session, ids, flagged_fields):
        hashes = {key for fields in found.values() for key in fields}
        known = await quarantine.fetch_released(session, sorted(hashes))
        released += [
            entry_id
            for entry_id, fields in found.items()
            if all(flags <= known.get(key, set()) for key, flags in fields.items())
        ]
    return released


async def note_releases(session: TenantSession, ids: Sequence[UUID]) -> None:
    """Record that the flagged fields of these entries are released."""
    fields: dict[bytes, set[str]] = {}
    for found in await _read(session, ids, flagged_fields):
        for each in found.values():
            for key, flags in each.items():
                fields.setdefault(key, set()).update(flags)
    await quarantine.note_releases(session, fields)


async def forget_releases(session: TenantSession, ids: Sequence[UUID]) -> int:
    """Remove the releases of all fields of these entries and of their former versions; returns their number."""
    if not await quarantine.has_releases(session):
        return 0
    hashes = {key for entry in await quarantine.fetch_written(session, ids) for key in all_fields(entry)}
    return await quarantine.forget_releases(session, sorted(hashes))


async def _read(
    session: TenantSession, ids: Sequence[UUID], read: Callable[[ScreenedEntry], Result]
) -> list[dict[UUID, Result]]:
    """What `read` returns for each of these entries that has flags, in parts of `AT_ONCE` entries."""
    parts = []
    for start in range(0, len(ids), AT_ONCE):
        entries = await quarantine.fetch_screened(session, ids[start : start + AT_ONCE])
        parts.append(await asyncio.to_thread(lambda part: {e.id: read(e) for e in part}, entries))
    return parts


def _fields(entry: ScreenedEntry) -> list[str]:
    metadata = _screened_metadata(entry.metadata)
    given = (entry.asset_name, entry.title, entry.content, *entry.tags, _dump(metadata) if metadata else None)
    return [text for text in given if text]


def _whole(entry: ScreenedEntry) -> str:
    metadata = _screened_metadata(entry.metadata)
    return _dump(["all fields", entry.title, entry.content, sorted(entry.tags), metadata])


def _screened_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata without the flags and the numbers of a chunk's place; texts always count."""
    return {
        name: value
        for name, value in metadata.items()
        if name != "flags" and not (name in OF_PLACE and isinstance(value, int | float))
    }


def _dump(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
