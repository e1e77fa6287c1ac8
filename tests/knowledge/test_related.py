"""Entries around an entry: parent, siblings, shared tags, in that order."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from app.composition import Services
from app.errors import InvalidInput
from app.knowledge.assets import Upload
from app.knowledge.tenants import Tenant
from tests.knowledge.conftest import RunJobs


async def write(services: Services, tenant: Tenant, content: str, **values: Any) -> UUID:
    return (await services.entries.create(tenant.id, {"content": content, **values}))[0].id


async def relations(
    services: Services, tenant: Tenant, entry_id: UUID, limit: int = 20
) -> list[tuple[UUID, str, int | None]]:
    related = await services.related.related(tenant.id, entry_id, limit)
    return [(r.entry.id, r.relationship, r.overlap_count) for r in related]


async def test_relations_come_in_order_and_each_entry_once(services: Services, tenant: Tenant) -> None:
    tags = ["a", "b", "c"]
    parent = await write(services, tenant, "parent", tags=tags)
    origin = await write(services, tenant, "origin", parent_id=parent, tags=tags)
    first = await write(services, tenant, "first sibling", parent_id=parent, tags=["a", "b"])
    second = await write(services, tenant, "second sibling", parent_id=parent)
    two = await write(services, tenant, "two tags", tags=["b", "a", "x"])
    three = await write(services, tenant, "three tags", tags=tags)
    await write(services, tenant, "one tag", tags=["a"])
    await write(services, tenant, "child", parent_id=origin)
    expected = [
        (parent, "parent", None),
        (first, "sibling", None),
        (second, "sibling", None),
        (three, "tag_overlap", 3),
        (two, "tag_overlap", 2),
    ]
    assert await relations(services, tenant, origin) == expected
    for limit in range(1, 6):
        assert await relations(services, tenant, origin, limit) == expected[:limit]


async def test_related_leaves_out_what_is_hidden_or_foreign(
    services: Services, tenant: Tenant, other_tenant: Tenant
) -> None:
    tags = ["a", "b"]
    parent = await write(services, tenant, "parent", tags=tags)
    origin = await write(services, tenant, "origin", parent_id=parent, tags=tags)
    expired = await write(services, tenant, "expired", parent_id=parent, tags=tags)
    old = await write(services, tenant, "old", tags=tags)
    foreign = await write(services, other_tenant, "foreign", tags=tags)
    past = datetime.now(UTC) - timedelta(seconds=1)
    await services.entries.change(tenant.id, expired, {"expires_at": past})
    await services.entries.change(tenant.id, old, {"superseded_by_id": origin})
    assert await relations(services, tenant, origin) == [(parent, "parent", None)]
    await services.entries.change(tenant.id, parent, {"superseded_by_id": origin})
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


async def test_tag_overlap_finds_enough_behind_many_siblings(services: Services, tenant: Tenant) -> None:
    parent = await write(services, tenant, "parent")
    origin = await write(services, tenant, "origin", parent_id=parent, tags=["a", "b", "c"])
    siblings = [
        await write(services, tenant, f"sibling {n}", parent_id=parent, tags=["a", "b", "c"])
        for n in range(6)
    ]
    other = await write(services, tenant, "shares two", tags=["a", "b"])
    found = await relations(services, tenant, origin, limit=8)
    assert [i for i, _, _ in found] == [parent, *siblings, other]


@pytest.mark.parametrize("limit", [0, -1, 21])
async def test_related_refuses_a_limit_out_of_range(services: Services, tenant: Tenant, limit: int) -> None:
    with pytest.raises(InvalidInput, match="limit: must be between 1 and 20"):
        await services.related.related(tenant.id, uuid4(), limit)
