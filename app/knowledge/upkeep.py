"""Periodic upkeep of every tenant: word statistics, vector indexes, and data past its retention."""

import logging
import math
import time
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from uuid import UUID

import asyncpg

from app.contract.administration import MAX_USAGE_DAYS
from app.db.database import Database
from app.db.principals import acting_for_service
from app.db.queries import audit, entries, receipts, statistics, tenants
from app.db.queries import embeddings as db
from app.db.queries.jobs import is_statements_fault
from app.errors import DatabaseUnavailable, TenantNotFound
from app.knowledge.feedback import REPORTED, WeightTuner
from app.knowledge.permissions import ACCESS_KEPT
from app.knowledge.queue import JobQueue
from app.knowledge.search.journal import KEPT
from app.knowledge.search.plan import EXACT_LIMIT
from app.knowledge.subscriptions.deliveries import DeliveryService
from app.knowledge.subscriptions.matching import MAX_WAITING
from app.knowledge.subscriptions.service import MAX_OF_A_TENANT, MAX_SUBSCRIPTIONS
from app.knowledge.tenants.directory import TenantDirectory
from app.knowledge.tenants.usage import tally
from app.knowledge.versions import VersionService
from app.telemetry.tracing import span

log = logging.getLogger("app.knowledge.upkeep")

BATCH = 500
"""Vectors to move in one transaction; each takes some milliseconds."""

BUSY_SECONDS = 5.0
"""Pause while another tenant's index is built, or other transactions hold the partition."""

HEAVY = timedelta(minutes=15)
HEAVY_SETUP = "set local work_mem='64MB';"

LOOK_AGAIN = 10.0
"""Seconds until tables are looked at again, so that many small files cost no more than one large one."""


class PlannerStatistics:
    """Analyses partitions that have changed at once, and the partitioned tables, which autovacuum leaves alone.

    On a new installation with 1,000 entries, the joins of a search otherwise read all of them.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._looked_at = -math.inf

    async def refresh(self, *, at_once: bool = False) -> None:
        """Analyse the tables that are due; unless `at_once`, does nothing within LOOK_AGAIN seconds of the last look.

        A table that takes too long is left to the next look. Raises DatabaseUnavailable.
        """
        if not at_once and time.monotonic() < self._looked_at + LOOK_AGAIN:
            return
        self._looked_at = time.monotonic()
        async with self._database.platform_session() as session:
            outdated = await statistics.list_outdated(session)
        for table in outdated:
            try:
                async with self._database.platform_session(background=HEAVY) as session:
                    await statistics.analyze(session, table.place)
            except DatabaseUnavailable as error:
                if not is_statements_fault(error):
                    raise
                log.warning("a table was not analysed", extra={"table": table.place})
        if outdated:
            log.info("tables analysed", extra={"tables": len(outdated)})


LEAST_ENTRIES = 1_000
"""Number of changed entries below which it is cheap enough to count words at search time."""


@dataclass(eq=False)
class Upkeep:
    """Finds out which upkeep is due for a tenant, queues it as jobs, and runs it."""

    database: Database
    tenants: TenantDirectory
    jobs: JobQueue
    _: KW_ONLY
    exact_limit: int = EXACT_LIMIT

    def __post_init__(self) -> None:
        self.planner = PlannerStatistics(self.database)

    async def check(self, tenant_id: UUID, *, delay: float = 0.0) -> None:
        """Queue the upkeep that is due for one tenant, word statistics with a delay of `delay` seconds."""
        async with self.database.tenant_session(tenant_id) as session:
            due = await statistics.due_work(session, least_entries=LEAST_ENTRIES, exact_limit=self.exact_limit)
            if due.lexemes:
                await self.jobs.enqueue(session, "refresh_statistics", "lexemes", delay=delay)
            if due.vectors:
                await self.jobs.enqueue(session, "index_vectors", "model")
            if due.embeddings:
                await self.jobs.enqueue(session, "embed_entries", "entries", delay=30)
            if due.model_change:
                await self.jobs.enqueue(session, "reembed", "model")
        if due.lexemes or due.vectors or due.model_change:
            self.jobs.wake()
        await self.planner.refresh()

    async def refresh_statistics(self, tenant_id: UUID) -> None:
        """Recount the tenant's frequent words."""
        async with self.database.tenant_session(tenant_id, setup=HEAVY_SETUP, background=HEAVY) as session:
            await statistics.refresh_lexemes(session)

    async def index_vectors(
        self, tenant_id: UUID, *, model_id: int | None = None, seconds: float = math.inf
    ) -> float | None:
        """Build or drop the tenant's own index of the vectors of its model, or of `model_id`; stops after `seconds`.

        Returns None when there is nothing left to do, else the seconds to wait before the next call.
        """
        if model_id is None:
            model_id = (await self.tenants.context(tenant_id)).space.model_id
            await db.drop_strays(self.database, tenant_id)
        end = time.monotonic() + seconds
        try:
            with span("vector_index", tenant_id=str(tenant_id), model_id=model_id):
                return await self._build_or_drop(tenant_id, model_id, end)
        except DatabaseUnavailable as error:
            if not isinstance(error.__cause__, asyncpg.LockNotAvailableError):
                raise
            return BUSY_SECONDS
        finally:
            self.tenants.forget(tenant_id)

    async def drop_indexes_of_deleted(self) -> None:
        """Drop the indexes that were in use when their tenant was deleted. Raises DatabaseUnavailable."""
        owners: list[UUID] = []
        for node in await self.database.holders():
            async with node.platform_session() as session:
                owners += await db.list_owners(session)
        async with self.database.platform_session() as session:
            owners = await db.find_deleted(session, owners)
        for tenant_id in owners:
            await db.drop_strays(self.database, tenant_id)

    async def _build_or_drop(self, tenant_id: UUID, model_id: int, end: float) -> float | None:
        async with self.database.tenant_session(tenant_id) as session:
            found = await db.find_index(session, model_id)
        needed = found.passages > (self.exact_limit if found.state == "none" else self.exact_limit // 2)
        if found.state != "none" and not (needed and found.valid):
            async with self.database.tenant_session(tenant_id) as session:
                await db.give_up_index(session, model_id)
            self.tenants.forget(tenant_id)
            found = db.FoundIndex(found.passages, "none", found.valid)
            log.info("vector index given up", extra={"tenant_id": str(tenant_id), "model_id": model_id})
        if found.state == "none":
            if not await self._clear(tenant_id, model_id, end, exists=found.valid is not None):
                return 0.0
            if not needed or found.passages <= self.exact_limit:
                return None
            # Two transactions: a writer may hold the counter's row and wait for the lock of the first.
            async with self.database.tenant_session(tenant_id) as session:
                await db.create_index(session, model_id)
            async with self.database.tenant_session(tenant_id) as session:
                await db.start_index(session, model_id)
        return await self._fill(tenant_id, model_id, end)

    async def _clear(self, tenant_id: UUID, model_id: int, end: float, *, exists: bool) -> bool:
        """Drop the index, then mark all vectors as outside; return whether all are."""
        if exists:
            async with self.database.tenant_session(tenant_id) as session:
                await db.drop_index(session, model_id)
        while True:
            async with self.database.tenant_session(tenant_id) as session:
                cleared = await db.clear_batch(session, model_id, BATCH)
            if not cleared:
                return True
            if time.monotonic() >= end:
                return False

    async def _fill(self, tenant_id: UUID, model_id: int, end: float) -> float | None:
        while True:
            async with self.database.tenant_session(tenant_id) as session:
                moved = await db.move_batch(session, model_id, BATCH)
            if moved is None:
                return BUSY_SECONDS
            if not moved:
                break
            if time.monotonic() >= end:
                return 0.0
        async with self.database.tenant_session(tenant_id) as session:
            ready = await db.finish_index(session, model_id)
        log.info("vectors indexed", extra={"tenant_id": str(tenant_id), "ready": ready})
        return None


MOST_FEEDBACK = 1_000_000
"""Judgements of a tenant."""
MOST_ENDED_DELIVERIES = 100_000
"""Webhook messages of a tenant that were delivered, given up or overtaken."""
MOST_AUDIT = 2_000_000
"""Rows of the audit trail of a tenant, and of the platform's."""
LEAST_AUDIT = 1_000_000
"""The newest rows of a trail, which `tenancy.prune_audit` never removes."""
MOST_STEPS = 20
"""Steps of one sweep, so that no tenant holds up the others."""


@dataclass(eq=False)
class RecordTrimmer:
    """Removes the oldest records of a tenant over the bounds.

    `most_audit` rows of each audit trail are kept, at least a million; 0 means all.
    """

    database: Database
    tenants: TenantDirectory
    versions: VersionService
    _: KW_ONLY
    most_audit: int = MOST_AUDIT

    @property
    def bounds(self) -> Mapping[str, int]:
        """The bounds of a tenant's records that are not among its limits, by name; 0 means unlimited."""
        return {
            "audit": max(self.most_audit, LEAST_AUDIT) if self.most_audit else 0,
            "feedback": MOST_FEEDBACK,
            "saved_searches": MAX_OF_A_TENANT,
            "former_versions": self.versions.most,
            "deliveries": MOST_ENDED_DELIVERIES + MAX_SUBSCRIPTIONS * MAX_WAITING,
        }

    async def trim(self, tenant_id: UUID) -> None:
        """Trim the records of one tenant, and remove former versions whose period has ended.

        Raises TenantNotFound and DatabaseUnavailable.
        """
        limits = (await self.tenants.context(tenant_id)).limits
        bounds: dict[statistics.Trimmed, int] = {
            "receipts": limits.receipts,
            "feedback": MOST_FEEDBACK,
            "deliveries": MOST_ENDED_DELIVERIES,
        }
        for name, most in bounds.items():
            dropped = 0
            for _ in range(MOST_STEPS if most else 0):
                async with self.database.tenant_session(tenant_id) as session:
                    removed = await statistics.drop_oldest(session, name, most)
                dropped += removed
                if removed < statistics.BATCH:
                    break
            if dropped:
                log.info(
                    "records over the bound removed",
                    extra={"tenant_id": str(tenant_id), "records": name, "rows": dropped},
                )
        async with self.database.tenant_session(tenant_id) as session:
            await tenants.forget_callers(session, ACCESS_KEPT)
        await self.versions.prune(tenant_id)
        if self.most_audit:
            async with self.database.shared_session(tenant_id) as session:
                await statistics.prune_audit(session, self.most_audit)

    async def trim_platform(self) -> None:
        """Trim the platform's audit trail. Raises DatabaseUnavailable."""
        if self.most_audit:
            async with self.database.platform_session() as session:
                await statistics.prune_audit(session, self.most_audit)


PURGE_BATCH = 500
MOST_PURGES = 20
ACTOR = "upkeep"
"""The actor in the audit trail."""

SWEEP_SECONDS = 300.0
"""Pause between two sweeps."""
RECENT = timedelta(seconds=2 * SWEEP_SECONDS)
"""A tenant is active if it has been searched or changed, or has receipts to remove, since this time: at least since the
sweep before."""
SHARES = 72
"""Sweeps in which each tenant that is not active is swept once: all of them in six hours."""


@dataclass(eq=False)
class Sweep:
    """Sweeps tenants, one after another."""

    database: Database
    tenants: TenantDirectory
    upkeep: Upkeep
    deliveries: DeliveryService
    trimmer: RecordTrimmer
    tuner: WeightTuner

    async def run(self, turn: int = 0) -> None:
        """Check tenants, and remove their expired entries and old records of searches, tokens and deliveries.

        The oldest records over the bounds are removed too, and the vector indexes of deleted tenants. Weights that
        suit a tenant's judged queries better are applied. `turn` is the number of the sweep: the first one is of all
        tenants, later ones are of those that are active, and of a share of the others.
        """
        for tenant_id in await self._choose(turn):
            try:
                with acting_for_service():
                    await self._sweep_tenant(tenant_id)
            except TenantNotFound:
                continue  # deleted since the list was read
            except DatabaseUnavailable as error:
                if not is_statements_fault(error):
                    raise
                log.warning("a tenant's sweep took too long", extra={"tenant_id": str(tenant_id)})
            except Exception:  # one tenant's failure must not stop the sweep
                log.exception("a tenant's sweep failed", extra={"tenant_id": str(tenant_id)})
        await self.upkeep.planner.refresh(at_once=True)
        await self.trimmer.trim_platform()
        await self.upkeep.drop_indexes_of_deleted()

    async def _choose(self, turn: int) -> list[UUID]:
        every = [tenant.id for tenant in await self.tenants.list_tenants()]
        if turn == 0 or self.database.nodes is not None:
            return every
        async with self.database.platform_session() as session:
            active = set(await tenants.list_active_tenants(session, RECENT, (KEPT, REPORTED)))
        return [each for each in every if each in active or each.int % SHARES == turn % SHARES]

    async def _sweep_tenant(self, tenant_id: UUID) -> None:
        await self.upkeep.check(tenant_id)
        await self.purge_expired(tenant_id)
        async with self.database.tenant_session(tenant_id) as session:
            await receipts.purge_searches(session, KEPT, REPORTED)
            await tally(session)
            await tenants.purge_usage(session, MAX_USAGE_DAYS)
            await tenants.purge_revocations(session)
            await receipts.erase_queries(session)
        await self.trimmer.trim(tenant_id)
        await self.deliveries.tidy(tenant_id)
        await self.tuner.tune(tenant_id)

    async def purge_expired(self, tenant_id: UUID) -> int:
        """Remove entries that expired longer ago than the tenant's setting, if it has one; return their number.

        After MOST_PURGES steps the rest is left to the next sweep, so that no tenant holds up the others.
        """
        purged = 0
        for _ in range(MOST_PURGES):
            async with self.database.tenant_session(tenant_id) as session:
                ids = await entries.purge_expired(session, PURGE_BATCH)
                if ids:
                    await audit.write_audit(session, ACTOR, "entry.purge", ids, {"entries": len(ids)})
            purged += len(ids)
            if len(ids) < PURGE_BATCH:
                break
        if purged:
            log.info("expired entries purged", extra={"tenant_id": str(tenant_id), "entries": purged})
        return purged
