"""Record searches after they are answered, in batches for each tenant, and continue them from their receipts."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import hashlib
import logging
import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib.metadata import version
from sys import getsizeof
from typing import Any
from uuid import UUID

import orjson

from app.concurrency.background import start_background
from app.concurrency.limits import ByteBudget
from app.concurrency.part import Calls, Part
from app.contract.receipts import RankedEntry, Receipt, SearchReceipt
from app.contract.results import SearchResult
from app.contract.search import SearchQuery
from app.db.database import Database
from app.db.principals import SERVICE, act_as, current_principals
from app.db.queries import receipts, search, statistics, tenants
from app.db.queries.receipts import RANKS, KeptSearch, Marks, NewSearch, pack_ranking, ranks_of
from app.errors import DatabaseUnavailable, InvalidInput, TenantNotFound
from app.knowledge.search.plan import Plan
from app.knowledge.search.query import list_types
from app.knowledge.search.ranking import Candidate, Ranking, shown, ungroup
from app.knowledge.tenants.quotas import TokenMeter
from app.telemetry.metrics import JOURNAL_RECORDS

NARROWING = (*search.FILTERS, "as_of", "include_superseded")
FILTERS = {f.name: f.default for f in fields(SearchQuery) if f.name in (*NARROWING, "tags_match")}
"""The filters of a search, each with the default, which filters nothing."""


@dataclass(frozen=True, slots=True)
class PageStart:
    """Where a page of a search starts; offset 0 is the first page."""

    search_id: UUID
    offset: int = 0

    @property
    def cursor(self) -> str:
        """The page start as an opaque text."""
        return base64.urlsafe_b64encode(self.search_id.bytes + self.offset.to_bytes(4)).decode().rstrip("=")

    @classmethod
    def from_cursor(cls, cursor: str) -> PageStart:
        """Decode a cursor. Raises InvalidInput."""
        try:
            raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        except (binascii.Error, ValueError):
            raw = b""
        if len(raw) != 20:
            raise InvalidInput.of("cursor", "must be the next_cursor of an earlier response")
        return cls(UUID(bytes=raw[:16]), int.from_bytes(raw[16:]))


def mark_search(search_id: UUID, query: SearchQuery) -> Marks:
    """Hash the query and the filters with the search's id as salt, to recognise them without storing them."""
    filters = orjson.dumps(_filters_of(query), option=orjson.OPT_SORT_KEYS)
    return Marks(_hash(search_id, query.query.encode()), _hash(search_id, filters))


def resume(query: SearchQuery, kept: KeptSearch) -> SearchQuery:
    """Add the filters of the search that the query continues; the query may omit them.

    Raises InvalidInput if the query or its filters differ from that search.
    """
    own, options = mark_search(kept.receipt.search_id, query), kept.receipt.options
    filters = bool(_filters_of(query))
    if query.group_by is not None and query.group_by != options.get("group_by"):
        raise InvalidInput.of("cursor", "belongs to a search that is not grouped: omit group_by")
    if own.query != kept.asked.query or (filters and own.filters != kept.asked.filters):
        raise InvalidInput.of("cursor", "belongs to another search: send the same query and filters")
    if filters:
        return query
    pinned = {name: options.get(name, default) for name, default in FILTERS.items()}
    return replace(query, **pinned)


def _filters_of(query: SearchQuery) -> dict[str, Any]:
    """The filters that are set, in a normalised form."""
    found = {name: value for name in NARROWING if (value := getattr(query, name))}
    if "tags" in found:
        found["tags_match"] = query.tags_match
    if "entry_type" in found:
        found["entry_type"] = list_types(found["entry_type"])
    for name in ("tags", "entry_type", "asset_id"):
        if name in found:
            found[name] = sorted({str(value) for value in found[name]})
    return found


def _hash(search_id: UUID, told: bytes) -> str:
    return hashlib.blake2b(told, digest_size=16, salt=search_id.bytes).hexdigest()


KEPT = timedelta(hours=24)
"""How long a receipt is kept, and how long cursors and feedback for its search are accepted."""

ELSEWHERE = frozenset({
    *("query", "query_embedding", "cursor"),
    *("limit", "mode", "fusion", "weights", "rrf_k", "similarity_threshold"),
})  # fmt: skip
"""Fields that are not among a receipt's options: the query itself, and fields whose resolved values it stores."""

OWN_VECTOR = "query_embedding"
"""The option of a receipt that is true if the search came with a vector, which is not kept."""

OPTIONS = tuple((f.name, f.default) for f in fields(SearchQuery) if f.name not in ELSEWHERE)


@cache
def service_version() -> str:
    """The version of this service."""
    return version("knowledge-search")


FACTS = tuple(field.name for field in fields(Ranking) if field.name != "candidates")
"""What a receipt has of a ranking, in addition to its candidates."""


def make_receipt(plan: Plan, ranking: Ranking, **search: Any) -> SearchReceipt:
    """Create the receipt of a search without its candidates; `search` has the fields of SearchReceipt.

    It has the query's text only if the tenant's settings allow it.
    """
    query = plan.query
    chosen = {name: value for name, default in OPTIONS if (value := getattr(query, name)) != default}
    if query.query_embedding is not None:
        chosen[OWN_VECTOR] = True
    return SearchReceipt(
        mode=query.mode,
        model=plan.tenant.model.info,
        query=query.query if plan.tenant.settings.keep_query_text else None,
        rrf_k=query.rrf_k,
        fusion=plan.fusion,
        options={"limit": plan.limit, **chosen},
        ranking=(),
        version=service_version(),
        similarity_threshold=plan.threshold,
        **{name: getattr(ranking, name) for name in FACTS},
        **search,
    )


def rank_entries(ranking: Ranking, query: SearchQuery) -> list[RankedEntry]:
    """The candidates of a ranking as a receipt has them."""
    grouped = query.group_by is not None
    return [
        RankedEntry(c.entry_id, c.updated_at, *(*ranks_of(c), c.passages if grouped else None))
        for c in shown(ranking.candidates)
    ]


def _pack_ranking(ranking: Ranking, query: SearchQuery) -> bytes:
    """The candidates of a ranking as they are stored."""
    candidates = shown(ranking.candidates)
    columns = {name: [getattr(c, name) for c in candidates] for name in RANKS}
    columns["updated_at"] = [c.updated_at.timestamp() for c in candidates]
    if query.group_by is not None:
        columns["passages"] = [c.passages for c in candidates]
    return pack_ranking([c.entry_id for c in candidates], columns)


def pinned_ranking(receipt: Receipt) -> Ranking:
    """Restore the ranking of the search, so that later pages neither repeat nor skip a hit."""
    candidates: list[Candidate] = []
    for entry in receipt.ranking:
        ranks = dict(zip(RANKS, ranks_of(entry), strict=True))
        candidate = Candidate(entry.id, entry.updated_at, passages=entry.passages or 0, **ranks)
        if entry.passages == 0:
            candidates[-1].further = (*candidates[-1].further, candidate)
        else:
            candidates.append(candidate)
    return Ranking(candidates, **{name: getattr(receipt, name) for name in FACTS})


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

    def describe(self) -> NewSearch:
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
        query = self.plan.query
        return NewSearch(
            receipt, mark_search(self.search_id, query), self.principals, _pack_ranking(self.ranking, query)
        )


def without_vector(plan: Plan) -> Plan:
    """The plan with one number in place of a vector that the caller gave: no record has it, and it can take 100 KB."""
    if plan.query.query_embedding is None:
        return plan
    return replace(plan, query=replace(plan.query, query_embedding=(1.0,)))


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
        self._taken: list[Answered] = []

    def __len__(self) -> int:
        return len(self._queue)

    def __iter__(self) -> Iterator[Answered]:
        """Those that are being written, and those that wait."""
        return iter([*self._taken, *self._queue])

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
        self._taken = batch
        return batch

    def release(self, batch: list[Answered]) -> None:
        """The searches are written or dropped."""
        self._taken = []
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
        # Another instance may be about to write the record; the id has the time of the search.
        is_recent = abs(time.time() - (search_id.int >> 80) / 1000) < RECENT
        delays = (0.0, 0.05, 0.2, 0.5) if is_recent else (0.0,)
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
        by_tenant: dict[UUID, list[NewSearch]] = defaultdict(list)
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

    async def _write_tenant(self, tenant_id: UUID, searches: list[NewSearch]) -> None:
        tokens = self.meter.take(tenant_id)
        try:
            async with self._database.tenant_session(tenant_id, setup=SETUP, aside=True) as session:
                await receipts.insert_searches(session, searches)
                await tenants.add_usage(session, tokens, len(searches))
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
