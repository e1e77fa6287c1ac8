"""Writing drafts in a tenant's transaction: insert, merge into stored entries, mark for embedding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal
from uuid import UUID

from app.db.queries.knowledge import embeddings as vectors
from app.db.queries.knowledge import entries as db
from app.db.queries.knowledge.entries import LockedEntry, WrittenEntry
from app.db.queries.tenants import audit
from app.db.rows import new_id
from app.db.session import TenantSession
from app.errors import ConcurrentWrites, FieldError, InvalidInput, NotAWriter
from app.knowledge.entries.drafts import UNSET, EntryDraft
from app.knowledge.entries.merging import (
    NOT_A_WRITER,
    differs,
    find_misreference,
    find_outside,
    growth,
    hold_successions,
    merge,
    new_entry,
    size,
)
from app.knowledge.quarantine.flagging import (
    apply_policy,
    content_of,
    flag_changed,
    flag_new,
    flags_of,
    judge,
)
from app.knowledge.queue.jobs import JobQueue
from app.knowledge.tenants.quotas import Room
from app.knowledge.vocabulary import SuspiciousContent

WriteStatus = Literal["created", "updated", "unchanged", "failed"]

EMBEDDING_WAIT = 5.0
"""Seconds that the write of a single entry waits for its vector before it leaves it to the queue."""


@dataclass(frozen=True, slots=True)
class BulkResult:
    """The result for one entry of a bulk write; `error` is the reason for a failure."""

    index: int
    id: UUID | None
    status: WriteStatus
    error: str | None = None


class EntryWriter:
    """Writes entries, and queues their embedding, in the caller's transaction."""

    def __init__(self, jobs: JobQueue) -> None:
        self._jobs = jobs

    async def write(
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

        def fits(index: int, draft: EntryDraft, stored: LockedEntry | None = None) -> bool:
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
        for _ in range(6):
            same = await db.find_same(session, [d.key for d in remaining.values()])
            found = {index: same[place] for place, index in enumerate(remaining) if place in same}
            firsts: dict[Any, int] = {}
            for index, draft in remaining.items():
                if index not in found and draft.key not in firsts and fits(index, draft):
                    firsts[draft.key] = index
            new = {new_id(): index for index in firsts.values()}
            added: set[UUID] = set()
            if new:
                made = [new_entry(i, remaining[n]) for i, n in new.items()]
                outside = await find_outside(session, made, {})
                results += [failed_result(new[i], _raised(error, strict)) for i, error in outside.items()]
                entries = await flag_new([e for e in made if e.id not in outside], policy)
                added = await db.insert_entries(session, entries)
                await apply_policy(
                    session, [e.id for e in entries if e.id in added and flags_of(e.metadata)], policy
                )
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
            await self.save(session, stored, current, policy)
            done = {r.index for r in results}
            # Left over: drafts that repeat a new one, or whose entry another writer has just added or removed.
            remaining = {index: draft for index, draft in remaining.items() if index not in done}
            if not remaining:
                break
        else:
            raise ConcurrentWrites("other requests are writing the entry; try again")
        if any(r.status in ("created", "updated") for r in results):
            await self._jobs.enqueue(session, "embed_entries", "entries", delay=delay)
        return results

    async def save(
        self,
        session: TenantSession,
        stored: Mapping[UUID, LockedEntry],
        wanted: Mapping[UUID, LockedEntry],
        policy: SuspiciousContent,
    ) -> None:
        """Write changed fields to locked entries, with the flags of what they contain now."""
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
            await self._jobs.enqueue(session, "embed_entries", "entries", delay=EMBEDDING_WAIT + 1)


def _changed(stored: Mapping[UUID, LockedEntry], wanted: Mapping[UUID, LockedEntry]) -> list[LockedEntry]:
    return [entry for entry in wanted.values() if entry != stored[entry.id]]


def _raised(error: FieldError, strict: bool) -> FieldError:
    """The error, raised as InvalidInput if `strict`."""
    if strict:
        raise InvalidInput([error])
    return error


def _may_move(stored: LockedEntry, entry: LockedEntry, policy: SuspiciousContent) -> bool:
    """Whether a change can put the entry into quarantine, or end it.

    It can if something that is screened has changed; for a tenant that does not quarantine, the text or the flags.
    """
    flags = flags_of(entry.metadata)
    if policy == "quarantine":
        changed = content_of(entry) != content_of(stored) or flags != flags_of(stored.metadata)
        return changed and (stored.quarantined or bool(flags))
    return stored.quarantined and (differs(stored, entry) or flags != flags_of(stored.metadata))


def _brought_back(stored: WrittenEntry, draft: EntryDraft) -> EntryDraft:
    """The change to an entry that is written again: unless it sets an expiry, one that has passed is removed."""
    expired = stored.expires_at is not None and stored.expires_at <= datetime.now(UTC)
    return replace(draft, expires_at=None) if expired and draft.expires_at is UNSET else draft


def failed_result(index: int, error: FieldError, entry_id: UUID | None = None) -> BulkResult:
    """The result for a draft that is refused because of `error`."""
    return BulkResult(index, entry_id, "failed", str(error))


async def note_writes(session: TenantSession, actor: str, results: Sequence[BulkResult]) -> None:
    """Record in the audit trail which entries were written."""
    touched = [r.id for r in results if r.id is not None and r.status in ("created", "updated")]
    if touched:
        counts = {s: sum(r.status == s for r in results) for s in ("created", "updated")}
        await audit.write_audit(session, actor, "entry.write", list(dict.fromkeys(touched)), counts)
