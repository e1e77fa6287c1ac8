"""Answered searches that wait for their record to be written, and the memory that they may take."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from sys import getsizeof
from uuid import UUID

from app.concurrency.limits import ByteBudget
from app.db.queries.search.receipts import KeptSearch
from app.knowledge.search.journal.receipts import make_receipt
from app.knowledge.search.plan import Plan
from app.knowledge.search.query import SearchQuery
from app.knowledge.search.ranking.grouping import ungroup
from app.knowledge.search.results import Ranking

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
        return KeptSearch(
            id=self.search_id,
            subject=self.subject,
            at=self.at,
            result_count=self.result_count,
            query_time_ms=self.query_time_ms,
            receipt=make_receipt(self.plan, self.search_id, self.ranking, self.principals),
        )


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
        size += _size_of_filters(query, plan.entry_filter.metadata_json)
    if (condition := plan.entry_filter.condition) is not None:
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
