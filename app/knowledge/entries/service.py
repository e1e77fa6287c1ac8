"""Create, read, list, change and delete entries."""

import logging
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import get_args
from uuid import UUID

import asyncpg

from app.contract.entries import BulkRequest, BulkResult, Entry, EntryDraft, NewEntry
from app.contract.fields import Page
from app.contract.validation import OBJECT, UNSET, validate
from app.contract.vocabulary import EntrySort, Source, SuspiciousContent
from app.db.database import Database
from app.db.queries import audit
from app.db.queries import entries as db
from app.db.session import TenantSession
from app.errors import ConcurrentWrites, EntryNotFound, FieldError, InvalidInput, PartOfAsset, Quarantined
from app.knowledge.audit import AuditTrail
from app.knowledge.entries.embedding import EntryEmbedder
from app.knowledge.entries.entry import own_draft, own_new_draft
from app.knowledge.entries.reading import AccessCounter
from app.knowledge.entries.writing import (
    EMBEDDING_WAIT,
    LINK_OUTSIDE,
    EntryWriter,
    change_of_chunk,
    check_references,
    failed_result,
    find_existing,
    find_unresolved,
    growth,
    hold_successions,
    lock_entry,
    merge,
    note_writes,
)
from app.knowledge.paging import NEWEST_FIRST, PageRequest
from app.knowledge.principals import require_one_server
from app.knowledge.quarantine import HELD_ENTRY
from app.knowledge.queue import JobQueue
from app.knowledge.tenants.directory import TenantContext, TenantDirectory
from app.knowledge.tenants.quotas import Room, find_room

log = logging.getLogger("app.knowledge.entries")

REFUSED = (
    asyncpg.DataError,
    asyncpg.PostgresSyntaxError,
    asyncpg.ProgramLimitExceededError,
    asyncpg.CheckViolationError,
)
"""Errors of the database about the values of one row. A syntax error is about a value, e.g. of a tsvector."""

UNSTORABLE = FieldError("entry", "the database cannot store its values")

LINKS = "links_within_readers"
"""The constraint of the database on links, which names no table."""


@dataclass(eq=False)
class EntryService:
    """Creates, reads, lists, changes and deletes the entries of any tenant."""

    database: Database
    trail: AuditTrail
    embedder: EntryEmbedder
    jobs: JobQueue
    tenants: TenantDirectory
    accesses: AccessCounter

    def __post_init__(self) -> None:
        self._writer = EntryWriter(self.jobs)

    async def create(self, tenant_id: UUID, draft: EntryDraft, *, actor: str = "service") -> tuple[Entry, bool]:
        """Create an entry, or update the one with the same external_id, else the same content.

        An update changes only the fields that are set, and removes an expiry that has passed. Returns the entry and
        whether it is new. When this returns, keyword search finds the entry, and semantic search normally does too.
        Raises InvalidInput, Conflict, RateLimited (a quota is reached) and DatabaseUnavailable.
        """
        draft = own_new_draft(draft)
        require_one_server(self.database, readers=draft.readers, writers=draft.writers)
        tenant = await self.tenants.context(tenant_id)
        async with self._writing(tenant_id) as session:
            room = await find_room(session, tenant)
            await check_references(session, draft)
            (result,) = await self._writer.write(
                session, {0: draft}, room, tenant.settings.suspicious_content, delay=EMBEDDING_WAIT + 1, strict=True
            )
            await note_writes(session, actor, [result])
        assert result.id is not None
        if draft.restricts:
            self.tenants.forget(tenant_id)  # it may use permissions from now on
        if result.status != "unchanged":
            await self.embedder.embed_soon(tenant_id, [result.id], EMBEDDING_WAIT)
        return await self.get(tenant_id, result.id), result.status == "created"

    async def create_many(
        self, tenant_id: UUID, items: Sequence[object], *, actor: str = "service"
    ) -> list[BulkResult]:
        """Write 1 to 1,000 entries as `create` does; a refused entry does not affect the others.

        Each is a draft, or the parsed JSON of a new entry. They are embedded in the background. Raises InvalidInput for
        a wrong number of items, Conflict and DatabaseUnavailable.
        """
        items = BulkRequest(entries=items).entries
        results: dict[int, BulkResult] = {}
        drafts: dict[int, EntryDraft] = {}
        for index, item in enumerate(items):
            try:
                given = item if isinstance(item, EntryDraft) else _read(item)
                drafts[index] = draft = own_new_draft(given)
                require_one_server(self.database, readers=draft.readers, writers=draft.writers)
            except InvalidInput as error:
                drafts.pop(index, None)
                results[index] = BulkResult(index, None, "failed", str(error))
        if not drafts:
            return [results[index] for index in range(len(items))]
        restricts = any(draft.restricts for draft in drafts.values())
        tenant = await self.tenants.context(tenant_id)
        results |= await self._write_drafts(tenant, drafts, actor)
        if restricts:
            self.tenants.forget(tenant_id)
        self.jobs.wake()
        return [results[index] for index in range(len(items))]

    async def _write_drafts(
        self, tenant: TenantContext, drafts: Mapping[int, EntryDraft], actor: str
    ) -> dict[int, BulkResult]:
        """Write drafts in one transaction, each with its own result.

        If the database refuses the values of one, each half is written again on its own, until only that one fails.
        """
        try:
            async with self._writing(tenant.tenant_id) as session:
                room = await find_room(session, tenant)
                problems = await find_unresolved(session, drafts)
                results = {index: failed_result(index, problem) for index, problem in problems.items()}
                if valid := {index: draft for index, draft in drafts.items() if index not in results}:
                    written = await self._writer.write(
                        session, valid, room, tenant.settings.suspicious_content, delay=0.0
                    )
                    results.update((result.index, result) for result in written)
                await note_writes(session, actor, list(results.values()))
                return results
        except REFUSED as error:
            if len(drafts) == 1:
                log.error("the database refused the values of an entry: SQLSTATE %s", error.sqlstate)
                return {index: failed_result(index, UNSTORABLE) for index in drafts}
        places = sorted(drafts)
        middle = len(places) // 2
        results = {}
        for half in (places[:middle], places[middle:]):
            results |= await self._write_drafts(tenant, {index: drafts[index] for index in half}, actor)
        return results

    async def get(self, tenant_id: UUID, entry_id: UUID) -> Entry:
        """One entry. Raises EntryNotFound."""
        async with self.database.tenant_session(tenant_id) as session:
            rows = await db.fetch_entries(session, [entry_id])
        if entry_id not in rows:
            raise EntryNotFound("there is no entry with this id")
        return rows[entry_id]

    async def read(self, tenant_id: UUID, entry_id: UUID, *, include_quarantined: bool = False) -> Entry:
        """One entry for a caller, which counts as an access for the `access` boost.

        Raises EntryNotFound, and Quarantined for a quarantined entry without `include_quarantined`.
        """
        entry = await self.get(tenant_id, entry_id)
        if entry.quarantined and not include_quarantined:
            raise Quarantined(HELD_ENTRY)
        if entry.embedding_status == "ready":  # a client that waits for the vector polls the entry
            self.accesses.note(tenant_id, entry_id)
        return entry

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
        source: Source | None = None,
        include_expired: bool = False,
        include_quarantined: bool = False,
        sort: EntrySort = NEWEST_FIRST,
    ) -> Page[Entry]:
        """Entries, by default newest first; expired and quarantined ones only where they are included.

        Raises InvalidInput, also for a bad cursor.
        """
        wanted = PageRequest.read(limit, cursor, sort, get_args(EntrySort))
        async with self.database.tenant_session(tenant_id) as session:
            places = await db.list_entries(
                session,
                order=wanted.order,
                after=wanted.after,
                limit=wanted.reach,
                entry_type=entry_type,
                tag=tag,
                asset_id=asset_id,
                external_id=external_id,
                source=source,
                include_expired=include_expired,
                include_quarantined=include_quarantined,
            )
            page = wanted.cut_places(places)
            found = await db.fetch_entries(session, [place.id for place in page.items])
        # Another request can delete or hide an item between the two statements.
        return Page([found[place.id] for place in page.items if place.id in found], page.next_cursor)

    async def change(
        self,
        tenant_id: UUID,
        entry_id: UUID,
        draft: EntryDraft,
        *,
        if_version: int | Collection[int] | None = None,
        actor: str = "service",
    ) -> Entry:
        """Change the fields that are set; a changed text is embedded again.

        Metadata is replaced, except a chunk's position in its asset, which is kept.
        Raises EntryNotFound, InvalidInput, PreconditionFailed when the entry's version is not in `if_version`, and
        Conflict when another entry has the same content or external_id, or when the change is to the text or position
        of a chunk.
        """
        draft = own_draft(draft)
        require_one_server(self.database, readers=draft.readers, writers=draft.writers)
        grows = draft.content is not UNSET or draft.title is not UNSET
        tenant = await self.tenants.context(tenant_id)
        async with self.trail.attempt(tenant_id, actor, "entry.update", [entry_id]):
            try:
                async with self._writing(tenant_id) as session:
                    room = await find_room(session, tenant) if grows else None
                    changed = await self._change(
                        session, entry_id, draft, if_version, room, tenant.settings.suspicious_content
                    )
                    if changed:
                        fields = {"fields": sorted(draft.given())}
                        await audit.write_audit(session, actor, "entry.update", [entry_id], fields)
            except asyncpg.UniqueViolationError as error:
                stored = await self.get(tenant_id, entry_id)
                async with self.database.tenant_session(tenant_id) as session:
                    raise await find_existing(session, stored, draft) from error
        if draft.restricts:
            self.tenants.forget(tenant_id)
        if changed:
            await self.embedder.embed_soon(tenant_id, [entry_id], EMBEDDING_WAIT)
        return await self.get(tenant_id, entry_id)

    async def delete(
        self,
        tenant_id: UUID,
        entry_id: UUID,
        *,
        if_version: int | Collection[int] | None = None,
        actor: str = "service",
    ) -> None:
        """Delete an entry. Raises EntryNotFound, PreconditionFailed, and Conflict for a chunk of an asset."""
        async with self.trail.writing(tenant_id, actor, "entry.delete", [entry_id]) as session:
            locked = await lock_entry(session, entry_id, if_version)
            if locked.asset_id is not None:
                raise PartOfAsset("the entry is a chunk of an asset: delete the asset instead")
            await db.delete_entry(session, entry_id)
            await audit.write_audit(session, actor, "entry.delete", [entry_id], {})

    @asynccontextmanager
    async def _writing(self, tenant_id: UUID) -> AsyncIterator[TenantSession]:
        """A transaction that writes entries. Raises ConcurrentWrites if one that they name was just deleted."""
        try:
            async with self.database.tenant_session(tenant_id) as session:
                yield session
        except asyncpg.ForeignKeyViolationError as error:
            raise ConcurrentWrites("an entry that is referred to has just been deleted; try again") from error
        except asyncpg.CheckViolationError as error:
            if error.constraint_name != LINKS:
                raise
            raise InvalidInput.of("readers", f"parent_id, source_ids and superseded_by_id {LINK_OUTSIDE}") from None

    async def _change(
        self,
        session: TenantSession,
        entry_id: UUID,
        draft: EntryDraft,
        if_version: int | Collection[int] | None,
        room: Room | None,
        policy: SuspiciousContent,
    ) -> bool:
        """Change one entry; return whether anything differed. Raises as `change` does."""
        await hold_successions(session, [draft])
        stored = await lock_entry(session, entry_id, if_version)
        await check_references(session, draft, entry_id)
        if stored.asset_id is not None:
            draft = change_of_chunk(stored, draft)
        if room is not None and (over := room.take_bytes(growth(stored, draft))) is not None:
            raise over
        wanted = merge(stored, draft)
        await self._writer.save(session, {entry_id: stored}, {entry_id: wanted}, policy)
        return wanted != stored


def _read(item: object) -> NewEntry:
    """The new entry of parsed JSON. Raises InvalidInput."""
    if not isinstance(item, dict):
        raise InvalidInput.of("entry", OBJECT)
    return validate(NewEntry, item)
