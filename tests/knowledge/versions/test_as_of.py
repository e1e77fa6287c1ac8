"""A search that names a time finds what was valid then."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.assets import Upload
from app.contract.entries import EntryDraft
from app.contract.search import SearchQuery
from app.errors import InvalidInput
from tests.knowledge.conftest import RunJobs
from tests.knowledge.versions.keeping import found, now
from tests.knowledge.writing import write

pytestmark = pytest.mark.own_tenants


async def test_the_text_at_a_change_is_the_new_one(services: Services, keeper: Tenant) -> None:
    (entry_id,) = await write(services, keeper, "old harbour")
    await services.entries.change(keeper.id, entry_id, EntryDraft(content="new harbour"))
    changed = (await services.entries.get(keeper.id, entry_id)).updated_at
    assert await found(services, keeper, changed) == ["new harbour"]
    assert await found(services, keeper, changed - timedelta(microseconds=1)) == ["old harbour"]


async def test_expiry_is_that_of_the_time(services: Services, keeper: Tenant) -> None:
    await write(services, keeper, "brief harbour", expires_at=now() + timedelta(seconds=2))
    before = now()
    await asyncio.sleep(2.1)
    assert await found(services, keeper, None) == []
    assert await found(services, keeper, before) == ["brief harbour"]
    assert await found(services, keeper, now()) == []


async def test_links_cut_by_a_deletion_are_kept(services: Services, keeper: Tenant) -> None:
    old, new = await write(services, keeper, "old harbour", "new harbour")
    await services.entries.change(keeper.id, old, EntryDraft(superseded_by_id=new))
    superseded = now()
    await services.entries.delete(keeper.id, new)
    assert await found(services, keeper, None) == ["old harbour"]
    assert await found(services, keeper, superseded) == ["new harbour"]
    assert await found(services, keeper, superseded, include_superseded=True) == [
        "new harbour",
        "old harbour",
    ]
    assert (await services.versions.list_versions(keeper.id, old)).items[0].superseded_by_id == new


async def test_bulk_writes_keep_versions(services: Services, keeper: Tenant) -> None:
    drafts = [EntryDraft(content=f"harbour {n}", external_id=str(n)) for n in range(20)]
    await services.entries.create_many(keeper.id, drafts)
    before = now()
    drafts = [EntryDraft(content=f"harbour {n} again", external_id=str(n)) for n in range(20)]
    await services.entries.create_many(keeper.id, drafts)
    assert await found(services, keeper, before, limit=50) == sorted(f"harbour {n}" for n in range(20))
    assert await found(services, keeper, now(), limit=50) == sorted(f"harbour {n} again" for n in range(20))


async def test_a_replaced_and_a_deleted_asset_are_found_as_they_were(
    services: Services, keeper: Tenant, run_jobs: RunJobs
) -> None:
    for mode in ("keyword", "hybrid"):
        asset, _ = await services.assets.upload(keeper.id, Upload(f"{mode}.md", b"the old harbour", external_id=mode))
        await run_jobs()
        old = now()
        await services.assets.upload(keeper.id, Upload(f"{mode}.md", b"the new harbour", external_id=mode))
        await run_jobs()
        new = now()
        await services.assets.delete(keeper.id, asset.id)
        for moment, text in ((old, "the old harbour"), (new, "the new harbour")):
            query = SearchQuery(
                query="harbour",
                mode=mode,
                as_of=moment,
                source="asset",
                asset_id=[asset.id],
                group_by="asset",
            )
            (hit,) = await services.search.search(keeper.id, query)
            assert (hit.content, hit.asset_id) == (text, asset.id)
        assert await found(services, keeper, None) == []


async def test_of_assets_with_the_same_bytes_one_is_found_then(
    services: Services, keeper: Tenant, run_jobs: RunJobs
) -> None:
    for name in ("first", "second"):
        await services.assets.upload(keeper.id, Upload(f"{name}.md", b"the same harbour", external_id=name))
        await run_jobs()
    both = now()
    page = await services.assets.list_assets(keeper.id)
    for asset in page.items:
        await services.assets.delete(keeper.id, asset.id)
        assert await found(services, keeper, both) == ["the same harbour"]


async def test_pages_of_a_search_stay_in_the_past(services: Services, keeper: Tenant) -> None:
    entries = await write(services, keeper, *(f"harbour {n}" for n in range(6)))
    before = now()
    for entry_id in entries[:3]:
        await services.entries.change(keeper.id, entry_id, EntryDraft(content=f"mountain {entry_id}"))
    for entry_id in entries[3:5]:
        await services.entries.delete(keeper.id, entry_id)
    query = SearchQuery(query="harbour", mode="keyword", limit=4, as_of=before)
    first = await services.search.search(keeper.id, query)
    rest = SearchQuery(query="harbour", cursor=first.metadata.next_cursor)
    second = await services.search.search(keeper.id, rest)
    assert sorted(hit.content for hit in (*first, *second)) == [f"harbour {n}" for n in range(6)]
    assert all(hit.validity is not None for hit in second)
    with pytest.raises(InvalidInput, match="another search"):
        await services.search.search(
            keeper.id, SearchQuery(query="harbour", cursor=first.metadata.next_cursor, as_of=now())
        )


async def test_a_cursor_with_filters_needs_as_of_too(services: Services, keeper: Tenant) -> None:
    await write(services, keeper, *(f"harbour {n}" for n in range(3)))
    query = SearchQuery(query="harbour", mode="keyword", limit=2, as_of=now(), include_superseded=True)
    first = await services.search.search(keeper.id, query)
    later = replace(query, cursor=first.metadata.next_cursor)
    for partial in (replace(later, as_of=None), replace(later, include_superseded=False)):
        with pytest.raises(InvalidInput, match="another search"):
            await services.search.search(keeper.id, partial)
    for accepted in (later, replace(later, as_of=None, include_superseded=False)):
        (hit,) = await services.search.search(keeper.id, accepted)
        assert hit.validity is not None


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"as_of": now() + timedelta(days=1)}, "as_of"),
        ({"as_of": now() - timedelta(days=400)}, "as_of"),
        ({"as_of": datetime(2026, 1, 1)}, "as_of"),  # noqa: DTZ001
        ({"as_of": now() - timedelta(days=1), "facets": ["tags"]}, "facets"),
    ],
    ids=["future", "long ago", "without a zone", "facets"],
)
async def test_a_time_that_cannot_be_answered_is_refused(
    services: Services, keeper: Tenant, values: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        await services.search.search(keeper.id, SearchQuery(query="harbour", **values))
    assert [error.field for error in refused.value.errors] == [field]
