"""What an import and a database that cannot keep versions mean for searches of the past."""

from __future__ import annotations

import pytest

from app.composition.services import Services
from app.errors import InvalidInput
from app.knowledge.entries.drafts import EntryDraft
from app.knowledge.tenants.directory import Tenant
from tests.fixtures.database.cluster import connected
from tests.knowledge.transfer.packing import export, restore
from tests.knowledge.versions.keeping import found, keep, now, texts
from tests.knowledge.writing import write


async def test_imported_entries_were_not_here_before(
    services: Services, keeper: Tenant, other_tenant: Tenant
) -> None:
    """Although the times of their changes are older."""
    await write(services, keeper, "the harbour")
    lines = await export(services, keeper)
    await keep(services, other_tenant, 30)
    before = now()
    assert (await restore(services, other_tenant, lines)).failed == 0
    imported = now()
    (entry,) = (await services.entries.list_entries(other_tenant.id)).items
    assert entry.updated_at < before
    assert await found(services, other_tenant, before) == []
    assert await found(services, other_tenant, imported) == ["the harbour"]
    assert await texts(services, other_tenant, entry.id) == []

    await services.entries.change(other_tenant.id, entry.id, EntryDraft(content="the new harbour"))
    changed = now()
    await restore(services, other_tenant, lines)
    moments = (before, imported, changed, now())
    assert [await found(services, other_tenant, moment) for moment in moments] == [
        [],
        ["the harbour"],
        ["the new harbour"],
        ["the harbour"],
    ]


async def test_versions_cannot_be_kept_without_the_triggers(
    services: Services, tenant: Tenant, superuser_dsn: str
) -> None:
    """As in a cluster of Citus."""
    async with connected(superuser_dsn) as superuser:
        await superuser.execute("drop trigger keep_changed on entries")
    with pytest.raises(InvalidInput, match="Citus"):
        await keep(services, tenant, 30)
    await keep(services, tenant, 0)
    assert not (await services.tenants.context(tenant.id)).settings.keep_versions_days
