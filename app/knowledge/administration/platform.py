"""How every tenant fares, in counts alone, for those who run the platform."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from app.db.database import Database
from app.db.queries.tenants import statistics, usage
from app.db.queries.tenants import tenants as db
from app.db.rows import Position
from app.errors import InvalidInput
from app.knowledge.paging import Page, PageRequest
from app.knowledge.tenants.directory import Tenant, TenantDirectory
from app.knowledge.tenants.limits import NAMES, Limits

SHOWN = 50
"""Tenants on a page: each is read in a transaction of its own, some milliseconds long."""


@dataclass(frozen=True, slots=True)
class TenantHealth:
    """One tenant in counts; none of its knowledge, queries or names but its own.

    Attributes:
        failed: assets that could not be read, and entries whose vectors the provider refused.
        pending: assets that are still to be read, and entries that wait for their vectors.
        fallback_rate: share of the last day's searches that had to do without meaning.
        last_activity: of the last search or audited act.
        allowed: what the platform lets it use.
    """

    tenant: Tenant
    entries: int
    assets: int
    pending: int
    failed: int
    searches_24h: int
    fallback_rate: float
    last_activity: datetime | None
    allowed: Limits


@dataclass(frozen=True, slots=True)
class LimitUse:
    """One limit of a tenant; None is no limit, and for `used` that it is not counted in the database.

    Attributes:
        allowed: what the platform lets the tenant use.
        default: what it lets tenants use for which it has set nothing.
        own: what the tenant's own admin set.
    """

    allowed: int | None
    default: int | None
    own: int | None
    used: int | None


@dataclass(frozen=True, slots=True)
class TenantPage:
    """Some of the tenants, oldest first: page `number` of `pages`, of `total` tenants."""

    items: Sequence[TenantHealth]
    number: int
    pages: int
    total: int


class PlatformService:
    """Lists tenants, and reads the counts of one after the other, each within that tenant's own row-level security."""

    def __init__(self, database: Database, tenants: TenantDirectory) -> None:
        self._database = database
        self._tenants = tenants

    async def list_tenants(self, *, limit: int = 50, cursor: str | None = None, reader: str) -> Page[Tenant]:
        """A page of tenants, oldest first, noted in the platform's trail. Raises InvalidInput for a bad cursor."""
        wanted = PageRequest.read(limit, cursor)
        async with self._database.platform_session() as session:
            rows = await db.page_of_tenants(session, wanted.after, wanted.reach)
            await db.note_action(session, reader, "tenant.list", None)
        return wanted.cut(
            [Tenant.of(row) for row in rows], lambda tenant: Position(tenant.created_at, tenant.id)
        )

    async def tenants(self, page: int = 1, *, size: int = SHOWN, reader: str) -> TenantPage:
        """The health of a page of tenants, noted in the platform's trail. Raises InvalidInput for no such page."""
        tenants = await self._tenants.list_tenants()
        pages = max(1, -(-len(tenants) // size))
        if not 1 <= page <= pages:
            raise InvalidInput.of("page", f"must be between 1 and {pages}")
        async with self._database.platform_session() as session:
            await db.note_action(session, reader, "tenant.health", None)
        shown = tenants[(page - 1) * size : page * size]
        found = [await self._health(tenant) for tenant in shown]
        return TenantPage([h for h in found if h is not None], page, pages, len(tenants))

    async def limits(self, tenant_id: UUID, *, reader: str | None = None) -> dict[str, LimitUse]:
        """What the platform lets a tenant use, by the limits' names, and what it does use.

        Noted in the platform's trail when `reader` says who wants to know. Raises TenantNotFound.
        """
        context = await self._tenants.context(tenant_id)
        if reader is not None:
            async with self._database.platform_session() as session:
                await db.note_action(session, reader, "tenant.health", tenant_id)
        async with self._database.tenant_session(tenant_id) as session:
            stored = await usage.fetch_stored(session)
            tokens = await usage.fetch_tokens(session)
        used = {"entries": stored.entries, "bytes": stored.bytes, "embedding_tokens_per_day": tokens}
        default = self._tenants.default_limits
        return {
            name: LimitUse(
                allowed=getattr(context.allowed, name) or None,
                default=getattr(default, name) or None,
                own=context.settings.limits.get(name),
                used=used.get(name),
            )
            for name in NAMES
        }

    async def models(self) -> list[db.RegisteredModel]:
        """All registered embedding models."""
        async with self._database.platform_session() as session:
            return await db.list_models(session)

    async def _health(self, tenant: Tenant) -> TenantHealth | None:
        async with self._database.tenant_session(tenant.id) as session:
            row = await statistics.health(session)
        if row is None:  # removed meanwhile
            return None
        return TenantHealth(
            tenant=tenant,
            entries=row.entries,
            assets=row.assets,
            pending=row.pending_assets + row.pending_embeddings,
            failed=row.failed_assets + row.refused_embeddings,
            searches_24h=row.searches,
            fallback_rate=row.fallbacks / max(row.searches, 1),
            last_activity=row.last_activity,
            allowed=self._tenants.allow(row.limits),
        )
