"""Pages and filters of lists of entries."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from app.composition.services import Services
from app.errors import InvalidInput
from app.knowledge.entries.drafts import EntryDraft
from app.knowledge.tenants.directory import Tenant


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


async def test_list_refuses_a_foreign_cursor(services: Services, tenant: Tenant) -> None:
    for cursor in ("", "x", "ä", "\ud800", "a" * 31, "f" + "_" * 31, "\x00", "AAAAAAAAAAA"):
        with pytest.raises(InvalidInput, match="cursor: "):
            await services.entries.list_entries(tenant.id, cursor=cursor)
    for limit in (0, 201):
        with pytest.raises(InvalidInput, match="limit: "):
            await services.entries.list_entries(tenant.id, limit=limit)
