"""An entry that another request deletes while a write refers to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any
from uuid import UUID

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.entries import EntryDraft
from app.errors import ConcurrentWrites, InvalidInput
from tests.fixtures.database.cluster import connected

pytestmark = pytest.mark.own_tenants

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
