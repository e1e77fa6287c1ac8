"""Set and read `metadata.flags` of entries and chunks, which only the service sets."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar
from uuid import UUID

import orjson

from app.contract.entries import FLAGS_KEY, Entry, WrittenEntry
from app.contract.vocabulary import FLAGS, Flag, SuspiciousContent
from app.db.queries import quarantine
from app.db.queries.assets import ChunkRow, Inherited
from app.db.session import TenantSession
from app.documents.screening.screen import screen
from app.knowledge.quarantine.releases import find_released

INLINE = 200_000
"""Characters that are screened where they are written: two milliseconds. More are screened in a thread."""

_HIDDEN: Flag = "invisible_text"
"""The flag that comes from the form of a file, and not from its text."""

Written = TypeVar("Written", bound=WrittenEntry)


def flags_of(metadata: Mapping[str, Any]) -> list[Flag]:
    """The flags that metadata has, in their order."""
    given = metadata.get(FLAGS_KEY)
    return [flag for flag in FLAGS if flag in given] if isinstance(given, list) else []


def with_flags(metadata: Mapping[str, Any], flags: Sequence[Flag]) -> Mapping[str, Any]:
    """The metadata with these flags and no others."""
    if not flags and FLAGS_KEY not in metadata:
        return metadata
    rest = {name: value for name, value in metadata.items() if name != FLAGS_KEY}
    return {**rest, FLAGS_KEY: [flag for flag in FLAGS if flag in flags]} if flags else rest


def screen_fields(title: str | None, content: str, tags: Sequence[str], metadata: Mapping[str, Any]) -> list[Flag]:
    """The flags of a caller's text. Fields are separate: no field continues another."""
    return screen(_joined(title, content, tags, metadata))


async def flag_new(entries: Sequence[WrittenEntry], policy: SuspiciousContent) -> list[WrittenEntry]:
    """New entries with their flags."""
    found = await _screen_all(entries) if policy != "keep" else [[]] * len(entries)
    return [_flagged(entry, flags) for entry, flags in zip(entries, found, strict=True)]


async def flag_changed(stored: Mapping[Any, Entry], changed: Sequence[Entry], policy: SuspiciousContent) -> list[Entry]:
    """Changed entries with the flags of what they contain now.

    A chunk keeps the flags that it has: they are those of its place in the document, and change when it is ingested
    again. What has not changed keeps its flags; with the policy `keep`, a new text has none.
    """
    touched = [entry for entry in changed if content_of(entry) != content_of(stored[entry.id])]
    found = await _screen_all(touched) if policy != "keep" else [[]] * len(touched)
    flags: dict[Any, list[Flag]] = {entry.id: found for entry, found in zip(touched, found, strict=True)}
    for entry in touched:
        before = stored[entry.id]
        old = flags_of(before.metadata)
        if entry.asset_id is not None:
            flags[entry.id] += old
        elif _HIDDEN in old and entry.content == before.content:
            flags[entry.id] = [_HIDDEN, *flags[entry.id]]
        elif policy == "keep" and (entry.content, entry.title) == (before.content, before.title):
            flags[entry.id] = old
    return [_flagged(entry, flags[entry.id]) if entry.id in flags else entry for entry in changed]


def add_inherited(rows: list[ChunkRow], name: str, inherited: Inherited) -> list[ChunkRow]:
    """The chunks of an asset, with the flags of the fields that they have from it."""
    flags = screen_fields(inherited.given_title, name, inherited.tags, inherited.metadata)
    if not flags:
        return rows
    return [replace(row, flags=[f for f in FLAGS if f in flags or f in row.flags]) for row in rows]


async def flag_chunks(session: TenantSession, asset_id: UUID, flags: Sequence[Flag]) -> None:
    """Add the flags of the fields that an asset has now to its stored chunks, and judge these again."""
    if flags and (policy := await quarantine.fetch_policy(session)) != "keep":
        await judge_chunks(session, asset_id, await quarantine.add_flags(session, asset_id, flags, FLAGS), policy)


async def judge_chunks(
    session: TenantSession, asset_id: UUID, flagged: Sequence[UUID], policy: SuspiciousContent
) -> None:
    """Quarantine flagged chunks of an asset that are not released, if the tenant does so, and count its flags."""
    if flagged:
        await apply_policy(session, flagged, policy)
        await quarantine.count_flags(session, asset_id)


async def apply_policy(session: TenantSession, ids: Sequence[UUID], policy: SuspiciousContent) -> None:
    """Quarantine flagged entries that were just written and are not released, if the tenant does so."""
    if policy == "quarantine" and ids:
        await judge(session, ids, policy)


async def judge(session: TenantSession, ids: Sequence[UUID], policy: SuspiciousContent) -> None:
    """Quarantine entries that were just changed, or end their quarantine, by the tenant's policy."""
    quarantines = policy == "quarantine"
    released = await find_released(session, ids) if quarantines else []
    await quarantine.judge(session, ids, released, quarantines=quarantines)


def _flagged(entry: Written, flags: Sequence[Flag]) -> Written:
    metadata = with_flags(entry.metadata, flags)
    return entry if metadata is entry.metadata else replace(entry, metadata=metadata)


def content_of(entry: WrittenEntry) -> tuple[Any, ...]:
    """The fields that are screened."""
    return entry.title, entry.content, entry.tags, with_flags(entry.metadata, ())


def _joined(title: str | None, content: str, tags: Sequence[str], metadata: Mapping[str, Any]) -> str:
    rest = {name: value for name, value in metadata.items() if name != FLAGS_KEY}
    parts = [title or "", content, *tags, orjson.dumps(rest).decode() if rest else ""]
    return "\n\n".join(part for part in parts if part)


async def _screen_all(entries: Sequence[WrittenEntry]) -> list[list[Flag]]:
    texts = [_joined(e.title, e.content, e.tags, e.metadata) for e in entries]
    if sum(map(len, texts)) <= INLINE:
        return [screen(text) for text in texts]
    return await asyncio.to_thread(lambda: [screen(text) for text in texts])
