"""Writing and reading entries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

import asyncpg

from app.db import embeddings as vectors
from app.db import entries as db
from app.db import records
from app.db.identifiers import new_id
from app.db.session import Database, Row, TenantSession
from app.errors import Conflict, EntryNotFound, FieldError, InvalidInput, PreconditionFailed
from app.knowledge.audit import AuditTrail
from app.knowledge.drafts import Draft, check_references, find_unresolved
from app.knowledge.embedding import EntryEmbedder
from app.knowledge.entry import DEFAULTS, Entry, check_draft, detect, new_entry_values
from app.knowledge.jobs import JobQueue
from app.knowledge.paging import Page, page_of
from app.knowledge.quotas import Room, find_room
from app.knowledge.tenants import TenantDirectory

Outcome = Literal["created", "updated", "unchanged", "failed"]

MAX_BULK = 1_000
EMBEDDING_WAIT = 5.0
"""Seconds that writing a single entry waits for its vector; the queue makes it later if that is not enough."""


@dataclass(frozen=True, slots=True)
class BulkResult:
    """What became of one entry of a bulk write; `error` says why it failed."""

    index: int
    id: UUID | None
    status: Outcome
    error: str | None = None


class EntryService:
    """Creates, reads, lists, changes and deletes the entries of any tenant."""

    def __init__(
        self, database: Database, embedder: EntryEmbedder, jobs: JobQueue, tenants: TenantDirectory
    ) -> None:
        self._database = database
        self._tenants = tenants
        self._trail = AuditTrail(database)
        self._embedder = embedder
        self._jobs = jobs

    async def create(
        self, tenant_id: UUID, values: Mapping[str, Any], *, actor: str = "service"
    ) -> tuple[Entry, bool]:
        """Add an entry, or bring the one with the same external_id, else the same content, up to these values.

        Returns the entry and whether it is new. Once this returns it is found by its words, and normally by its
        meaning. Raises InvalidInput, Conflict, RateLimited (no room for it) and DatabaseUnavailable.
        """
        draft = Draft(0, check_draft(values))
        if "content" not in draft.given:
            new_entry_values(draft.given)
        tenant = await self._tenants.context(tenant_id)
        async with self._database.tenant_session(tenant_id) as session:
            room = await find_room(session, tenant)
            await check_references(session, draft)
            (result,) = await self._write(session, [draft], room, delay=EMBEDDING_WAIT + 1, strict=True)
            if result.error is not None:
                field, _, message = result.error.partition(": ")
                raise InvalidInput.of(field, message)
            await _note_writes(session, actor, [result])
        assert result.id is not None
        if result.status != "unchanged":
            await self._embedder.embed_soon(tenant_id, [result.id], EMBEDDING_WAIT)
        return await self.get(tenant_id, result.id), result.status == "created"

    async def create_many(
        self, tenant_id: UUID, items: Sequence[Mapping[str, Any]], *, actor: str = "service"
    ) -> list[BulkResult]:
        """Write 1 to 1,000 entries as `create` does; one that is refused does not keep the others from being kept.

        Vectors follow in the background. Raises InvalidInput for a wrong number of items, DatabaseUnavailable.
        """
        if not 1 <= len(items) <= MAX_BULK:
            raise InvalidInput.of("entries", f"must hold 1 to {MAX_BULK} entries")
        results: dict[int, BulkResult] = {}
        drafts: list[Draft] = []
        for index, item in enumerate(items):
            try:
                given = check_draft(item)
                new_entry_values(given) if "content" not in given else None
                drafts.append(Draft(index, given))
            except InvalidInput as error:
                results[index] = BulkResult(index, None, "failed", str(error))
        tenant = await self._tenants.context(tenant_id)
        async with self._database.tenant_session(tenant_id) as session:
            room = await find_room(session, tenant)
            for draft, problem in await find_unresolved(session, drafts):
                results[draft.index] = _failed(draft, None, problem)
            drafts = [d for d in drafts if d.index not in results]
            # Repeats within one request are written in turn, each seeing the one before.
            while drafts:
                firsts = {d.key: d for d in reversed(drafts)}
                turn = [d for d in drafts if firsts[d.key] is d]
                for result in await self._write(session, turn, room, delay=0.0):
                    results[result.index] = result
                drafts = [d for d in drafts if firsts[d.key] is not d]
            await _note_writes(session, actor, list(results.values()))
        self._jobs.wake()
        return [results[index] for index in range(len(items))]

    async def get(self, tenant_id: UUID, entry_id: UUID) -> Entry:
        """One entry. Raises EntryNotFound."""
        async with self._database.tenant_session(tenant_id) as session:
            rows = await db.fetch_entries(session, [entry_id])
        if entry_id not in rows:
            raise EntryNotFound("there is no entry with this id")
        return Entry.from_row(rows[entry_id])

    async def list_entries(
        self,
        tenant_id: UUID,
        *,
        limit: int = 50,
        cursor: str | None = None,
        entry_type: str | None = None,
        tag: str | None = None,
        asset_id: UUID | None = None,
        external_id: str | None = None,
    ) -> Page[Entry]:
        """Entries, newest first. Raises InvalidInput for a bad cursor."""
        async with self._database.tenant_session(tenant_id) as session:

            async def read(before: tuple[datetime, UUID] | None, count: int) -> Sequence[Row]:
                return await db.list_entries(
                    session,
                    before=before,
                    limit=count,
                    entry_type=entry_type,
                    tag=tag,
                    asset_id=asset_id,
                    external_id=external_id,
                )

            page = await page_of(read, limit, cursor, "created_at")
            rows = await db.fetch_entries(session, [row["id"] for row in page.items])
        return Page([Entry.from_row(rows[r["id"]]) for r in page.items], page.next_cursor)

    async def change(
        self,
        tenant_id: UUID,
        entry_id: UUID,
        values: Mapping[str, Any],
        *,
        if_version: int | None = None,
        actor: str = "service",
    ) -> Entry:
        """Change the given fields; a changed text is embedded anew.

        Raises EntryNotFound, InvalidInput, PreconditionFailed when the entry is no longer at `if_version`, and
        Conflict when another entry has the same content or external_id, or the text belongs to an asset.
        """
        given = check_draft(values)
        tenant = await self._tenants.context(tenant_id)
        async with self._trail.attempt(tenant_id, actor, "entry.update", [entry_id]):
            try:
                async with self._database.tenant_session(tenant_id) as session:
                    room = (
                        await find_room(session, tenant) if "content" in given or "title" in given else None
                    )
                    changed = await self._change(session, entry_id, given, if_version, room)
                    if changed:
                        fields = {"fields": sorted(given)}
                        await records.write_audit(session, actor, "entry.update", [entry_id], fields)
            except asyncpg.UniqueViolationError as error:
                raise Conflict("another entry has the same content or external_id") from error
        if changed:
            await self._embedder.embed_soon(tenant_id, [entry_id], EMBEDDING_WAIT)
        return await self.get(tenant_id, entry_id)

    async def delete(
        self, tenant_id: UUID, entry_id: UUID, *, if_version: int | None = None, actor: str = "service"
    ) -> None:
        """Remove an entry. Raises EntryNotFound, PreconditionFailed, and Conflict for a chunk of an asset."""
        async with (
            self._trail.attempt(tenant_id, actor, "entry.delete", [entry_id]),
            self._database.tenant_session(tenant_id) as session,
        ):
            row = await db.lock_entry(session, entry_id)
            if row is None:
                raise EntryNotFound("there is no entry with this id")
            if if_version is not None and row["version"] != if_version:
                raise PreconditionFailed("the entry has changed since it was read")
            if row["asset_id"] is not None:
                raise Conflict("the entry is a chunk of an asset: delete the asset instead")
            await db.delete_entry(session, entry_id)
            await records.write_audit(session, actor, "entry.delete", [entry_id], {})

    async def _change(
        self,
        session: TenantSession,
        entry_id: UUID,
        given: Mapping[str, Any],
        if_version: int | None,
        room: Room | None,
    ) -> bool:
        """Change one entry, if anything differs. Raises as `change` does."""
        row = await db.lock_entry(session, entry_id)
        if row is None:
            raise EntryNotFound("there is no entry with this id")
        if if_version is not None and row["version"] != if_version:
            raise PreconditionFailed("the entry has changed since it was read")
        await check_references(session, Draft(0, given), entry_id)
        if row["asset_id"] is not None and given.keys() & {"content", "title", "entry_type", "external_id"}:
            raise Conflict("the entry is a chunk of an asset: upload a new version of the asset instead")
        if room is not None and (over := room.take_bytes(_growth(row, given))) is not None:
            raise over
        return bool(await self._apply(session, [(row, given)]))

    async def _write(
        self,
        session: TenantSession,
        drafts: Sequence[Draft],
        room: Room | None,
        *,
        delay: float,
        strict: bool = False,
    ) -> list[BulkResult]:
        """Insert or update drafts that do not repeat one another; the queue embeds after `delay` seconds.

        Those for which there is no room fail; with `strict` that raises RateLimited.
        """
        results: list[BulkResult] = []

        def fits(draft: Draft, row: Row | None = None) -> bool:
            if room is None:
                return True
            given = draft.given
            over = room.take_entry(_size(given)) if row is None else room.take_bytes(_growth(row, given))
            if over is not None and strict:
                raise over
            if over is not None:
                results.append(BulkResult(draft.index, row["id"] if row else None, "failed", str(over)))
            return over is None

        remaining = list(drafts)
        for _ in range(5):
            same = await db.find_same(session, [d.key for d in remaining])
            new = {new_id(): d for place, d in enumerate(remaining) if place not in same and fits(d)}
            added: set[UUID] = set()
            if new:
                rows = [{"id": i, **new_entry_values(d.given)} for i, d in new.items()]
                added = await db.insert_entries(session, rows)
                await vectors.mark_pending(session, sorted(added))
            results += [BulkResult(new[i].index, i, "created") for i in added]
            existing = await db.lock_entries(session, sorted(set(same.values())))
            known = [(d, existing[same[p]]) for p, d in enumerate(remaining) if same.get(p) in existing]
            for draft, row in list(known):
                if (error := draft.self_reference(row["id"])) is not None:
                    results.append(_failed(draft, row["id"], error))
                    known.remove((draft, row))
            known = [(d, row) for d, row in known if fits(d, row)]
            changed = await self._apply(session, [(row, d.given) for d, row in known])
            results += [
                BulkResult(d.index, row["id"], "updated" if row["id"] in changed else "unchanged")
                for d, row in known
            ]
            done = {r.index for r in results}
            # Left over: another writer added the same entry meanwhile, or removed it.
            remaining = [d for d in remaining if d.index not in done]
            if not remaining:
                break
        else:
            raise Conflict("the entry is being written by others; try again")
        if any(r.status in ("created", "updated") for r in results):
            await self._jobs.enqueue(session, "embed_entries", "entries", delay=delay)
        return results

    async def _apply(
        self, session: TenantSession, changes: Sequence[tuple[Row, Mapping[str, Any]]]
    ) -> set[UUID]:
        """Write what differs to locked rows; returns the ids of the entries that changed."""
        updates: list[dict[str, Any]] = []
        new_texts: list[UUID] = []
        for row, given in changes:
            stored = {name: row[name] for name in ("content", *DEFAULTS)}
            wanted = {**stored, **given}
            text_changed = any(wanted[name] != stored[name] for name in ("content", "title"))
            if wanted["language"] is None or (text_changed and "language" not in given):
                wanted["language"] = detect(wanted["title"], wanted["content"])
            if wanted != stored:
                updates.append({"id": row["id"], **wanted})
                if text_changed:
                    new_texts.append(row["id"])
        if updates:
            await db.update_entries(session, updates)
        if new_texts:
            await vectors.drop_vectors(session, new_texts)
            await vectors.mark_pending(session, new_texts)
            await self._jobs.enqueue(session, "embed_entries", "entries", delay=EMBEDDING_WAIT + 1)
        return {u["id"] for u in updates}


def _size(values: Mapping[str, Any]) -> int:
    """Characters as the database counts them: a title's twice."""
    return len(values["content"]) + 2 * len(values.get("title") or "")


def _growth(row: Row, given: Mapping[str, Any]) -> int:
    """What a change adds to the tenant's text."""
    stored = {"content": row["content"], "title": row["title"]}
    return max(0, _size({**stored, **given}) - _size(stored))


def _failed(draft: Draft, entry_id: UUID | None, error: FieldError) -> BulkResult:
    return BulkResult(draft.index, entry_id, "failed", f"{error.field}: {error.message}")


async def _note_writes(session: TenantSession, actor: str, results: Sequence[BulkResult]) -> None:
    touched = [r.id for r in results if r.id is not None and r.status in ("created", "updated")]
    if touched:
        counts = {s: sum(r.status == s for r in results) for s in ("created", "updated")}
        await records.write_audit(session, actor, "entry.write", list(dict.fromkeys(touched)), counts)
