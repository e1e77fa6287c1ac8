"""The journal of searches: pending records, and callers that wait for them."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from typing import Any

import pytest

from app.composition.services import Services
from app.knowledge.search import SearchQuery
from app.knowledge.search.journal.records import SearchJournal
from app.knowledge.tenants.directory import Tenant


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


async def test_flush_starts_the_writer_again_after_it_was_cancelled(
    services: Services, tenant: Tenant
) -> None:
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
        result = await services.search.search(tenant.id, SearchQuery(query="harbour"))
        ids.append(result.metadata.search_id)
        if number == 2:
            journal._queue.append(replace(journal._queue.pop(), subject="nul \x00"))
    assert journal.waiting == 5
    await journal.flush()
    assert (journal.written, journal.dropped, journal.waiting) == (4, 1, 0)
    found = [await journal.find(tenant.id, search_id) is not None for search_id in ids]
    assert found == [True, True, False, True, True]
