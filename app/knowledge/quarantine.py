"""Flags of suspicious content, the quarantine of flagged entries, and releases from it.

A release covers the flagged fields as they were when it was given. A field is the title, the content, one tag, the
metadata, or the name of the file. Flags that no field has by itself (hidden text of a file, a phrase that is cut in
two) belong to all fields together.
"""

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, TypeVar
from uuid import UUID

import orjson

from app.contract.entries import FLAGS_KEY, Entry, WrittenEntry
from app.contract.erasures import Release
from app.contract.fields import Page
from app.contract.vocabulary import FLAGS, Flag, SuspiciousContent
from app.db.database import Database
from app.db.queries import audit, entries, quarantine
from app.db.queries.assets import ChunkRow, Inherited, fetch_text
from app.db.queries.quarantine import ScreenedEntry
from app.db.session import TenantSession
from app.documents.screening.screen import find, screen
from app.errors import Quarantined
from app.knowledge.audit import AuditTrail
from app.knowledge.paging import PageRequest

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
    """The metadata without the flags and the numbers of a chunk's place and of its parts'; texts always count."""
    kept = _drop_numbers(metadata, OF_PLACE)
    if isinstance(parts := kept.get("parts"), list):
        of_part = OF_PLACE | {"start", "end"}
        kept["parts"] = [_drop_numbers(part, of_part) if isinstance(part, dict) else part for part in parts]
    kept.pop("flags", None)
    return kept


def _drop_numbers(metadata: Mapping[str, Any], names: Set[str]) -> dict[str, Any]:
    return {k: value for k, value in metadata.items() if not (k in names and isinstance(value, int | float))}


def _dump(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


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


async def flag_chunks(session: TenantSession, asset_id: UUID, before: Sequence[Flag], flags: Sequence[Flag]) -> None:
    """Give the chunks of an asset the flags of the fields that it has now, and judge these chunks again.

    A flag of the fields `before` is removed where neither the text of the asset nor a field of the chunk has it.
    """
    if (policy := await quarantine.fetch_policy(session)) == "keep":
        return
    gone = [flag for flag in before if flag not in flags and flag != _HIDDEN]
    chunks = await quarantine.fetch_chunks_with(session, asset_id, gone) if gone else ()
    if chunks:
        text = await fetch_text(session, asset_id)
        kept = await asyncio.to_thread(_keep_flags, chunks, (text and text[0]) or "", gone)
        cleared = {chunk.id: left for chunk, left in zip(chunks, kept, strict=True) if left != flags_of(chunk.metadata)}
        await quarantine.set_flags(session, cleared)
        await judge(session, [*cleared], policy)
        await quarantine.count_flags(session, asset_id)
    if flags:
        await judge_chunks(session, asset_id, await quarantine.add_flags(session, asset_id, flags, FLAGS), policy)


def _keep_flags(chunks: Sequence[ScreenedEntry], text: str, gone: Sequence[Flag]) -> list[list[Flag]]:
    """The flags of chunks without those of `gone` that their own fields do not have.

    All keep a flag for which a part of the text is in none of them as a whole: it may be cut in two.
    """
    written = "\0".join(chunk.content for chunk in chunks)
    parts = {(finding.flag, text[finding.start : finding.end]) for finding in find(text) if finding.flag in gone}
    cut = {flag for flag, part in parts if len(parts) > MOST_PARTS or part not in written}
    kept = []
    for chunk in chunks:
        own = {*cut, *screen_fields(chunk.title, chunk.content, chunk.tags, chunk.metadata)}
        kept.append([flag for flag in flags_of(chunk.metadata) if flag in own or flag not in gone])
    return kept


MOST_PARTS = 100
"""Suspicious parts of a text that are looked for in its chunks."""


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


_WAY_OUT = (
    "the tools of agents do not return it; a creator or tenant_admin can read it in the console or over HTTP, and an"
    " admin can release it there"
)
HELD_ENTRY = f"the entry is in quarantine: {_WAY_OUT}"
HELD_ASSET = f"a part of the text is in quarantine: {_WAY_OUT}"


async def require_released(session: TenantSession, asset_id: UUID) -> None:
    """Check, after a text of the asset was read, that none of it is in quarantine. Raises Quarantined."""
    if await quarantine.is_held(session, asset_id):
        raise Quarantined(HELD_ASSET)


class QuarantineService:
    """Lists and releases the quarantined entries of any tenant, for its admin."""

    def __init__(self, database: Database, trail: AuditTrail) -> None:
        self._database = database
        self._trail = trail

    async def list_quarantined(
        self,
        tenant_id: UUID,
        *,
        limit: int = 50,
        cursor: str | None = None,
        asset_id: UUID | None = None,
        reader: str | None = None,
    ) -> Page[Entry]:
        """Quarantined entries and chunks, newest first; with `reader`, recorded in the audit trail.

        Raises InvalidInput for a bad cursor.
        """
        wanted = PageRequest.read(limit, cursor)
        async with self._database.tenant_session(tenant_id) as session:
            page = wanted.cut_places(await quarantine.list_quarantined(session, wanted.after, wanted.reach, asset_id))
            found = await entries.fetch_entries(session, [place.id for place in page.items])
            await self._trail.note_read(session, reader, "quarantine.read")
        return Page([found[place.id] for place in page.items if place.id in found], page.next_cursor)

    async def release(self, tenant_id: UUID, wanted: Release, *, actor: str = "service") -> Sequence[UUID]:
        """End the quarantine of entries and of the chunks of assets; return the released entries.

        Their flagged fields are released: a text, title, tag or metadata is not quarantined again for the flags that
        it has now, wherever it is written. Others with the same text and nothing else that is flagged are released
        too. Ids that are not in quarantine are skipped.
        """
        async with self._database.tenant_session(tenant_id) as session:
            named, others = await quarantine.choose(session, wanted.entry_ids, wanted.asset_ids)
            await note_releases(session, named)
            released = sorted([*named, *await find_released(session, others)])
            if released:
                await quarantine.release(session, released)
                await audit.write_audit(session, actor, "quarantine.release", released, {"entries": len(released)})
        return released
