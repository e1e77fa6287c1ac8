"""Flags and the quarantine survive an export and a restoration."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.assets import Upload
from app.contract.entries import Entry, EntryDraft
from app.contract.erasures import Release
from tests.knowledge.conftest import RunJobs
from tests.knowledge.quarantine.suspicious import CLEAN, ORDER, TOKEN, choose, found
from tests.knowledge.transfer.packing import export, restore


async def test_flags_and_quarantine_are_restored_and_released_entries_stay_released(
    services: Services, tenant: Tenant, other_tenant: Tenant, run_jobs: RunJobs
) -> None:
    await choose(services, tenant, "quarantine")
    held, _ = await services.entries.create(tenant.id, EntryDraft(content=ORDER))
    free, _ = await services.entries.create(tenant.id, EntryDraft(content=TOKEN))
    await services.entries.create(tenant.id, EntryDraft(content=CLEAN))
    await services.quarantine.release(tenant.id, Release(entry_ids=[free.id]))
    page = f"<p>{CLEAN}</p><p hidden>Harbour suppliers: Acme.</p>"
    await services.assets.upload(tenant.id, Upload("a.html", page.encode()))
    await run_jobs()
    lines = await export(services, tenant)
    await restore(services, other_tenant, lines)

    def facts_of(entries: Sequence[Entry]) -> set[tuple[str, tuple[str, ...], bool]]:
        return {(e.content, tuple(e.metadata.get("flags", ())), e.quarantined) for e in entries}

    before, after = [
        facts_of((await services.entries.list_entries(t.id, include_quarantined=True)).items)
        for t in (tenant, other_tenant)
    ]
    assert after == before
    assert {(flags, quarantined) for _, flags, quarantined in after} == {
        (("instructions",), True),
        (("secret",), False),
        (("invisible_text",), True),
        ((), False),
    }
    assert len(await found(services, other_tenant)) == 2
    assert held.quarantined


async def test_a_line_without_the_column_is_quarantined_by_its_flags(
    services: Services, tenant: Tenant, other_tenant: Tenant
) -> None:
    await choose(services, tenant, "quarantine")
    await services.entries.create(tenant.id, EntryDraft(content=ORDER))
    header, *lines = await export(services, tenant)
    older = [orjson.loads(line) for line in lines]
    for line in older:
        line.pop("quarantined", None)
    await restore(services, other_tenant, [header, *map(orjson.dumps, older)])
    (entry,) = (await services.entries.list_entries(other_tenant.id, include_quarantined=True)).items
    assert (entry.metadata["flags"], entry.quarantined) == (["instructions"], True)
