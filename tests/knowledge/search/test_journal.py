"""The journal of searches: pending records, and callers that wait for them."""

import asyncio
import contextlib
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.results import SearchResult
from app.contract.search import SearchQuery
from app.db.rows import new_id
from app.knowledge.search.journal import (
    BATCH_BYTES,
    Answered,
    SearchJournal,
    WaitingSearches,
    estimate_size,
    without_vector,
)
from app.knowledge.search.plan import Plan
from app.knowledge.search.query import filter_of
from app.knowledge.search.ranking import Candidate, Ranking


async def test_flush_does_not_wait_for_records_queued_after_its_call(
    services: Services, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded: list[tuple[Any, ...]] = []
    monkeypatch.setattr(SearchJournal, "record", lambda journal, *record: recorded.append(record))
    await services.search.search(tenant.id, SearchQuery(query="harbour"))
    monkeypatch.undo()

    async def record_without_end() -> None:
        while True:
            services.journal.record(*recorded[0])
            await asyncio.sleep(0.001)

    traffic = asyncio.create_task(record_without_end())
    try:
        await asyncio.sleep(0.05)
        before = services.journal.written + services.journal.waiting
        await asyncio.wait_for(services.journal.flush(), 20)
        assert services.journal.written + services.journal.dropped >= before > 0
    finally:
        traffic.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await traffic


async def test_flush_starts_the_writer_again_after_it_was_cancelled(services: Services, tenant: Tenant) -> None:
    await services.search.search(tenant.id, SearchQuery(query="harbour"))
    writer = services.journal._writer
    assert writer is not None
    writer.cancel()
    await asyncio.wait([writer])
    await asyncio.wait_for(services.journal.flush(), 20)
    assert (services.journal.written, services.journal.waiting) == (1, 0)


async def test_a_record_has_the_filters_of_its_search_even_if_the_caller_changes_them_afterwards(
    services: Services, tenant: Tenant
) -> None:
    tags, metadata = ["quay"], {"team": {"name": "cranes"}}
    query = SearchQuery(query="harbour", tags=tags, metadata=metadata)
    first = await services.search.search(tenant.id, query)
    tags.append("crane")
    metadata["team"].update(name={1})  # type: ignore[call-overload]  # not JSON
    second = await services.search.search(tenant.id, SearchQuery(query="harbour"))
    await services.journal.flush()
    found = [await services.journal.find(tenant.id, result.metadata.search_id) for result in (first, second)]
    assert [None if kept is None else kept.receipt.options for kept in found] == [
        {"limit": 10, "tags": ["quay"], "metadata": {"team": {"name": "cranes"}}},
        {"limit": 10},
    ]


async def test_a_record_that_the_database_refuses_is_lost_alone(services: Services, tenant: Tenant) -> None:
    journal = services.journal
    ids = []
    for number in range(5):
        subject = "nul \x00" if number == 2 else "service"
        result = await services.search.search(tenant.id, SearchQuery(query="harbour"), subject=subject)
        ids.append(result.metadata.search_id)
    assert journal.waiting == 5
    await journal.flush()
    assert (journal.written, journal.dropped, journal.waiting) == (4, 1, 0)
    found = [await journal.find(tenant.id, search_id) is not None for search_id in ids]
    assert found == [True, True, False, True, True]


Record = tuple[Plan, SearchResult, Ranking, str]


@pytest.fixture
async def answered(services: Services, tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> Record:
    """What the journal gets of one search."""
    recorded: list[Any] = []
    with monkeypatch.context() as patched:
        patched.setattr(SearchJournal, "record", lambda journal, *record: recorded.append(record))
        await services.search.search(tenant.id, SearchQuery(query="harbour"))
    found: Record = recorded[0]
    return found


def of_another(result: SearchResult) -> SearchResult:
    """The same answer to another search."""
    return replace(result, metadata=replace(result.metadata, search_id=new_id()))


async def test_a_record_that_cannot_be_described_is_lost_alone(
    services: Services, answered: Record, caplog: pytest.LogCaptureFixture
) -> None:
    plan, result, ranking, subject = answered
    broken = replace(ranking, candidates=[None])  # type: ignore[list-item]
    for number in range(5):
        services.journal.record(plan, of_another(result), broken if number == 2 else ranking, subject)
    await asyncio.wait_for(services.journal.flush(), 20)
    journal = services.journal
    assert (journal.written, journal.dropped, journal.waiting) == (4, 1, 0)
    assert [r.message for r in caplog.records if r.levelname == "WARNING"] == ["search records dropped"]


def candidates(number: int) -> list[Candidate]:
    return [
        Candidate(new_id(), datetime.now(UTC), n, n / 7, None, False, None, n, n / 3, n / 9, n / 11, score=n / 13)
        for n in range(1_000, 1_000 + number)
    ]


LARGE: dict[str, Callable[[int], SearchQuery]] = {
    "a vector": lambda n: SearchQuery(query=f"{n}", query_embedding=[n + i / 3 for i in range(4_000)]),
    "a long text": lambda n: SearchQuery(query=f"{n} harbour " * 700),
    "a wide text": lambda n: SearchQuery(query=f"{n} \N{ANCHOR}\N{SAILBOAT} harbour " * 500),
    "metadata": lambda n: SearchQuery(query="harbour", metadata={f"{n}-{i}": "v" * 600 for i in range(100)}),
    "nested metadata": lambda n: SearchQuery(query="harbour", metadata={"a": [{f"{n}{i}": i} for i in range(49)]}),
    "tags": lambda n: SearchQuery(query="harbour", tags=[f"{n}-{i}-" + "t" * 80 for i in range(100)]),
    "assets": lambda n: SearchQuery(query="harbour", asset_id=[new_id() for _ in range(1_000)]),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.slow) if kind in ("metadata", "assets") else kind for kind in LARGE]
)
def test_the_size_of_a_waiting_search_is_that_of_its_memory(kind: str, answered: Record) -> None:
    plan, _, ranking, subject = answered
    kept: list[Answered] = []

    def keep(number: int) -> None:
        query = LARGE[kind](number)
        large = without_vector(replace(plan, query=query, entry_filter=filter_of(query)))
        found = replace(ranking, candidates=candidates(30))
        size = estimate_size(large, found, subject)
        kept.append(Answered(large, new_id(), 1, 10, found, subject, datetime.now(UTC), size))

    def measure() -> float:
        kept.clear()
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            for number in range(20):
                keep(number)
            return (tracemalloc.get_traced_memory()[0] - before) / 20
        finally:
            tracemalloc.stop()

    keep(0)
    # What other threads allocate in the meantime is counted too.
    taken = min(measure() for _ in range(3))
    estimated = sum(answered.size for answered in kept) / 20
    assert taken <= estimated <= 2.5 * taken


async def test_waiting_searches_of_a_tenant_leave_room_for_others(answered: Record) -> None:
    plan, result, ranking, subject = answered
    own = Answered(plan, result.metadata.search_id, 1, 10, ranking, subject, datetime.now(UTC), 100)
    other = replace(own, plan=replace(plan, tenant=replace(plan.tenant, tenant_id=new_id())))
    waiting = WaitingSearches(length=10, total=1_000)
    assert sum(waiting.add(own) for _ in range(8)) == 5
    assert waiting.add(other)
    batch = waiting.take_batch()
    assert (len(batch), len(waiting)) == (6, 0)
    assert not waiting.add(own), "what is just written counts"
    assert [*waiting] == batch, "what is just written is found"
    waiting.release(batch)
    assert not [*waiting]
    assert waiting.add(own)
    assert sum(waiting.add(replace(own, size=1)) for _ in range(20)) == 9


async def test_a_batch_is_bounded_by_its_bytes(answered: Record) -> None:
    plan, result, ranking, subject = answered
    large = Answered(plan, result.metadata.search_id, 1, 10, ranking, subject, datetime.now(UTC), BATCH_BYTES // 2)
    waiting = WaitingSearches()
    for _ in range(3):
        assert waiting.add(large)
    assert waiting.add(replace(large, size=2 * BATCH_BYTES))
    assert [len(waiting.take_batch()) for _ in range(3)] == [2, 1, 1]


async def test_searches_over_the_bytes_of_the_journal_have_no_receipt(services: Services, answered: Record) -> None:
    plan, result, ranking, subject = answered
    size = estimate_size(plan, ranking, subject)
    journal = SearchJournal(services.database, waiting=WaitingSearches(total=6 * size))
    for _ in range(5):
        journal.record(plan, of_another(result), ranking, subject)
    assert (journal.waiting, journal.dropped) == (3, 2)
    await journal.close()
    journal.record(plan, of_another(result), ranking, subject)
    assert (journal.waiting, journal.dropped) == (1, 2)
    await journal.close()
