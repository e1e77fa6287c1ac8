"""Former versions of entries, which a tenant can keep for a time."""

import logging
from datetime import UTC, datetime
from uuid import UUID

from app.contract.access import ItemKind
from app.contract.entries import FormerVersion
from app.contract.fields import Page
from app.db.database import Database
from app.db.queries import versions as db
from app.db.rows import Position
from app.errors import AssetNotFound, EntryNotFound, InvalidInput
from app.knowledge.paging import PAGE_BYTES, PageRequest

log = logging.getLogger("app.knowledge.versions")

MOST_VERSIONS = 500_000
"""Former versions of a tenant; the oldest over it are removed before their period ends."""

MOST_STEPS = 50
"""Steps of one sweep, so that no tenant holds up the others."""

LATEST_FIRST = "-ended_at"


class VersionService:
    """Reads and removes former versions of any tenant."""

    def __init__(self, database: Database, *, most: int = MOST_VERSIONS) -> None:
        """`most` is the number of former versions that a tenant can have."""
        self._database = database
        self.most = most

    async def list_versions(
        self,
        tenant_id: UUID,
        item_id: UUID,
        kind: ItemKind = "entry",
        *,
        limit: int = 50,
        cursor: str | None = None,
        include_quarantined: bool = False,
    ) -> Page[FormerVersion]:
        """List the kept versions of an entry, or of the chunks of an asset, which may be deleted; the latest first.

        Versions in quarantine, and those to which one reaches back, are listed only with `include_quarantined`. Raises
        EntryNotFound or AssetNotFound if there is neither the item nor a version, InvalidInput and DatabaseUnavailable.
        """
        request = PageRequest.read(limit, cursor, LATEST_FIRST, (LATEST_FIRST,))
        ids = (item_id, None) if kind == "entry" else (None, item_id)
        async with self._database.tenant_session(tenant_id) as session:
            found, has_more = await db.list_versions(
                session, request.after, limit, PAGE_BYTES, *ids, include_quarantined=include_quarantined
            )
            if not found and cursor is None and not await db.is_known(session, *ids):
                raise (EntryNotFound if kind == "entry" else AssetNotFound)(f"the {kind} does not exist")
        return request.page(found, has_more, lambda version: Position(version.valid_until, version.id))

    async def require_kept(self, tenant_id: UUID, as_of: datetime) -> None:
        """Check that a search can name this time. Raises InvalidInput, which names the earliest one."""
        async with self._database.read_session(tenant_id) as session:
            earliest = await db.find_earliest(session)
        if earliest is None:
            raise InvalidInput.of("as_of", "needs the tenant's setting keep_versions_days")
        if as_of < earliest:
            kept = earliest.astimezone(UTC).isoformat()
            raise InvalidInput.of("as_of", f"must not be before {kept}: earlier versions are not kept")

    async def prune(self, tenant_id: UUID) -> int:
        """Remove the versions whose time is over, and the oldest over the bound; return their number.

        After MOST_STEPS steps the rest is left to the next sweep.
        """
        pruned = 0
        for _ in range(MOST_STEPS):
            async with self._database.tenant_session(tenant_id) as session:
                removed = await db.prune(session, self.most)
            pruned += removed
            if removed < db.BATCH:
                break
        if pruned:
            log.info("former versions removed", extra={"tenant_id": str(tenant_id), "versions": pruned})
        return pruned
