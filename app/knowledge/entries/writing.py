"""Writing drafts in a tenant's transaction: insert, merge into stored entries, mark for embedding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal
from uuid import UUID

from app.db.identifiers import new_id
from app.db.queries.knowledge import embeddings as vectors
from app.db.queries.knowledge import entries as db
from app.db.session import TenantSession
from app.errors import Conflict, FieldError, InvalidInput
from app.knowledge.entries.drafts import Draft, differs, growth, merge, size
from app.knowledge.entries.entry import new_entry_values
from app.knowledge.queue.jobs import JobQueue
from app.knowledge.tenants.quotas import Room

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
        drafts: Sequence[Draft],
        room: Room | None,
        *,
        delay: float,
        strict: bool = False,
    ) -> list[BulkResult]:
        """Insert or update drafts in their order; the queue embeds them after `delay` seconds.

        A draft with the identity of an earlier one updates it. Drafts that exceed the room or refer to themselves
        fail; with `strict`, the first of them raises RateLimited or InvalidInput.
        """
        results: list[BulkResult] = []

        def fits(draft: Draft, entry_id: UUID | None = None, stored: Mapping[str, Any] | None = None) -> bool:
            if room is None:
                return True
            given = draft.given
            over = room.take_entry(size(given)) if stored is None else room.take_bytes(growth(stored, given))
            if over is not None and strict:
                raise over
            if over is not None:
                results.append(BulkResult(draft.index, entry_id, "failed", str(over)))
            return over is None

        remaining = list(drafts)
        for _ in range(6):
            same = await db.find_same(session, [d.key for d in remaining])
            firsts: dict[Any, Draft] = {}
            for place, draft in enumerate(remaining):
                if place not in same and draft.key not in firsts and fits(draft):
                    firsts[draft.key] = draft
            new = {new_id(): draft for draft in firsts.values()}
            added: set[UUID] = set()
            if new:
                rows = [{"id": i, **new_entry_values(d.given)} for i, d in new.items()]
                added = await db.insert_entries(session, rows)
                await vectors.mark_pending(session, sorted(added))
            results += [BulkResult(new[i].index, i, "created") for i in added]
            locked = await db.lock_entries(session, sorted(set(same.values())))
            stored = {i: entry.fields for i, entry in locked.items()}
            current = dict(stored)
            for place, draft in enumerate(remaining):
                entry_id = same.get(place)
                if entry_id is None or entry_id not in current:
                    continue
                if (error := draft.self_reference(entry_id)) is not None:
                    if strict:
                        raise InvalidInput([error])
                    results.append(failed_result(draft, entry_id, error))
                elif fits(draft, entry_id, current[entry_id]):
                    wanted = merge(current[entry_id], {**_brought_back(current[entry_id]), **draft.given})
                    changed = wanted != current[entry_id]
                    results.append(BulkResult(draft.index, entry_id, "updated" if changed else "unchanged"))
                    current[entry_id] = wanted
            await self.save(session, stored, current)
            done = {r.index for r in results}
            # Left over: drafts that repeat a new one, or whose entry another writer has just added or removed.
            remaining = [d for d in remaining if d.index not in done]
            if not remaining:
                break
        else:
            raise Conflict("other requests are writing the entry; try again")
        if any(r.status in ("created", "updated") for r in results):
            await self._jobs.enqueue(session, "embed_entries", "entries", delay=delay)
        return results

    async def save(
        self,
        session: TenantSession,
        stored: Mapping[UUID, Mapping[str, Any]],
        wanted: Mapping[UUID, Mapping[str, Any]],
    ) -> None:
        """Write changed fields to locked entries."""
        updates = [{"id": i, **fields} for i, fields in wanted.items() if fields != stored[i]]
        if updates:
            await db.update_entries(session, updates)
        new_texts = [u["id"] for u in updates if differs(stored[u["id"]], u)]
        if new_texts:
            await vectors.drop_vectors(session, new_texts)
            await vectors.mark_pending(session, new_texts)
            await self._jobs.enqueue(session, "embed_entries", "entries", delay=EMBEDDING_WAIT + 1)


def _brought_back(stored: Mapping[str, Any]) -> dict[str, Any]:
    """The change to an expired entry that is written again: it no longer expires."""
    expires_at = stored["expires_at"]
    return {"expires_at": None} if expires_at is not None and expires_at <= datetime.now(UTC) else {}


def failed_result(draft: Draft, entry_id: UUID | None, error: FieldError) -> BulkResult:
    """The result for a draft that is refused because of `error`."""
    return BulkResult(draft.index, entry_id, "failed", str(error))
