"""Record searches after they are answered, in batches for each tenant."""

import asyncio
import contextlib
import logging
import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from sys import getsizeof
from uuid import UUID

from app.concurrency.background import start_background
from app.concurrency.limits import ByteBudget
from app.concurrency.part import Calls, Part
from app.contract.results import SearchResult
from app.contract.search import SearchQuery
from app.db.database import Database
from app.db.principals import SERVICE, act_as, current_principals
from app.db.queries import receipts, statistics, tenants
from app.db.queries.receipts import KeptSearch
from app.errors import DatabaseUnavailable, TenantNotFound
from app.knowledge.search.plan import Plan
from app.knowledge.search.ranking import Ranking, ungroup
from app.knowledge.search.receipts import KEPT, make_receipt, mark_search
from app.knowledge.tenants.quotas import TokenMeter
from app.telemetry.metrics import JOURNAL_RECORDS

QUEUE_LENGTH = 10_000

QUEUE_BYTES = 134_217_728
"""Of all waiting searches of a process. A tenant has no more than it leaves free for the others, so at most half."""

BATCH = 500
BATCH_BYTES = 8_388_608
"""Of the searches whose records are written together: they are in memory twice, and a third time as JSON."""

SEARCH_BYTES = 2_000
CANDIDATE_BYTES = 560
BOOSTS_BYTES = 280
ASSET_BYTES = 110
CONDITION_BYTES = 20
"""Bytes of a search without its parts, of a candidate, of its boosts, of an asset's id, and, with the objects in the
query, of each character of a condition, as CPython stores them."""


@dataclass(frozen=True, slots=True)
class Answered:
    """A search that was answered; its receipt is made when it is written, after the answer.

    `size` is the approximate number of bytes that it takes.
    """

    plan: Plan
    search_id: UUID
    query_time_ms: int
    result_count: int
    ranking: Ranking
    subject: str
    at: datetime
    size: int
    principals: Sequence[str] = ()

    @property
    def tenant_id(self) -> UUID:
        """The tenant that searched."""
        return self.plan.tenant.tenant_id

    def describe(self) -> KeptSearch:
        """The record to write."""
        receipt = make_receipt(
            self.plan,
            self.ranking,
            search_id=self.search_id,
            subject=self.subject,
            at=self.at,
            result_count=self.result_count,
            query_time_ms=self.query_time_ms,
        )
        return KeptSearch(receipt, mark_search(self.search_id, self.plan.query), self.principals)


def without_vector(plan: Plan) -> Plan:
    """The plan without a vector that the caller gave: no record has it, and it can take 100 KB."""
    if plan.query.query_embedding is None:
        return plan
    return replace(plan, query=replace(plan.query, query_embedding=None))


def estimate_size(plan: Plan, ranking: Ranking, subject: str, principals: Sequence[str] = ()) -> int:
    """The approximate bytes of a search that waits."""
    query = plan.query
    candidate = CANDIDATE_BYTES + (BOOSTS_BYTES if query.boost else 0)
    ranked = ranking.candidates if query.group_by is None else ungroup(ranking.candidates)
    size = (
        SEARCH_BYTES
        + getsizeof(query.query)
        + getsizeof(subject)
        + sum(map(getsizeof, principals))
        + candidate * len(ranked)
    )
    if query.tags or query.asset_id or query.metadata or query.cursor or query.boost or query.entry_type:
        size += _size_of_filters(query, plan.entry_filter.metadata)
    if (condition := plan.entry_filter.filter) is not None:
        size += CONDITION_BYTES * (len(condition.path) + len(condition.values_json))
    return size


def _size_of_filters(query: SearchQuery, metadata_json: str | None) -> int:
    tags, assets = query.tags or (), query.asset_id or ()
    # Each list is there twice, in the query and in the filter.
    lists = 2 * sum(map(getsizeof, (tags, assets, query.entry_type or (), query.boost)))
    texts = sum(map(getsizeof, tags)) + getsizeof(query.cursor or "")
    # Once as a text, and once as objects, at most 100 with a few hundred bytes each.
    metadata = 2 * getsizeof(metadata_json) + 20_000 if metadata_json is not None else 0
    return lists + texts + len(assets) * ASSET_BYTES + metadata


class WaitingSearches:
    """A queue of answered searches, bounded by their number and their bytes until they are written."""

    def __init__(self, length: int = QUEUE_LENGTH, total: int = QUEUE_BYTES) -> None:
        self._length = length
        self._bytes = ByteBudget(total // 2, total)
        self._queue: deque[Answered] = deque()

    def __len__(self) -> int:
        return len(self._queue)

    def __iter__(self) -> Iterator[Answered]:
        return iter(list(self._queue))

    def add(self, answered: Answered) -> bool:
        """Append a search, if there is room."""
        if len(self._queue) >= self._length or not self._bytes.take(answered.tenant_id, answered.size):
            return False
        self._queue.append(answered)
        return True

    def take_batch(self) -> list[Answered]:
        """Remove the first searches, at least one; their bytes count until `release`."""
        batch = [self._queue.popleft()]
        size = batch[0].size
        while self._queue and len(batch) < BATCH and size + self._queue[0].size <= BATCH_BYTES:
            batch.append(self._queue.popleft())
            size += batch[-1].size
        return batch

    def release(self, batch: list[Answered]) -> None:
        """The searches are written or dropped."""
        for answered in batch:
            self._bytes.release(answered.tenant_id, answered.size)


log = logging.getLogger("app.knowledge.search.journal")

LOOK_SECONDS = 0.02
"""Interval at which a process looks whether another one needs a record that it has not written yet."""

LINGER = 0.25
"""Seconds that a record waits for others, so that many are written in one statement."""

RECENT = 60.0
"""Age in seconds up to which a search may be still unwritten; allows for differences between the instances' clocks."""

TRIM_EVERY = 10_000
"""Records of a tenant after which the oldest over its limit are removed. Each process may exceed the limit by as many,
or by a tenth of the limit if that is less."""
LEAST_TRIM = 100

SETUP = "set local synchronous_commit=off;"


AT_A_TIME = 10
"""Receipts to make before other tasks get a turn; each takes a tenth of a millisecond."""


class SearchJournal:
    """Writes records of searches in the background, in batches for each tenant.

    A search never waits for its record. The queue is bounded in number and bytes; records that do not fit are dropped
    and counted.
    """

    def __init__(self, database: Database, *, waiting: WaitingSearches | None = None, part: Part | None = None) -> None:
        self._database = database
        self._calls = None if part is None else Calls(part.memory, part.place)
        self._queue = WaitingSearches() if waiting is None else waiting
        self.meter = TokenMeter()
        self._writer: asyncio.Task[None] | None = None
        self._wanted = asyncio.Event()
        self._queued = 0
        self._settled = 0  # records written or dropped, in the order in which they were queued
        self._batch_settled = asyncio.Event()
        self._untrimmed: Counter[UUID] = Counter()
        self.dropped = 0
        self.written = 0

    @property
    def waiting(self) -> int:
        """Number of records that are not written yet."""
        return len(self._queue)

    def record(self, plan: Plan, result: SearchResult, ranking: Ranking, subject: str) -> None:
        """Queue the record of one search; returns at once."""
        plan = without_vector(plan)
        principals = current_principals()
        answered = Answered(
            plan,
            result.metadata.search_id,
            result.metadata.query_time_ms,
            len(result.results),
            ranking,
            subject,
            datetime.now(UTC),
            estimate_size(plan, ranking, subject, principals),
            principals,
        )
        if not self._queue.add(answered):
            self._drop(1)
            return
        self._queued += 1
        self._start_writer()

    def _drop(self, records: int) -> None:
        self.dropped += records
        JOURNAL_RECORDS.labels("dropped").inc(records)

    async def find(self, tenant_id: UUID, search_id: UUID) -> KeptSearch | None:
        """Find the record of a search of the last day, even if it is just being written."""
        # Another instance may be about to write the record.
        delays = (0.0, 0.05, 0.2, 0.5) if _is_recent(search_id) else (0.0,)
        for delay in delays:
            await asyncio.sleep(delay)
            for queued in self._queue:
                if queued.tenant_id == tenant_id and queued.search_id == search_id:
                    await self.flush()
            async with self._database.tenant_session(tenant_id) as session:
                found = await receipts.fetch_search(session, search_id, KEPT)
            if found is not None:
                return found
            if self._calls is not None:
                self._calls.call()
        return None

    async def flush(self) -> None:
        """Wait until the records queued before this call are written or dropped."""
        target = self._queued
        while self._settled < target:
            self._wanted.set()
            self._start_writer()
            await self._batch_settled.wait()

    async def close(self) -> None:
        """Write the queued records within a few seconds."""
        try:
            await asyncio.wait_for(self.flush(), 5)
        except TimeoutError:
            log.warning("search records lost at shutdown", extra={"records": len(self._queue)})

    def _start_writer(self) -> None:
        if self._writer is None or self._writer.done():
            self._writer = start_background(self._write())

    async def _write(self) -> None:
        act_as(SERVICE)
        await self._linger()
        self._wanted.clear()
        while self._queue:
            batch = self._queue.take_batch()
            try:
                await self._write_batch(batch)
            finally:
                self._queue.release(batch)
                self._settled += len(batch)
                self._batch_settled.set()
                self._batch_settled = asyncio.Event()

    async def _linger(self) -> None:
        """Wait for further records, until one is wanted here or in another process."""
        calls = self._calls
        number, patience = (0.0, LINGER) if calls is None else (calls.number, LOOK_SECONDS)
        for _ in range(round(LINGER / patience)):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wanted.wait(), patience)
                return
            if calls is not None and calls.number != number:
                return

    async def _write_batch(self, batch: Sequence[Answered]) -> None:
        by_tenant: dict[UUID, list[KeptSearch]] = defaultdict(list)
        limits: dict[UUID, int] = {}
        for number, answered in enumerate(batch, 1):
            tenant = answered.plan.tenant
            try:
                by_tenant[tenant.tenant_id].append(answered.describe())
            except Exception as error:  # only this record is lost
                self._lose(tenant.tenant_id, 1, error)
            limits[tenant.tenant_id] = tenant.limits.receipts
            if number % AT_A_TIME == 0:
                await asyncio.sleep(0)
        for tenant_id, searches in by_tenant.items():
            await self._write_tenant(tenant_id, searches)
            await self._trim(tenant_id, len(searches), limits[tenant_id])

    async def _write_tenant(self, tenant_id: UUID, searches: list[KeptSearch]) -> None:
        tokens = self.meter.take(tenant_id)
        try:
            async with self._database.tenant_session(tenant_id, setup=SETUP, aside=True) as session:
                await receipts.insert_searches(session, searches)
                await tenants.add_tokens(session, tokens)
            self.written += len(searches)
            JOURNAL_RECORDS.labels("written").inc(len(searches))
        except TenantNotFound:
            return  # the tenant was deleted with all its records
        except Exception as error:  # a lost record must not stop the writer
            self.meter.put_back(tenant_id, tokens)
            if len(searches) > 1 and not isinstance(error, DatabaseUnavailable):
                # Halves, down to the record that the database refuses, so that only this one is lost.
                half = len(searches) // 2
                await self._write_tenant(tenant_id, searches[:half])
                await self._write_tenant(tenant_id, searches[half:])
                return
            self._lose(tenant_id, len(searches), error)

    def _lose(self, tenant_id: UUID, records: int, error: Exception) -> None:
        self._drop(records)
        log.warning(
            "search records dropped",
            extra={"records": records, "tenant_id": str(tenant_id)},
            # An unavailable database has already been logged.
            exc_info=None if isinstance(error, DatabaseUnavailable) else error,
        )

    async def _trim(self, tenant_id: UUID, written: int, limit: int) -> None:
        """Remove the tenant's oldest records over its limit, once enough have been written since the last time."""
        self._untrimmed[tenant_id] += written
        if not limit or self._untrimmed[tenant_id] < min(TRIM_EVERY, max(LEAST_TRIM, limit // 10)):
            return
        del self._untrimmed[tenant_id]
        try:
            async with self._database.tenant_session(tenant_id, setup=SETUP, aside=True) as session:
                await statistics.drop_oldest(session, "receipts", limit)
        except Exception as error:  # the sweep removes them later
            log.warning(
                "search records over the limit were not removed: %s",
                type(error).__name__,
                extra={"tenant_id": str(tenant_id)},
            )


def _is_recent(search_id: UUID) -> bool:
    """Whether the id, which contains its creation time, may belong to a search that has just finished."""
    return abs(time.time() - (search_id.int >> 80) / 1000) < RECENT
