"""Lists of entries and tags, and their order."""

import random
from collections.abc import Awaitable, Callable
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
from app.errors import InvalidInput

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
