"""New versions of a file, and files that change while they are read."""

from __future__ import annotations

import asyncio

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.assets import Upload
from app.contract.entries import EntryDraft
from app.contract.search import SearchQuery
from app.errors import AssetNotFound, Conflict
from tests.fixtures.documents import write_pdf
from tests.fixtures.providers.failing import FailingProvider
from tests.knowledge.conftest import RunJobs
from tests.knowledge.ingestion.reading import chunks_of, document


async def test_new_version_replaces_the_chunks_in_one_transaction(
    services: Services, tenant: Tenant, run_jobs: RunJobs
) -> None:
    def version(subject: str) -> Upload:
        return Upload("a.md", document(subject), external_id="a")

    async def found(word: str) -> bool:
        return len(await services.search.search(tenant.id, SearchQuery(query=word, mode="keyword"))) > 0

    first, _ = await services.assets.upload(tenant.id, version("harbour"))
    await run_jobs()
    old = {chunk.id for chunk in await chunks_of(services, tenant, first)}
    second, new = await services.assets.upload(tenant.id, version("lighthouse"))
    assert (second.id, second.generation, second.status, new) == (first.id, 2, "pending", True)
    assert await found("harbour"), "the old chunks stay until the new ones are there"
    await run_jobs()
    assert (await found("harbour"), await found("lighthouse")) == (False, True)
    assert old.isdisjoint(c.id for c in await chunks_of(services, tenant, first))
    _, new = await services.assets.upload(tenant.id, version("lighthouse"))
    assert not new


async def test_version_that_arrives_while_the_old_one_is_read_wins(
    services: Services, tenant: Tenant, failing_provider: FailingProvider, run_jobs: RunJobs
) -> None:
    asset, _ = await services.assets.upload(tenant.id, Upload("a.md", document("harbour"), external_id="a"))
    go_on = failing_provider.hold_next_call()
    working = asyncio.create_task(services.worker.run_once())
    await failing_provider.entered.wait()
    assert (await services.assets.get(tenant.id, asset.id)).status == "processing"
    await services.assets.upload(tenant.id, Upload("a.md", document("lighthouse"), external_id="a"))
    go_on.set()
    await working
    assert (await services.assets.get(tenant.id, asset.id)).chunks == 0, "nothing of the old one was kept"
    await run_jobs()
    asset = await services.assets.get(tenant.id, asset.id)
    assert (asset.status, asset.generation) == ("indexed", 2)
    assert "lighthouse" in await services.assets.text(tenant.id, asset.id)
    assert (await services.administration.stats(tenant.id)).jobs == 0


async def test_asset_deleted_while_it_is_read_stays_deleted(
    services: Services, tenant: Tenant, failing_provider: FailingProvider, run_jobs: RunJobs
) -> None:
    asset, _ = await services.assets.upload(tenant.id, Upload("a.md", document("harbour")))
    go_on = failing_provider.hold_next_call()
    working = asyncio.create_task(services.worker.run_once())
    await failing_provider.entered.wait()
    await services.assets.delete(tenant.id, asset.id)
    go_on.set()
    await working
    await run_jobs()
    with pytest.raises(AssetNotFound):
        await services.assets.get(tenant.id, asset.id)
    stats = await services.administration.stats(tenant.id)
    assert (stats.entries, stats.jobs, stats.assets_by_status) == (0, 0, {})


async def test_failed_new_version_keeps_the_chunks_of_the_old(
    services: Services, tenant: Tenant, run_jobs: RunJobs
) -> None:
    good = Upload("a.pdf", write_pdf([["All about the harbour."]]), external_id="a")
    asset, _ = await services.assets.upload(tenant.id, good)
    await run_jobs()
    await services.assets.upload(tenant.id, Upload("a.pdf", b"%PDF-1.4\nnothing", external_id="a"))
    await run_jobs()
    asset = await services.assets.get(tenant.id, asset.id)
    assert (asset.status, asset.chunks) == ("failed", 1)


async def test_chunk_keeps_its_place_when_its_metadata_change(
    services: Services, tenant: Tenant, run_jobs: RunJobs
) -> None:
    asset, _ = await services.assets.upload(tenant.id, Upload("a.md", b"Harbour.", metadata={"team": "red"}))
    await run_jobs()
    (chunk,) = await chunks_of(services, tenant, asset)
    place = {"char_start": 0, "char_end": 8}
    assert chunk.metadata == {"team": "red", **place}
    changed = await services.entries.change(tenant.id, chunk.id, EntryDraft(metadata={"team": "x", "char_end": 8}))
    assert changed.metadata == {"team": "x", **place}
    for moved in ({"char_start": 3}, {"page": 2}, {"char_end": None}):
        with pytest.raises(Conflict, match=f"{next(iter(moved))} of its metadata"):
            await services.entries.change(tenant.id, chunk.id, EntryDraft(metadata=moved))
    assert (await services.entries.get(tenant.id, chunk.id)).metadata == {"team": "x", **place}
    own, _ = await services.entries.create(tenant.id, EntryDraft(content="own", metadata={"page": 1}))
    assert (await services.entries.change(tenant.id, own.id, EntryDraft(metadata={"page": 2}))).metadata == {"page": 2}
