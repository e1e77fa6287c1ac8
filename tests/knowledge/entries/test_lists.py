"""Lists of entries, and entries that are related, replaced, or whose parent is deleted."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, get_args
from uuid import UUID, uuid4

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.assets import Upload
from app.contract.entries import EntryDraft
from app.contract.fields import Page
from app.contract.saved_searches import NewSavedSearch
from app.contract.vocabulary import AssetSort, EntrySort, SavedSearchSort
from app.errors import ConcurrentWrites, InvalidInput
from app.knowledge.entries.service import MAX_SUCCESSORS
from tests.fixtures.database.cluster import connected
from tests.knowledge.conftest import RunJobs

pytestmark = pytest.mark.own_tenants


async def test_list_pages_neither_repeat_nor_skip(services: Services, tenant: Tenant) -> None:
    await services.entries.create_many(
        tenant.id, [EntryDraft(content=f"entry {n}", tags=[f"t{n % 2}"]) for n in range(25)]
    )
    seen, cursor = [], None
    while True:
        page = await services.entries.list_entries(tenant.id, limit=7, cursor=cursor)
        seen += [entry.id for entry in page.items]
        # Entries that are created or deleted between pages do not shift the rest.
        await services.entries.create(tenant.id, EntryDraft(content=f"late {len(seen)}"))
        if page.next_cursor is None:
            break
        cursor = page.next_cursor
    assert len(seen) == len(set(seen)) == 25
    whole = await services.entries.list_entries(tenant.id, limit=200)
    assert [e.id for e in whole.items][-25:] == seen
    assert [e.created_at for e in whole.items] == sorted((e.created_at for e in whole.items), reverse=True)


async def test_list_filters_by_each_condition(services: Services, tenant: Tenant) -> None:
    await services.entries.create(tenant.id, EntryDraft(content="a", entry_type="lesson", tags=["x"]))
    await services.entries.create(tenant.id, EntryDraft(content="b", external_id="e", tags=["x", "y"]))
    conditions: list[tuple[dict[str, Any], list[str]]] = [
        ({"entry_type": "lesson"}, ["a"]),
        ({"tag": "x"}, ["b", "a"]),
        ({"tag": "y"}, ["b"]),
        ({"external_id": "e"}, ["b"]),
        ({"asset_id": uuid4()}, []),
    ]
    for condition, contents in conditions:
        page = await services.entries.list_entries(tenant.id, **condition)
        assert [entry.content for entry in page.items] == contents


async def test_a_list_hides_expired_entries_unless_they_are_included(services: Services, tenant: Tenant) -> None:
    later, past = datetime.now(UTC) + timedelta(days=1), datetime.now(UTC) - timedelta(seconds=1)
    await services.entries.create(tenant.id, EntryDraft(content="current", expires_at=later))
    gone, _ = await services.entries.create(tenant.id, EntryDraft(content="expired", expires_at=past, external_id="e"))
    conditions: list[dict[str, Any]] = [{}, {"external_id": "e"}]
    for condition in conditions:
        hidden = await services.entries.list_entries(tenant.id, **condition)
        assert "expired" not in [entry.content for entry in hidden.items]
        shown = await services.entries.list_entries(tenant.id, include_expired=True, **condition)
        assert "expired" in [entry.content for entry in shown.items]
    assert (await services.entries.get(tenant.id, gone.id)).expires_at == past
    await services.entries.change(tenant.id, gone.id, EntryDraft(expires_at=None))
    assert len((await services.entries.list_entries(tenant.id)).items) == 2


async def test_list_refuses_a_foreign_cursor(services: Services, tenant: Tenant) -> None:
    for cursor in ("", "x", "ä", "\ud800", "a" * 31, "f" + "_" * 31, "\x00", "AAAAAAAAAAA"):
        with pytest.raises(InvalidInput, match="cursor: "):
            await services.entries.list_entries(tenant.id, cursor=cursor)
    for limit in (0, 201):
        with pytest.raises(InvalidInput, match="limit: "):
            await services.entries.list_entries(tenant.id, limit=limit)


TITLES = (
    None,
    "",
    "beta",
    "Alpha",
    "alpha",
    "Ärger",
    "ärger",
    "z" * 150,
    "z" * 149 + "a",
    'quote "',
    "\U0001f600",
    "日本",
)


async def walk(read: Callable[..., Awaitable[Page[Any]]], *of: Any, **asked: Any) -> list[Any]:
    """Every item of a list, page by page."""
    items: list[Any] = []
    cursor = None
    while True:
        page = await read(*of, cursor=cursor, **asked)
        items += page.items
        if (cursor := page.next_cursor) is None:
            return items


def key_of(column: str, item: Any) -> Any:
    value = getattr(item, column)
    return value if isinstance(value, datetime) else (value or "").lower()[:100]


def assert_in_order(items: list[Any], sort: str) -> None:
    column = sort.removeprefix("-")
    expected = sorted(items, key=lambda item: (key_of(column, item), item.id), reverse=sort.startswith("-"))
    assert [item.id for item in items] == [item.id for item in expected], sort


async def test_entries_are_listed_in_each_order_with_equal_values_by_id(services: Services, tenant: Tenant) -> None:
    chance = random.Random(5)  # noqa: S311
    drafts = [
        EntryDraft(content=f"entry {n}", title=chance.choice([t for t in TITLES if t != ""]), tags=[f"t{n % 2}"])
        for n in range(40)
    ]
    await services.entries.create_many(tenant.id, drafts)
    everything = (await services.entries.list_entries(tenant.id, limit=200)).items
    for entry in chance.sample(list(everything), 10):
        await services.entries.change(tenant.id, entry.id, EntryDraft(confidence=0.5))
    for sort in get_args(EntrySort):
        found = await walk(services.entries.list_entries, tenant.id, limit=7, sort=sort)
        assert len(found) == len({e.id for e in found}) == 40
        assert_in_order(found, sort)
        tagged = await walk(services.entries.list_entries, tenant.id, limit=3, sort=sort, tag="t1")
        assert [e.id for e in tagged] == [e.id for e in found if "t1" in e.tags]


async def test_pages_of_a_sorted_list_neither_repeat_nor_skip_while_entries_come_and_go(
    services: Services, tenant: Tenant
) -> None:
    chance = random.Random(6)  # noqa: S311
    titles = ["same", "Same", "other", "aaa", "zzz"]
    await services.entries.create_many(
        tenant.id, [EntryDraft(content=f"entry {n}", title=chance.choice(titles)) for n in range(18)]
    )
    stored = {e.id for e in (await services.entries.list_entries(tenant.id, limit=200)).items}
    sorts: tuple[EntrySort, ...] = ("title", "-title", "created_at")
    for sort in sorts:
        seen: list[UUID] = []
        removed: set[UUID] = set()
        cursor = None
        while True:
            page = await services.entries.list_entries(tenant.id, limit=4, cursor=cursor, sort=sort)
            seen += [e.id for e in page.items]
            if (cursor := page.next_cursor) is None:
                break
            late = [EntryDraft(content=f"late {sort} {len(seen)} {t}", title=t) for t in ("aaaa", "same", "zzzz")]
            await services.entries.create_many(tenant.id, late)
            # The entry at the cursor itself, and one that may be still ahead.
            for gone in {seen[-1], chance.choice(sorted(stored))} - removed:
                await services.entries.delete(tenant.id, gone)
                removed.add(gone)
        assert len(seen) == len(set(seen))
        assert stored - removed <= set(seen)
        stored = {e.id for e in (await services.entries.list_entries(tenant.id, limit=200)).items}


async def test_an_entry_that_changes_is_listed_again_at_the_end_of_the_order_by_change(
    services: Services, tenant: Tenant
) -> None:
    await services.entries.create_many(tenant.id, [EntryDraft(content=f"entry {n}") for n in range(6)])
    first = await services.entries.list_entries(tenant.id, limit=4, sort="updated_at")
    await services.entries.change(tenant.id, first.items[0].id, EntryDraft(confidence=0.5))
    rest = await services.entries.list_entries(tenant.id, cursor=first.next_cursor, sort="updated_at")
    assert [e.content for e in rest.items] == ["entry 4", "entry 5", "entry 0"]


async def test_expired_entries_are_sorted_with_the_others_if_they_are_included(
    services: Services, tenant: Tenant
) -> None:
    past = datetime.now(UTC) - timedelta(days=1)
    await services.entries.create(tenant.id, EntryDraft(content="1", title="b", expires_at=past))
    for content, title in (("2", "a"), ("3", "c")):
        await services.entries.create(tenant.id, EntryDraft(content=content, title=title))
    shown = await services.entries.list_entries(tenant.id, sort="title", include_expired=True)
    assert [e.title for e in shown.items] == ["a", "b", "c"]
    hidden = await services.entries.list_entries(tenant.id, sort="title")
    assert [e.title for e in hidden.items] == ["a", "c"]


async def test_assets_are_listed_in_each_order(services: Services, tenant: Tenant) -> None:
    for n, name in enumerate(("b.txt", "A.txt", "a.txt", "c.txt", "a.txt")):
        await services.assets.upload(tenant.id, Upload(name=name, data=b"text %d" % n))
    for sort in get_args(AssetSort):
        found = await walk(services.assets.list_assets, tenant.id, limit=2, sort=sort)
        assert len(found) == 5
        assert_in_order(found, sort)


async def test_saved_searches_are_listed_in_each_order(services: Services, tenant: Tenant) -> None:
    for name in ("b", "A", "c", "Ä", "d"):
        await services.saved_searches.save(tenant.id, "anna", NewSavedSearch(name, {"query": "x"}))
    for sort in get_args(SavedSearchSort):
        found = await walk(services.saved_searches.list_saved, tenant.id, "anna", limit=2, sort=sort)
        assert len(found) == 5
        assert_in_order(found, sort)


async def test_a_cursor_of_another_order_is_refused(services: Services, tenant: Tenant) -> None:
    await services.entries.create_many(tenant.id, [EntryDraft(content=f"{n}", title=f"{n}") for n in range(3)])
    cursors = {
        sort: (await services.entries.list_entries(tenant.id, limit=1, sort=sort)).next_cursor
        for sort in get_args(EntrySort)
    }
    for own in cursors:
        for sort, cursor in cursors.items():
            if sort != own:
                with pytest.raises(InvalidInput, match="cursor: belongs to a list in another order"):
                    await services.entries.list_entries(tenant.id, cursor=cursor, sort=own)
    with pytest.raises(InvalidInput, match="sort: must be one of created_at, -created_at"):
        await services.entries.list_entries(tenant.id, sort="content")  # type: ignore[arg-type]


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
