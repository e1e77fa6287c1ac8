"""Counts and limits of all tenants, for the platform's administrators."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import date
from uuid import UUID

from app.concurrency.turns import Turns
from app.contract.administration import DayUsage, PlatformLimit, Tenant
from app.contract.fields import Page
from app.contract.settings import LIMITS, Limits
from app.contract.validation import same_fields
from app.db.database import Database
from app.db.principals import acting_for_service
from app.db.queries import statistics
from app.db.queries import tenants as db
from app.db.rows import Position
from app.db.session import TenantSession
from app.errors import InvalidInput, LimitName, RateLimited
from app.knowledge.paging import PageRequest
from app.knowledge.tenants.directory import TenantDirectory
from app.knowledge.tenants.usage import choose_days, read_usage

TENANTS_PER_PAGE = 50
"""Each tenant is read in a transaction of its own, which takes some milliseconds."""

READS = 2
"""Simultaneous reads of all platform administrators in a process; they take turns."""

PATIENCE = 10.0
"""Seconds that a read waits for its turn."""


@dataclass(frozen=True, slots=True)
class TenantHealth(statistics.Health):
    """The counts of one tenant; `allowed` are the platform's limits for it, set or by default."""

    tenant: Tenant
    allowed: Limits


@dataclass(frozen=True, slots=True)
class TenantPage:
    """A page of tenants, oldest first: page `number` of `pages`, with `total` tenants in all."""

    items: Sequence[TenantHealth]
    number: int
    pages: int
    total: int


class PlatformService:
    """Lists tenants, and reads the counts of each under the tenant's own row-level security."""

    def __init__(self, database: Database, tenants: TenantDirectory) -> None:
        self._database = database
        self._tenants = tenants
        self._turns = Turns(READS)
        self._patience = PATIENCE

    async def list_tenants(self, *, limit: int = 50, cursor: str | None = None, reader: str | None) -> Page[Tenant]:
        """List a page of tenants, oldest first; recorded in the platform's trail. Raises InvalidInput, RateLimited."""
        wanted = PageRequest.read(limit, cursor)
        async with self._turn(reader), self._database.platform_session() as session:
            rows = await db.page_of_tenants(session, wanted.after, wanted.reach)
            if reader is not None:
                await db.note_action(session, reader, "tenant.list", None)
        return wanted.cut(rows, lambda tenant: Position(tenant.created_at, tenant.id))

    async def tenants(self, page: int = 1, *, size: int = TENANTS_PER_PAGE, reader: str) -> TenantPage:
        """Read the health of a page of tenants; recorded in the platform's trail. Raises InvalidInput, RateLimited."""
        async with self._turn(reader):
            async with self._database.platform_session() as session:
                total = await db.count_tenants(session)
                pages = max(1, -(-total // size))
                if not 1 <= page <= pages:
                    raise InvalidInput.of("page", f"must be between 1 and {pages}")
                rows = await db.tenants_from(session, (page - 1) * size, size)
                await db.note_action(session, reader, "tenant.health", None)
            found = [await self._health(row) for row in rows]
        return TenantPage([h for h in found if h is not None], page, pages, total)

    async def limits(self, tenant_id: UUID, *, reader: str | None = None) -> dict[str, PlatformLimit]:
        """Read a tenant's limits and their use, by name; with `reader`, recorded in the platform's trail.

        Raises TenantNotFound, RateLimited.
        """
        context = await self._tenants.context(tenant_id)
        async with self._turn(reader):
            if reader is not None:
                async with self._database.platform_session() as session:
                    await db.note_action(session, reader, "tenant.health", tenant_id)
            async with self._counting(tenant_id) as session:
                stored = await db.fetch_stored(session)
                tokens = await db.fetch_tokens(session)
                kept = {record.name: record.rows for record in await statistics.count_records(session)}
        used = {
            "entries": stored.entries,
            "bytes": stored.bytes,
            "receipts": kept["receipts"],
            "embedding_tokens_per_day": tokens,
        }
        default = self._tenants.default_limits
        return {
            name: PlatformLimit(
                allowed=getattr(context.allowed, name) or None,
                default=getattr(default, name) or None,
                own=getattr(context.settings.limits, name),
                used=used.get(name),
            )
            for name in LIMITS
        }

    async def usage(self, tenant_id: UUID, first: date | None, last: date | None, *, reader: str) -> Sequence[DayUsage]:
        """A tenant's usage by day, recorded in the platform's trail.

        Raises InvalidInput, TenantNotFound, RateLimited.
        """
        days = choose_days(first, last)
        await self._tenants.context(tenant_id)
        async with self._turn(reader):
            async with self._database.platform_session() as session:
                await db.note_action(session, reader, "tenant.health", tenant_id)
            async with self._counting(tenant_id) as session:
                return await read_usage(session, *days)

    async def models(self) -> list[db.RegisteredModel]:
        """List all registered embedding models."""
        async with self._database.platform_session() as session:
            return await db.list_models(session)

    @asynccontextmanager
    async def _turn(self, reader: str | None) -> AsyncIterator[None]:
        """Hold one of the places for reads."""
        try:
            async with asyncio.timeout(self._patience):
                await self._turns.acquire(reader)
        except TimeoutError:
            limit: LimitName = "concurrent_requests"
            said = "too many requests of platform admins are running"
            raise RateLimited(f"{limit}: {said}", 1.0, limit) from None
        try:
            yield
        finally:
            self._turns.release(reader)

    @asynccontextmanager
    async def _counting(self, tenant_id: UUID) -> AsyncIterator[TenantSession]:
        """A session for the numbers of a tenant, which count everything."""
        with acting_for_service():
            async with self._database.tenant_session(tenant_id) as session:
                yield session

    async def _health(self, tenant: Tenant) -> TenantHealth | None:
        async with self._counting(tenant.id) as session:
            row = await statistics.health(session)
        if row is None:  # deleted since the list was read
            return None
        allowed = self._tenants.allow(row.limits)
        return TenantHealth(**same_fields(row, TenantHealth), tenant=tenant, allowed=allowed)
