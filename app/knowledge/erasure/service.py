"""Start erasures of an asset, an entry or all data of a subject, and show their receipts."""

from __future__ import annotations

import contextlib
from uuid import UUID

from app.contract.erasures import Erasure, NewErasure, Place
from app.contract.fields import Page
from app.db.database import Database
from app.db.principals import acting_for_service
from app.db.queries import audit
from app.db.queries import erasures as db
from app.db.queries.erasures import StoredErasure
from app.db.rows import new_id
from app.db.session import TenantSession
from app.errors import (
    AssetNotFound,
    DatabaseUnavailable,
    EntryNotFound,
    ErasureNotFound,
    PartOfAsset,
)
from app.knowledge.audit import AuditTrail
from app.knowledge.erasure.removal import places_of, remainders_of
from app.knowledge.erasure.work import SECOND_LOOK, ErasureWork
from app.knowledge.paging import PageRequest
from app.knowledge.queue import JobQueue


def describe(stored: StoredErasure) -> Erasure:
    """The receipt of a stored erasure."""
    found = None if stored.checked_at is None else stored.found
    return Erasure(
        id=stored.id,
        kind=stored.kind,
        asset_id=stored.target if stored.kind == "asset" else None,
        entry_id=stored.target if stored.kind == "entry" else None,
        pseudonym=f"erased:{stored.id}" if stored.kind == "subject" else None,
        requested_by=stored.requested_by,
        state=stored.state,
        created_at=stored.created_at,
        erased_at=stored.erased_at,
        checked_at=stored.checked_at,
        places=[
            Place(place, stored.removed.get(place, 0), None if found is None else found.get(place, 0))
            for place in places_of(stored.kind)
        ],
        derived=stored.derived,
        derived_total=stored.derived_total,
        remains=remainders_of(stored.kind),
    )


AT_ONCE = 10.0
"""Seconds that a request works on its erasure before it leaves the rest to the job."""


class ErasureService:
    """Creates erasures, and reads their receipts."""

    def __init__(self, database: Database, trail: AuditTrail, jobs: JobQueue, work: ErasureWork) -> None:
        self._database = database
        self._trail = trail
        self._jobs = jobs
        self._work = work

    async def erase(self, tenant_id: UUID, wanted: NewErasure, *, actor: str = "service") -> Erasure:
        """Erase an asset, an entry, or everything of a subject.

        An erasure that takes longer than some seconds continues as a job, and so does its second look. An asset or
        entry that was deleted or erased before can be erased again, which removes what is left of it.
        Raises AssetNotFound, EntryNotFound, PartOfAsset for a chunk, and DatabaseUnavailable.
        """
        kind, target, erasure_id = wanted.kind, wanted.target, new_id()
        async with (
            self._trail.attempt(tenant_id, actor, "erasure.create", [] if target is None else [target]),
            self._database.tenant_session(tenant_id) as session,
        ):
            if wanted.asset_id is not None:
                await _require_asset(session, wanted.asset_id)
            elif wanted.entry_id is not None:
                await _require_entry(session, wanted.entry_id)
            await db.create_erasure(session, erasure_id, kind, target, wanted.subject, actor)
            await self._jobs.enqueue(session, "erase", str(erasure_id), delay=AT_ONCE + SECOND_LOOK)
            named = [erasure_id] if target is None else [erasure_id, target]
            await audit.write_audit(session, actor, "erasure.create", named, {"kind": kind})
        # The job continues what does not end here.
        with contextlib.suppress(DatabaseUnavailable), acting_for_service():
            await self._work.advance(tenant_id, erasure_id, seconds=AT_ONCE)
        return await self.get(tenant_id, erasure_id)

    async def get(self, tenant_id: UUID, erasure_id: UUID, *, reader: str | None = None) -> Erasure:
        """The receipt of an erasure. Raises ErasureNotFound."""
        async with self._database.tenant_session(tenant_id) as session:
            found = await db.fetch_erasures(session, [erasure_id])
            await self._trail.note_read(session, reader, "erasure.read", erasure_id, found=bool(found))
        if not found:
            raise ErasureNotFound("there is no erasure with this id")
        return describe(found[0])

    async def list_erasures(
        self, tenant_id: UUID, *, limit: int = 50, cursor: str | None = None, reader: str | None = None
    ) -> Page[Erasure]:
        """List receipts, newest first. Raises InvalidInput for a bad cursor."""
        wanted = PageRequest.read(limit, cursor)
        async with self._database.tenant_session(tenant_id) as session:
            page = wanted.cut_places(await db.list_erasures(session, wanted.after, wanted.reach))
            found = await db.fetch_erasures(session, [place.id for place in page.items])
            await self._trail.note_read(session, reader, "erasure.read")
        return Page([describe(each) for each in found], page.next_cursor)


async def _require_asset(session: TenantSession, asset_id: UUID) -> None:
    """Raises AssetNotFound unless the tenant has, or had, the asset."""
    if not (await db.find_target(session, "asset", asset_id)).is_known:
        raise AssetNotFound("there is no asset with this id")


async def _require_entry(session: TenantSession, entry_id: UUID) -> None:
    """Raises EntryNotFound unless the tenant has, or had, the entry, and PartOfAsset for a chunk."""
    found = await db.find_target(session, "entry", entry_id)
    if found.asset_id is not None:
        raise PartOfAsset("the entry is a chunk of an asset: erase the asset instead")
    if not found.is_known:
        raise EntryNotFound("there is no entry with this id")
