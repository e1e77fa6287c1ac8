"""Pages and filters of lists of entries."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.entries import EntryDraft
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
