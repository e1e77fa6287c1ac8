"""Entries cannot supersede each other: all of them would be hidden."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.entries import EntryDraft
from app.errors import InvalidInput
from app.knowledge.entries.writing import MAX_SUCCESSORS

pytestmark = pytest.mark.own_tenants

CYCLE = "superseded_by_id: must not be superseded by this entry"


async def write(services: Services, tenant: Tenant, name: str, successor: UUID | None = None) -> UUID:
    draft = EntryDraft(content=name, external_id=name, superseded_by_id=successor)
    return (await services.entries.create(tenant.id, draft))[0].id


async def test_a_cycle_is_refused_however_it_is_written(services: Services, tenant: Tenant) -> None:
    newest = await write(services, tenant, "newest")
    middle = await write(services, tenant, "middle", newest)
    oldest = await write(services, tenant, "oldest", middle)
    for successor in (middle, oldest):
        with pytest.raises(InvalidInput, match=CYCLE):
            await services.entries.change(tenant.id, newest, EntryDraft(superseded_by_id=successor))
        again = EntryDraft(content="newest", external_id="newest", superseded_by_id=successor)
        with pytest.raises(InvalidInput, match=CYCLE):
            await services.entries.create(tenant.id, again)
        (result,) = await services.entries.create_many(tenant.id, [again])
        assert result.status == "failed"
        assert (result.error or "").startswith(CYCLE)
    assert (await services.entries.get(tenant.id, newest)).superseded_by_id is None
    await services.entries.change(tenant.id, oldest, EntryDraft(superseded_by_id=newest))


async def test_entries_of_one_bulk_write_cannot_supersede_each_other(services: Services, tenant: Tenant) -> None:
    first, second = await write(services, tenant, "first"), await write(services, tenant, "second")
    results = await services.entries.create_many(
        tenant.id,
        [
            EntryDraft(content="first", external_id="first", superseded_by_id=second),
            EntryDraft(content="second", external_id="second", superseded_by_id=first),
        ],
    )
    assert [result.status for result in results] == ["updated", "failed"]


@pytest.mark.slow
async def test_a_chain_of_successors_has_a_limit(services: Services, tenant: Tenant) -> None:
    last: UUID | None = None
    for number in range(MAX_SUCCESSORS + 1):
        last = await write(services, tenant, f"entry {number}", last)
    single = await write(services, tenant, "single")
    with pytest.raises(InvalidInput, match=f"more than {MAX_SUCCESSORS} successors"):
        await services.entries.change(tenant.id, single, EntryDraft(superseded_by_id=last))


async def test_simultaneous_changes_cannot_make_a_cycle(services: Services, tenant: Tenant) -> None:
    pairs = [
        (await write(services, tenant, f"first {n}"), await write(services, tenant, f"second {n}")) for n in range(15)
    ]

    async def supersede(entry: UUID, successor: UUID, *, again: str | None) -> bool:
        draft = EntryDraft(superseded_by_id=successor)
        try:
            if again is None:
                await services.entries.change(tenant.id, entry, draft)
            else:
                draft = EntryDraft(content=again, external_id=again, superseded_by_id=successor)
                await services.entries.create(tenant.id, draft)
        except InvalidInput:
            return False
        return True

    for n, (first, second) in enumerate(pairs):
        done = await asyncio.gather(
            supersede(first, second, again=None),
            supersede(second, first, again=f"second {n}" if n % 2 else None),
        )
        assert sorted(done) == [False, True]
