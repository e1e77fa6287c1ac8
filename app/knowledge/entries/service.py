"""Create, read, list, change and delete entries: apply defaults and changes, check references, and store them."""

import logging
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, get_args
from uuid import UUID

import asyncpg

from app.contract.entries import DEFAULTS, BulkRequest, BulkResult, Entry, EntryDraft, NewEntry, WrittenEntry
from app.contract.fields import Page
from app.contract.validation import OBJECT, UNSET, Unset, amend, validate
from app.contract.vocabulary import EntrySort, Source, SuspiciousContent
from app.db.database import Database
from app.db.queries import audit
from app.db.queries import embeddings as vectors
from app.db.queries import entries as db
from app.db.queries.entries import EntryKey
from app.db.rows import new_id
from app.db.session import TenantSession
from app.errors import (
    ConcurrentWrites,
    EntryExists,
    EntryNotFound,
    FieldError,
    InvalidInput,
    NotAWriter,
    PartOfAsset,
    PreconditionFailed,
    Quarantined,
)
from app.knowledge.audit import AuditTrail
from app.knowledge.entries.embedding import EntryEmbedder
from app.knowledge.entries.entry import PLACE, content_hash, own_draft, own_new_draft
from app.knowledge.entries.reading import AccessCounter
from app.knowledge.paging import NEWEST_FIRST, PageRequest
from app.knowledge.parts import OF_PART
from app.knowledge.quarantine import (
    HELD_ENTRY,
    apply_policy,
    content_of,
    flag_changed,
    flag_new,
    flags_of,
    judge,
    with_flags,
)
from app.knowledge.queue import JobQueue
from app.knowledge.tenants.directory import TenantContext, TenantDirectory
from app.knowledge.tenants.quotas import Room, find_room
from app.knowledge.words import detect


def new_entry(entry_id: UUID, draft: EntryDraft) -> WrittenEntry:
    """Create an entry from the draft's fields, with defaults for unset ones."""
    values = DEFAULTS.given() | draft.given()
    if values["language"] is None:
        values["language"] = detect(values["title"], values["content"])
    return WrittenEntry(id=entry_id, asset_id=None, **values)


def key_of(draft: EntryDraft) -> EntryKey:
    """The identity of a new entry: its external_id, else the hash of its content; among those with its readers."""
    given = not isinstance(draft.readers, Unset)
    readers = None if isinstance(draft.readers, Unset) or draft.readers is None else tuple(draft.readers)
    if isinstance(draft.external_id, str):
        return EntryKey(draft.external_id, b"", readers, given)
    assert isinstance(draft.content, str)
    return EntryKey(None, content_hash(draft.content), readers, given)


def merge(stored: Entry, draft: EntryDraft) -> Entry:
    """The stored entry with the draft's fields, and its own flags.

    The language of a changed text is detected unless it is set.
    """
    wanted = replace(stored, **draft.given())
    if not isinstance(draft.metadata, Unset):
        wanted = replace(wanted, metadata=with_flags(wanted.metadata, flags_of(stored.metadata)))
    if draft.language is None or (draft.language is UNSET and differs(stored, wanted)):
        wanted = replace(wanted, language=detect(wanted.title, wanted.content))
    return wanted


def differs(stored: WrittenEntry, wanted: WrittenEntry) -> bool:
    """Whether the searchable text has changed."""
    return (stored.content, stored.title) != (wanted.content, wanted.title)


def size(draft: EntryDraft) -> int:
    """Count the characters of a new entry as the database does: a title counts twice."""
    title = None if isinstance(draft.title, Unset) else draft.title
    assert isinstance(draft.content, str)
    return _size(title, draft.content)


def growth(stored: WrittenEntry, draft: EntryDraft) -> int:
    """Characters that a change adds to the tenant's text."""
    title = stored.title if isinstance(draft.title, Unset) else draft.title
    content = stored.content if isinstance(draft.content, Unset) else draft.content
    return max(0, _size(title, content) - _size(stored.title, stored.content))


def _size(title: str | None, content: str) -> int:
    return len(content) + 2 * len(title or "")


NOT_A_WRITER = "the entry has writers, and you are not one of them"

MAX_SUCCESSORS = 100
"""Longest chain of entries that supersede each other."""


async def find_unresolved(session: TenantSession, drafts: Mapping[int, EntryDraft]) -> dict[int, FieldError]:
    """Find drafts that refer to entries which do not exist for the caller, or not for all readers of the draft.

    Each with its first such field.
    """
    wanted = {i for draft in drafts.values() for _, i in draft.references()}
    found = await db.find_readers(session, sorted(wanted)) if wanted else {}
    errors: dict[int, FieldError] = {}
    for index, draft in drafts.items():
        for name, reference in draft.references():
            if reference not in found:
                errors.setdefault(index, FieldError(name, "there is no entry with this id"))
            # `find_outside` checks drafts without readers of their own.
            elif not isinstance(draft.readers, Unset) and not contains(found[reference], draft.readers):
                errors.setdefault(index, FieldError(name, LINK_OUTSIDE))
    return errors


LINK_OUTSIDE = "must be an entry that all readers of this one may read"


async def find_outside(
    session: TenantSession, wanted: Collection[WrittenEntry], changing: Mapping[UUID, Sequence[str] | None]
) -> dict[UUID, FieldError]:
    """Find entries that would link to one which not all of their readers may read, each with the first such field.

    `changing` has the readers that entries get by the same request. Links to entries that do not exist are left to
    their keys.
    """
    links = {entry.id: _links_of(entry) for entry in wanted}
    others = {target for found in links.values() for _, target in found} - changing.keys()
    readers = {**(await db.find_readers(session, sorted(others)) if others else {}), **changing}
    errors: dict[UUID, FieldError] = {}
    for entry in wanted:
        for name, target in links[entry.id]:
            if target in readers and not contains(readers[target], entry.readers):
                errors.setdefault(entry.id, FieldError(name, LINK_OUTSIDE))
    return errors


def _links_of(entry: WrittenEntry) -> list[tuple[str, UUID]]:
    """The entries to which an entry links, but itself, with the names of the fields."""
    named = [("parent_id", entry.parent_id), ("superseded_by_id", entry.superseded_by_id)]
    named += [("source_ids", source) for source in entry.source_ids]
    return [(name, target) for name, target in named if target is not None and target != entry.id]


def contains(readers: Sequence[str] | None, others: Sequence[str] | None) -> bool:
    """Whether all `others` are among the readers; None means all readers of the tenant."""
    return readers is None or (others is not None and set(others) <= set(readers))


async def check_references(session: TenantSession, draft: EntryDraft, entry_id: UUID | None = None) -> None:
    """Raise InvalidInput if the draft refers to a missing entry or, directly or through others, to `entry_id`."""
    errors: Sequence[FieldError] = [*(await find_unresolved(session, {0: draft})).values()]
    itself = await find_misreference(session, draft, entry_id, {}) if entry_id is not None else None
    if itself is not None:
        errors = [*errors, itself]
    if errors:
        raise InvalidInput(errors)


async def hold_successions(session: TenantSession, drafts: Iterable[EntryDraft]) -> None:
    """Before a write that supersedes entries locks them: make other such writes of the tenant wait."""
    if any(isinstance(draft.superseded_by_id, UUID) for draft in drafts):
        await db.lock_successions(session)


async def find_misreference(
    session: TenantSession, draft: EntryDraft, entry_id: UUID, written: Mapping[UUID, WrittenEntry]
) -> FieldError | None:
    """The error if the draft, written to `entry_id`, would refer to itself or supersede itself by way of others.

    `written` are entries that the same request has changed. The transaction holds the lock of `hold_successions`.
    """
    itself = draft.self_reference(entry_id)
    if itself is not None or not isinstance(draft.superseded_by_id, UUID):
        return itself
    successor: UUID | None = draft.superseded_by_id
    for _ in range(MAX_SUCCESSORS):
        if successor is None:
            return None
        if successor == entry_id:
            return FieldError("superseded_by_id", "must not be superseded by this entry, directly or by way of others")
        known = written.get(successor)
        successor = known.superseded_by_id if known else await db.find_successor(session, successor)
    return FieldError("superseded_by_id", f"has more than {MAX_SUCCESSORS} successors in a row")


def change_of_chunk(stored: Entry, draft: EntryDraft) -> EntryDraft:
    """Return the change of a chunk. Raises Conflict when it changes a field that the chunk inherits."""
    if draft.given().keys() & {"content", "title", "entry_type", "external_id", "readers", "writers"}:
        raise PartOfAsset(
            "the entry is a chunk of an asset: change the asset's title, or upload a new version of it, instead; its"
            " readers and writers are those of the asset"
        )
    if isinstance(draft.metadata, Unset):
        return draft
    return amend(draft, metadata=_keep_place(stored.metadata, draft.metadata))


def _keep_place(stored: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Add a chunk's position in its asset to its new metadata. Raises Conflict when they give another position."""
    place = {name: value for name, value in stored.items() if name in PLACE}
    fixed = PLACE - OF_PART if "parts" in place else PLACE  # a hit has the place of the part that matched
    moved = sorted(name for name in given.keys() & fixed if given[name] != place.get(name))
    if moved:
        raise PartOfAsset(f"the entry is a chunk of an asset: {', '.join(moved)} of its metadata cannot be changed")
    return {**given, **place}


async def find_existing(session: TenantSession, stored: Entry, draft: EntryDraft) -> EntryExists:
    """The error for a change that would give the entry the identity of another one, with the id of that one."""
    wanted = stored.readers if isinstance(draft.readers, Unset) else draft.readers
    readers = None if wanted is None else tuple(wanted)
    external_id = stored.external_id if isinstance(draft.external_id, Unset) else draft.external_id
    keys: dict[str, EntryKey] = {}
    if external_id is not None:
        keys["external_id"] = EntryKey(external_id, b"", readers, given=True)
    else:
        content = stored.content if isinstance(draft.content, Unset) else draft.content
        keys["content"] = EntryKey(None, content_hash(content), readers, given=True)
    found = await db.find_same(session, list(keys.values()))
    for place, name in enumerate(keys):
        if (existing := found.get(place, stored.id)) != stored.id:
            return EntryExists(f"another entry has the same {name}: {existing}", existing)
    return EntryExists("another entry has the same content or external_id", None)


async def lock_entry(session: TenantSession, entry_id: UUID, if_version: int | Collection[int] | None) -> Entry:
    """Lock the entry for a change.

    Raises EntryNotFound, NotAWriter, and PreconditionFailed when its version is not one of those given.
    """
    locked = (await db.lock_entries(session, [entry_id])).get(entry_id)
    if locked is None:
        if await db.find_readers(session, [entry_id]):
            raise NotAWriter(NOT_A_WRITER)
        raise EntryNotFound("there is no entry with this id")
    versions = (if_version,) if isinstance(if_version, int) else if_version
    if versions is not None and locked.version not in versions:
        raise PreconditionFailed("the entry has changed since it was read")
    return locked


MAX_NAMED = 20
"""Entries that a deletion names, of those that have the deleted one among their sources."""

EMBEDDING_WAIT = 5.0
"""Seconds that the write of a single entry waits for its vector before it leaves it to the queue."""


def _changed(stored: Mapping[UUID, Entry], wanted: Mapping[UUID, Entry]) -> list[Entry]:
    return [entry for entry in wanted.values() if entry != stored[entry.id]]


def _raised(error: FieldError, strict: bool) -> FieldError:
    """The error, raised as InvalidInput if `strict`."""
    if strict:
        raise InvalidInput([error])
    return error


def _may_move(stored: Entry, entry: Entry, policy: SuspiciousContent) -> bool:
    """Whether a change can put the entry into quarantine, or end it.

    It can if something that is screened has changed; for a tenant that does not quarantine, the text or the flags.
    """
    flags = flags_of(entry.metadata)
    if policy == "quarantine":
        changed = content_of(entry) != content_of(stored) or flags != flags_of(stored.metadata)
        return changed and (stored.quarantined or bool(flags))
    return stored.quarantined and (differs(stored, entry) or flags != flags_of(stored.metadata))


def _brought_back(stored: WrittenEntry, draft: EntryDraft) -> EntryDraft:
    """The change to an entry that is written again: an expiry in the past is removed unless the change sets one."""
    expired = stored.expires_at is not None and stored.expires_at <= datetime.now(UTC)
    return amend(draft, expires_at=None) if expired and draft.expires_at is UNSET else draft


def failed_result(index: int, error: FieldError, entry_id: UUID | None = None) -> BulkResult:
    """The result for a draft that is refused because of `error`."""
    return BulkResult(index, entry_id, "failed", str(error))


async def note_writes(session: TenantSession, actor: str, results: Sequence[BulkResult]) -> None:
    """Record in the audit trail which entries were written."""
    touched = [r.id for r in results if r.id is not None and r.status in ("created", "updated")]
    if touched:
        counts = {s: sum(r.status == s for r in results) for s in ("created", "updated")}
        await audit.write_audit(session, actor, "entry.write", list(dict.fromkeys(touched)), counts)


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

    async def create(self, tenant_id: UUID, draft: EntryDraft, *, actor: str = "service") -> tuple[Entry, bool]:
        """Create an entry, or update the one with the same external_id, else the same content.

        An update changes only the fields that are set, and removes an expiry that has passed. Returns the entry and
        whether it is new. When this returns, keyword search finds the entry, and semantic search normally does too.
        Raises InvalidInput, Conflict, RateLimited (a quota is reached) and DatabaseUnavailable.
        """
        draft = own_new_draft(draft)
        tenant = await self.tenants.context(tenant_id)
        async with self._writing(tenant_id) as session:
            room = await find_room(session, tenant)
            await check_references(session, draft)
            (result,) = await self._write(
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
                drafts[index] = own_new_draft(given)
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
                    written = await self._write(session, valid, room, tenant.settings.suspicious_content, delay=0.0)
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
        if entry.embedding_status != "pending":  # a client that waits for the vector polls the entry
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
    ) -> Sequence[UUID]:
        """Delete an entry; returns up to `MAX_NAMED` entries that still name it in `source_ids`, the newest first.

        Raises EntryNotFound, PreconditionFailed, and Conflict for a chunk of an asset.
        """
        async with self.trail.writing(tenant_id, actor, "entry.delete", [entry_id]) as session:
            locked = await lock_entry(session, entry_id, if_version)
            if locked.asset_id is not None:
                raise PartOfAsset("the entry is a chunk of an asset: delete the asset instead")
            derived = await db.list_derived(session, entry_id, MAX_NAMED)
            await db.delete_entry(session, entry_id)
            await audit.write_audit(session, actor, "entry.delete", [entry_id], {})
        return derived

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
        await self._save(session, {entry_id: stored}, {entry_id: wanted}, policy)
        return wanted != stored

    async def _write(
        self,
        session: TenantSession,
        drafts: Mapping[int, EntryDraft],
        room: Room | None,
        policy: SuspiciousContent,
        *,
        delay: float,
        strict: bool = False,
    ) -> list[BulkResult]:
        """Insert or update drafts, by their places in the request; the queue embeds them after `delay` seconds.

        A draft with the identity of an earlier one updates it. Drafts that exceed the room, refer to or supersede
        themselves, or link to an entry that not all readers of theirs may read, fail; with `strict`, the first of them
        raises RateLimited or InvalidInput.
        """
        results: list[BulkResult] = []

        def fits(index: int, draft: EntryDraft, stored: Entry | None = None) -> bool:
            if room is None:
                return True
            over = room.take_entry(size(draft)) if stored is None else room.take_bytes(growth(stored, draft))
            if over is not None and strict:
                raise over
            if over is not None:
                results.append(BulkResult(index, stored.id if stored else None, "failed", str(over)))
            return over is None

        await hold_successions(session, drafts.values())
        remaining = dict(drafts)
        keys = {index: key_of(draft) for index, draft in drafts.items()}
        for _ in range(6):
            same = await db.find_same(session, [keys[index] for index in remaining])
            found = {index: same[place] for place, index in enumerate(remaining) if place in same}
            firsts: dict[Any, int] = {}
            for index, draft in remaining.items():
                if index not in found and keys[index] not in firsts and fits(index, draft):
                    firsts[keys[index]] = index
            new = {new_id(): index for index in firsts.values()}
            added: set[UUID] = set()
            if new:
                made = [new_entry(i, remaining[n]) for i, n in new.items()]
                outside = await find_outside(session, made, {})
                results += [failed_result(new[i], _raised(error, strict)) for i, error in outside.items()]
                entries = await flag_new([e for e in made if e.id not in outside], policy)
                added = await db.insert_entries(session, entries)
                await apply_policy(session, [e.id for e in entries if e.id in added and flags_of(e.metadata)], policy)
                await vectors.mark_pending(session, sorted(added))
            results += [BulkResult(new[i], i, "created") for i in added]
            stored = await db.lock_entries(session, sorted(set(found.values())))
            current = dict(stored)
            missing = sorted(set(found.values()) - stored.keys())
            closed = await db.find_readers(session, missing) if missing else {}
            for index, entry_id in found.items():
                if entry_id in closed:
                    if strict:
                        raise NotAWriter(NOT_A_WRITER)
                    results.append(BulkResult(index, entry_id, "failed", NOT_A_WRITER))
                if entry_id not in current:
                    continue
                draft, entry = remaining[index], current[entry_id]
                if (error := await find_misreference(session, draft, entry_id, current)) is not None:
                    if strict:
                        raise InvalidInput([error])
                    results.append(failed_result(index, error, entry_id))
                elif fits(index, draft, entry):
                    wanted = merge(entry, _brought_back(entry, draft))
                    results.append(BulkResult(index, entry_id, "updated" if wanted != entry else "unchanged"))
                    current[entry_id] = wanted
            while outside := await find_outside(
                session, _changed(stored, current), {i: entry.readers for i, entry in current.items()}
            ):
                current |= {i: stored[i] for i in outside}
                results = [
                    failed_result(r.index, _raised(outside[r.id], strict), r.id)
                    if r.index in found and r.id in outside
                    else r
                    for r in results
                ]
            await self._save(session, stored, current, policy)
            done = {r.index for r in results}
            # Left over: drafts that repeat a new one, or whose entry another writer has just added or removed.
            remaining = {index: draft for index, draft in remaining.items() if index not in done}
            if not remaining:
                break
        else:
            raise ConcurrentWrites("other requests are writing the entry; try again")
        if any(r.status in ("created", "updated") for r in results):
            await self.jobs.enqueue(session, "embed_entries", "entries", delay=delay)
        return results

    async def _save(
        self,
        session: TenantSession,
        stored: Mapping[UUID, Entry],
        wanted: Mapping[UUID, Entry],
        policy: SuspiciousContent,
    ) -> None:
        """Write changed fields to locked entries, with the flags of their new content."""
        changed = _changed(stored, wanted)
        if changed:
            changed = await flag_changed(stored, changed, policy)
            await db.update_entries(session, changed)
            moving = [e.id for e in changed if _may_move(stored[e.id], e, policy)]
            if moving:
                await judge(session, moving, policy)
        new_texts = [entry.id for entry in changed if differs(stored[entry.id], entry)]
        if new_texts:
            await vectors.drop_vectors(session, new_texts)
            await vectors.mark_pending(session, new_texts)
            await self.jobs.enqueue(session, "embed_entries", "entries", delay=EMBEDDING_WAIT + 1)


def _read(item: object) -> NewEntry:
    """The new entry of parsed JSON. Raises InvalidInput."""
    if not isinstance(item, dict):
        raise InvalidInput.of("entry", OBJECT)
    return validate(NewEntry, item)
