"""List and release the entries that the tenant's setting `suspicious_content` hides from searches."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from app.contract.access import ItemKind
from app.contract.entries import Entry
from app.contract.erasures import Release
from app.contract.fields import Page
from app.db.database import Database
from app.db.queries import audit, entries, quarantine
from app.db.session import TenantSession
from app.errors import Quarantined
from app.knowledge.audit import AuditTrail
from app.knowledge.paging import PageRequest
from app.knowledge.quarantine.releases import find_released, note_releases

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

    async def find_kinds(self, tenant_id: UUID, ids: Sequence[UUID]) -> dict[UUID, ItemKind]:
        """Tell which of these ids are entries and which assets; others are missing. Raises DatabaseUnavailable."""
        async with self._database.read_session(tenant_id) as session:
            return await quarantine.find_kinds(session, ids)

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
