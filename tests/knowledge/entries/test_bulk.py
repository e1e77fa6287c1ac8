"""Many entries written at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.entries import EntryDraft
from app.errors import InvalidInput
from tests.fixtures.database.cluster import connected
from tests.knowledge.writing import count

pytestmark = pytest.mark.own_tenants


async def test_bulk_writes_valid_entries_and_reports_invalid_ones(services: Services, tenant: Tenant) -> None:
    await services.entries.create(tenant.id, EntryDraft(content="entry 3"))
    await services.entries.create(tenant.id, EntryDraft(content="old text", external_id="x4"))
    items: list[object] = [EntryDraft(content=f"entry {n}") for n in range(1_000)]
    items[4] = EntryDraft(content="entry 4", external_id="x4")
    items[10] = {"content": ""}
    items[11] = EntryDraft(title="no content")
    items[12] = EntryDraft(content="x", parent_id=uuid4())
    items[500] = EntryDraft(content="entry 499")
    items[501] = EntryDraft(content="entry 499", tags=["second time"])
    results = await services.entries.create_many(tenant.id, items)
    assert [r.index for r in results] == list(range(1_000))
    status = {r.index: r.status for r in results}
    assert {n for n, s in status.items() if s == "failed"} == {10, 11, 12}
    assert {n for n, s in status.items() if s == "unchanged"} == {3, 500}
    assert {n for n, s in status.items() if s == "updated"} == {4, 501}
    assert all(r.error and r.id is None for r in results if r.status == "failed")
    assert "content: " in str(results[10].error)
    assert results[500].id == results[501].id == results[499].id
    assert await count(services, tenant) == 1_000 - 3 - 2
    again = await services.entries.create_many(tenant.id, items)
    assert {r.status for r in again if r.index not in (10, 11, 12)} <= {"unchanged"}
    assert [r.id for r in again] == [r.id for r in results]


async def test_bulk_of_the_wrong_size_is_refused(services: Services, tenant: Tenant) -> None:
    for number, rule in ((0, "at least 1 item"), (1_001, "at most 1000 items")):
        with pytest.raises(InvalidInput, match=f"entries: must have {rule}"):
            await services.entries.create_many(tenant.id, [EntryDraft(content="x")] * number)


REFUSALS = """
    create function refuse_marked() returns trigger language plpgsql as $$
    begin
      case
        when new.content like '%too long' then raise exception 'too long' using errcode = '22001';
        when new.content like '%no syntax' then raise exception 'no syntax' using errcode = '42601';
        when new.content like '%too large' then perform repeat('x', 3000)::tsvector;
        else return new;
      end case;
      return new;
    end $$;
    create trigger refuse_marked before insert or update on entries for each row execute function refuse_marked();
"""
"""The database refuses some values: with a data error, a syntax error of a value, and a limit of a type."""


@pytest.fixture
async def refusing(superuser_dsn: str) -> AsyncIterator[None]:
    """The database refuses entries whose content ends in certain words."""
    async with connected(superuser_dsn) as superuser:
        await superuser.execute(REFUSALS)
        yield
        await superuser.execute("drop function refuse_marked() cascade")


@pytest.mark.usefixtures("refusing")
async def test_entries_that_the_database_refuses_do_not_affect_the_others(services: Services, tenant: Tenant) -> None:
    refused = {0: "too long", 37: "no syntax", 38: "too large", 99: "too long"}
    items = [EntryDraft(content=f"entry {n} {refused.get(n, '')}") for n in range(100)]
    items[50] = EntryDraft(content="entry 49 ")
    results = await services.entries.create_many(tenant.id, items)
    assert [r.index for r in results] == list(range(100))
    failed = {r.index: (r.id, r.error) for r in results if r.status == "failed"}
    assert failed == dict.fromkeys(refused, (None, "entry: the database cannot store its values"))
    assert results[50].id == results[49].id
    assert {r.status for r in results if r.index not in {*refused, 50}} == {"created"}
    assert await count(services, tenant) == 95
    assert [r.id for r in await services.entries.create_many(tenant.id, items)] == [r.id for r in results]


async def test_concurrent_bulks_of_the_same_entries_agree(services: Services, tenant: Tenant) -> None:
    for attempt in range(1, 5):  # without one order of writing, one in four or so would end in a deadlock
        items = [EntryDraft(content=f"entry {n}", external_id=f"{attempt} {n}") for n in range(100)]
        runs = await asyncio.gather(
            *(services.entries.create_many(tenant.id, items[::step]) for step in (1, -1, 1, -1))
        )
        assert await count(services, tenant) == 100 * attempt
        assert sum(r.status == "created" for run in runs for r in run) == 100
        assert not any(r.status == "failed" for run in runs for r in run)
