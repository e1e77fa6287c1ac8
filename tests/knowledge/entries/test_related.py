"""Entries that are related, replaced, or whose parent is deleted."""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.assets import Upload
from app.contract.entries import EntryDraft
from app.errors import ConcurrentWrites, InvalidInput
from app.knowledge.entries.service import MAX_SUCCESSORS
from tests.fixtures.database.cluster import connected
from tests.knowledge.conftest import RunJobs

pytestmark = pytest.mark.own_tenants


async def write(services: Services, tenant: Tenant, content: str, **values: Any) -> UUID:
    return (await services.entries.create(tenant.id, EntryDraft(content=content, **values)))[0].id


async def relations(
    services: Services, tenant: Tenant, entry_id: UUID, limit: int = 20
) -> list[tuple[UUID, str, int | None]]:
    related = await services.reading.related(tenant.id, entry_id, limit)
    return [(r.id, r.relationship, r.overlap_count) for r in related.results]


async def test_related_entries_are_ordered_by_relation_and_unique(services: Services, tenant: Tenant) -> None:
    tags = ["a", "b", "c"]
    parent = await write(services, tenant, "parent", tags=tags)
    origin = await write(services, tenant, "origin", parent_id=parent, tags=tags)
    first = await write(services, tenant, "first sibling", parent_id=parent, tags=["a", "b"])
    second = await write(services, tenant, "second sibling", parent_id=parent)
    two = await write(services, tenant, "two tags", tags=["b", "a", "x"])
    three = await write(services, tenant, "three tags", tags=tags)
    await write(services, tenant, "one tag", tags=["a"])
    child = await write(services, tenant, "child", parent_id=origin, tags=tags)
    expected = [
        (parent, "parent", None),
        (first, "sibling", None),
        (second, "sibling", None),
        (child, "child", None),
        (three, "tag_overlap", 3),
        (two, "tag_overlap", 2),
    ]
    assert await relations(services, tenant, origin) == expected
    for limit in range(1, 7):
        assert await relations(services, tenant, origin, limit) == expected[:limit]


async def test_the_total_counts_all_related_entries_once(services: Services, tenant: Tenant, run_jobs: RunJobs) -> None:
    tags = ["a", "b"]
    parent = await write(services, tenant, "parent", tags=tags)
    origin = await write(services, tenant, "origin", parent_id=parent, tags=tags)
    for n in range(4):
        await write(services, tenant, f"child {n}", parent_id=origin, tags=tags)
        await write(services, tenant, f"sibling {n}", parent_id=parent, source_ids=[origin])
        await write(services, tenant, f"derived {n}", source_ids=[origin])
        await write(services, tenant, f"overlap {n}", tags=tags)
    for limit in (1, 5, 20):
        related = await services.reading.related(tenant.id, origin, limit)
        assert (len(related.results), related.metadata.total) == (min(limit, 17), 17)
    text = "\n\n".join(f"# Part {n}\n\n" + f"Sentence about subject {n}. " * 70 for n in range(30))
    asset, _ = await services.assets.upload(tenant.id, Upload("parts.md", text.encode()))
    await run_jobs()
    chunks = (await services.entries.list_entries(tenant.id, asset_id=asset.id, limit=200)).items
    related = await services.reading.related(tenant.id, chunks[0].id, 2)
    assert (len(related.results), related.metadata.total) == (2, len(chunks) - 1)
    assert (await services.reading.related(tenant.id, uuid4())).metadata.total == 0


async def test_related_omits_hidden_and_foreign_entries(
    services: Services, tenant: Tenant, other_tenant: Tenant
) -> None:
    tags = ["a", "b"]
    parent = await write(services, tenant, "parent", tags=tags)
    origin = await write(services, tenant, "origin", parent_id=parent, tags=tags)
    expired = await write(services, tenant, "expired", parent_id=parent, tags=tags)
    old = await write(services, tenant, "old", tags=tags)
    foreign = await write(services, other_tenant, "foreign", tags=tags)
    past = datetime.now(UTC) - timedelta(seconds=1)
    await services.entries.change(tenant.id, expired, EntryDraft(expires_at=past))
    await services.entries.change(tenant.id, old, EntryDraft(superseded_by_id=origin))
    assert await relations(services, tenant, origin) == [(parent, "parent", None)]
    await services.entries.change(tenant.id, parent, EntryDraft(superseded_by_id=origin))
    assert await relations(services, tenant, origin) == []
    for unknown in (foreign, uuid4()):
        assert await relations(services, tenant, unknown) == []


async def test_related_of_a_chunk_are_its_neighbours_nearest_first(
    services: Services, tenant: Tenant, run_jobs: RunJobs
) -> None:
    text = "\n\n".join(f"# Part {n}\n\n" + f"Sentence about subject {n}. " * 70 for n in range(8))
    asset, _ = await services.assets.upload(tenant.id, Upload("parts.md", text.encode()))
    await services.assets.upload(tenant.id, Upload("other.md", b"# Other\n\nSomething else."))
    await run_jobs()
    page = await services.entries.list_entries(tenant.id, asset_id=asset.id, limit=200)
    chunks = {entry.chunk_index: entry.id for entry in page.items}
    assert 8 <= len(chunks) <= 20
    found = await relations(services, tenant, chunks[3], limit=4)
    assert found == [(chunks[n], "sibling", None) for n in (4, 2, 5, 1)]
    assert [i for i, _, _ in await relations(services, tenant, chunks[0], limit=2)] == [chunks[1], chunks[2]]
    everything = await relations(services, tenant, chunks[3])
    assert {i for i, _, _ in everything} == set(chunks.values()) - {chunks[3]}


async def test_tag_overlap_fills_the_limit_after_many_siblings(services: Services, tenant: Tenant) -> None:
    parent = await write(services, tenant, "parent")
    origin = await write(services, tenant, "origin", parent_id=parent, tags=["a", "b", "c"])
    siblings = [await write(services, tenant, f"sibling {n}", parent_id=parent, tags=["a", "b", "c"]) for n in range(6)]
    other = await write(services, tenant, "shares two", tags=["a", "b"])
    found = await relations(services, tenant, origin, limit=8)
    assert [i for i, _, _ in found] == [parent, *siblings, other]


async def test_sources_and_derived_entries_are_followed_both_ways(services: Services, tenant: Tenant) -> None:
    first, second = [await write(services, tenant, f"source {n}") for n in range(2)]
    older = await write(services, tenant, "older insight", entry_type="insight", source_ids=[second, first])
    newer = await write(services, tenant, "newer insight", entry_type="insight", source_ids=[first])
    assert await relations(services, tenant, older) == [(second, "source", None), (first, "source", None)]
    assert await relations(services, tenant, first) == [(newer, "derived", None), (older, "derived", None)]
    assert await relations(services, tenant, second) == [(older, "derived", None)]
    assert await relations(services, tenant, first, limit=1) == [(newer, "derived", None)]


async def test_entry_with_several_relations_has_the_first_of_them(services: Services, tenant: Tenant) -> None:
    """The order: parent, sibling, source, derived, tag overlap."""
    tags = ["a", "b"]
    parent = await write(services, tenant, "parent", tags=tags)
    sibling = await write(services, tenant, "sibling", parent_id=parent, tags=tags)
    source = await write(services, tenant, "source", tags=tags)
    overlap = await write(services, tenant, "overlap", tags=tags)
    origin = await write(services, tenant, "origin", parent_id=parent, tags=tags, source_ids=[parent, sibling, source])
    derived = await write(services, tenant, "derived", tags=tags, source_ids=[origin])
    both = await write(services, tenant, "both ways", source_ids=[origin])
    await services.entries.change(tenant.id, origin, EntryDraft(source_ids=[parent, sibling, source, both]))
    expected = [
        (parent, "parent", None),
        (sibling, "sibling", None),
        (source, "source", None),
        (both, "source", None),
        (derived, "derived", None),
        (overlap, "tag_overlap", 2),
    ]
    assert await relations(services, tenant, origin) == expected
    for limit in range(1, 7):
        assert await relations(services, tenant, origin, limit) == expected[:limit]


async def test_sources_and_derived_omit_hidden_deleted_and_foreign_entries(
    services: Services, tenant: Tenant, other_tenant: Tenant, superuser_dsn: str
) -> None:
    expired, old, gone, visible = [await write(services, tenant, f"source {n}") for n in range(4)]
    origin = await write(services, tenant, "origin", source_ids=[expired, old, gone, visible])
    hidden = await write(services, tenant, "hidden insight", source_ids=[origin])
    foreign = await write(services, other_tenant, "foreign")
    past = datetime.now(UTC) - timedelta(seconds=1)
    for entry in (expired, hidden):
        await services.entries.change(tenant.id, entry, EntryDraft(expires_at=past))
    await services.entries.change(tenant.id, old, EntryDraft(superseded_by_id=visible))
    await services.entries.delete(tenant.id, gone)
    # Ids of another tenant's entries, in both directions, which no caller can write.
    async with connected(superuser_dsn) as superuser:
        await superuser.execute("update entries set source_ids = source_ids || $1::uuid where id = $2", foreign, origin)
        await superuser.execute("update entries set source_ids = array[$1::uuid] where id = $2", origin, foreign)
    assert await relations(services, tenant, origin) == [(visible, "source", None)]
    assert await relations(services, other_tenant, foreign) == []
    assert await relations(services, other_tenant, origin) == []


async def test_derived_entries_fill_the_limit_after_many_siblings(services: Services, tenant: Tenant) -> None:
    parent = await write(services, tenant, "parent")
    origin = await write(services, tenant, "origin", parent_id=parent)
    far = await write(services, tenant, "derived elsewhere", source_ids=[origin])
    siblings = [await write(services, tenant, f"sibling {n}", parent_id=parent, source_ids=[origin]) for n in range(6)]
    found = await relations(services, tenant, origin, limit=8)
    assert [i for i, _, _ in found] == [parent, *siblings, far]


@pytest.mark.parametrize("limit", [0, -1, 21])
async def test_related_refuses_a_limit_out_of_range(services: Services, tenant: Tenant, limit: int) -> None:
    with pytest.raises(InvalidInput, match="limit: must be between 1 and 20"):
        await services.reading.related(tenant.id, uuid4(), limit)


CYCLE = "superseded_by_id: must not be superseded by this entry"


async def store(services: Services, tenant: Tenant, name: str, successor: UUID | None = None) -> UUID:
    draft = EntryDraft(content=name, external_id=name, superseded_by_id=successor)
    return (await services.entries.create(tenant.id, draft))[0].id


async def test_a_cycle_is_refused_however_it_is_written(services: Services, tenant: Tenant) -> None:
    newest = await store(services, tenant, "newest")
    middle = await store(services, tenant, "middle", newest)
    oldest = await store(services, tenant, "oldest", middle)
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
    first, second = await store(services, tenant, "first"), await store(services, tenant, "second")
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
        last = await store(services, tenant, f"entry {number}", last)
    single = await store(services, tenant, "single")
    with pytest.raises(InvalidInput, match=f"more than {MAX_SUCCESSORS} successors"):
        await services.entries.change(tenant.id, single, EntryDraft(superseded_by_id=last))


async def test_simultaneous_changes_cannot_make_a_cycle(services: Services, tenant: Tenant) -> None:
    pairs = [
        (await store(services, tenant, f"first {n}"), await store(services, tenant, f"second {n}")) for n in range(15)
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
            supersede(first, second, again=None), supersede(second, first, again=f"second {n}" if n % 2 else None)
        )
        assert sorted(done) == [False, True]


Write = Callable[[Services, Tenant, UUID], Coroutine[Any, Any, None]]
WAITING = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"


async def create(services: Services, tenant: Tenant, parent: UUID) -> None:
    await services.entries.create(tenant.id, EntryDraft(content="child", parent_id=parent))


async def create_many(services: Services, tenant: Tenant, parent: UUID) -> None:
    await services.entries.create_many(tenant.id, [EntryDraft(content="child", superseded_by_id=parent)])


async def change(services: Services, tenant: Tenant, parent: UUID) -> None:
    (entry,) = (await services.entries.list_entries(tenant.id, external_id="orphan")).items
    await services.entries.change(tenant.id, entry.id, EntryDraft(parent_id=parent))


@pytest.mark.parametrize("write", [create, create_many, change])
async def test_a_write_that_refers_to_it_can_be_repeated(
    services: Services, tenant: Tenant, superuser_dsn: str, write: Write
) -> None:
    parent, _ = await services.entries.create(tenant.id, EntryDraft(content="parent"))
    await services.entries.create(tenant.id, EntryDraft(content="orphan", external_id="orphan"))
    async with connected(superuser_dsn) as deleting, connected(superuser_dsn) as observer:
        async with deleting.transaction():
            sql = "delete from entries where tenant_id = $1 and id = $2"
            await deleting.execute(sql, tenant.id, parent.id)
            writing = asyncio.create_task(write(services, tenant, parent.id))
            async with asyncio.timeout(60):
                while not await observer.fetchval(WAITING):  # noqa: ASYNC110 (the server has no event for it)
                    await asyncio.sleep(0.01)
        with pytest.raises(ConcurrentWrites, match="has just been deleted"):
            await writing
    if write is create:
        with pytest.raises(InvalidInput, match="parent_id"):
            await write(services, tenant, parent.id)
