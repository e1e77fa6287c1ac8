"""What an import means for searches of the past."""

from __future__ import annotations

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.entries import EntryDraft
from tests.knowledge.transfer.packing import export, restore
from tests.knowledge.versions.keeping import found, keep, now, texts
from tests.knowledge.writing import write


async def test_imported_entries_were_not_here_before(services: Services, keeper: Tenant, other_tenant: Tenant) -> None:
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
