"""Statistics, receipts and the audit trail of a tenant, for its admin."""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from app.contract.administration import MAX_CALLERS, AuditFilter, AuditRecord, CallerUse, LimitUse, RecordUse, Stats
from app.contract.fields import Page
from app.contract.receipts import SearchLine
from app.contract.text import STORABLE, is_storable
from app.db.database import Database
from app.db.queries import audit, receipts, statistics, tenants
from app.db.queries.receipts import KeptSearch
from app.db.rows import Position
from app.errors import InvalidInput, SearchNotFound
from app.knowledge.audit import AuditTrail
from app.knowledge.paging import PageRequest
from app.knowledge.search.journal import SearchJournal
from app.knowledge.search.receipts import KEPT
from app.knowledge.tenants.admission import Admission
from app.knowledge.tenants.directory import TenantDirectory


@dataclass(eq=False)
class AdministrationService:
    """Reads data for a tenant's admin. With `reader`, a read is recorded in the audit trail.

    `record_bounds`: the bounds of records that are not among the tenant's limits, by name; 0 means unlimited.
    """

    database: Database
    trail: AuditTrail
    tenants: TenantDirectory
    admission: Admission
    journal: SearchJournal
    record_bounds: Mapping[str, int]

    async def stats(self, tenant_id: UUID, *, reader: str | None = None) -> Stats:
        """Read the tenant's statistics."""
        # Write pending records first: they are in neither count until then.
        await self.journal.flush()
        self.tenants.forget(tenant_id)
        tenant = await self.tenants.context(tenant_id)
        async with self.database.tenant_session(tenant_id) as session:
            stock = await statistics.overview(session)
            hours = await statistics.searches_by_hour(session)
            estimates = await statistics.fetch_estimates(session)
            models = await statistics.models_in_use(session)
            work = await statistics.backlog(session)
            stored = await tenants.fetch_stored(session)
            kept = await statistics.count_records(session)
            tokens = await tenants.fetch_tokens(session) + self.journal.meter.unwritten(tenant_id)
            await self.trail.note_read(session, reader, "stats.read")
        searches = sum(hour.searches for hour in hours)
        used = {
            **self.admission.used(tenant),
            "entries": stored.entries,
            "bytes": stored.bytes,
            "receipts": next(record.rows for record in kept if record.name == "receipts"),
            "embedding_tokens_per_day": tokens,
        }
        bounds = {**self.record_bounds, "receipts": tenant.limits.receipts}
        return Stats(
            **stock,
            jobs=sum(kind.queued + kind.running for kind in work),
            model=tenant.model.info,
            passages=tenant.passages,
            indexed=tenant.indexed,
            searches_24h=searches,
            searches_without_results_24h=sum(hour.without_results for hour in hours),
            fallback_rate_24h=sum(hour.fallbacks for hour in hours) / max(searches, 1),
            estimates=estimates,
            searches_by_hour=hours,
            models=models,
            backlog=work,
            limits={n: LimitUse(number, getattr(tenant.limits, n) or None) for n, number in used.items()},
            records={r.name: RecordUse(r.rows, r.bytes, bounds[r.name] or None) for r in kept},
        )

    async def callers(self, tenant_id: UUID, *, reader: str | None = None) -> list[CallerUse]:
        """The callers of the last 24 hours with their searches and changes, the most active first, at most 100."""
        await self.journal.flush()
        async with self.database.tenant_session(tenant_id) as session:
            found = await tenants.list_callers(session, MAX_CALLERS)
            await self.trail.note_read(session, reader, "stats.read")
        return found

    async def audit(
        self,
        tenant_id: UUID,
        wanted: AuditFilter | None = None,
        *,
        limit: int = 50,
        cursor: str | None = None,
        reader: str | None = None,
    ) -> Page[AuditRecord]:
        """List the selected rows of the audit trail, newest first, without this read. Raises InvalidInput."""
        wanted = wanted or AuditFilter()
        page_request = PageRequest.read(limit, cursor)
        async with self.database.tenant_session(tenant_id) as session:
            places = await audit.list_audit(session, wanted, page_request.after, page_request.reach)
            page = page_request.cut_places(places)
            found = await audit.fetch_audit(session, [place.id for place in page.items])
            await self.trail.note_read(session, reader, "audit.read")
        return Page(found, page.next_cursor)

    async def searches(
        self,
        tenant_id: UUID,
        *,
        subject: str | None = None,
        without_results: bool = False,
        limit: int = 50,
        cursor: str | None = None,
        reader: str | None = None,
    ) -> Page[SearchLine]:
        """List the searches of the last 24 hours, newest first, optionally of one caller or without results.

        Raises InvalidInput.
        """
        if subject is not None and not is_storable(subject):
            raise InvalidInput.of("subject", f"must be a text, {STORABLE}")
        wanted = PageRequest.read(limit, cursor)
        await self.journal.flush()
        async with self.database.tenant_session(tenant_id) as session:
            found = await receipts.list_searches(session, KEPT, subject, without_results, wanted.after, wanted.reach)
            await self.trail.note_read(session, reader, "search.read")
        return wanted.cut(found, lambda line: Position(line.at, line.id))

    async def receipt(self, tenant_id: UUID, search_id: UUID, *, reader: str | None = None) -> KeptSearch:
        """Find the receipt of a search: its settings, model and ranking. Raises SearchNotFound."""
        kept = await self.journal.find(tenant_id, search_id)
        async with self.database.tenant_session(tenant_id) as session:
            await self.trail.note_read(session, reader, "search.read", search_id, found=kept is not None)
        if kept is None:
            raise SearchNotFound("there is no search with this id, or its receipt has expired")
        return kept
