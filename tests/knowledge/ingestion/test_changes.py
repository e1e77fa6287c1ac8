"""Changes of an asset: its chunks inherit them in the same transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.assets import AssetPatch, Upload
from app.contract.entries import EntryDraft
from app.contract.search import SearchQuery
from app.errors import AssetNotFound, InvalidInput, PartOfAsset, PreconditionFailed
from app.knowledge.entries.entry import PLACE
from app.mcp.answers.passages import cite
from tests.fixtures.documents import write_pdf
from tests.fixtures.providers.failing import FailingProvider
from tests.knowledge.conftest import RunJobs
from tests.knowledge.ingestion.reading import chunks_of, document

SECTIONS = b"# Handbook\n\nThe harbour.\n\n## Pilots\n\nThe pilots.\n\n## Tugs\n\nThe tugs.\n"


async def count(services: Services, tenant: Tenant, **wanted: Any) -> int:
    """How many hits a keyword search with these filters has."""
    query = SearchQuery(**{"query": "harbour lighthouse", "mode": "keyword", "limit": 50, **wanted})
    return len(await services.search.search(tenant.id, query))


async def test_chunks_inherit_every_changed_field(services: Services, tenant: Tenant, run_jobs: RunJobs) -> None:
    upload = Upload("a.md", document("harbour", "lighthouse"), tags=["old"], metadata={"team": "red"})
    asset, _ = await services.assets.upload(tenant.id, upload)
    await run_jobs()
    before = await chunks_of(services, tenant, asset)
    draft = AssetPatch(tags=["new", "new", "x"], roles=["dev"], metadata={"team": "blue"})
    changed = await services.assets.change(tenant.id, asset.id, draft)
    assert (changed.tags, changed.roles, changed.metadata) == (["new", "x"], ["dev"], {"team": "blue"})
    assert changed.version == asset.version + 1
    chunks = await chunks_of(services, tenant, asset)
    assert len(chunks) > 1
    for old, new in zip(before, chunks, strict=True):
        assert (new.id, new.content, new.title) == (old.id, old.content, old.title)
        assert (new.tags, new.roles) == (["new", "x"], ["dev"])
        place = {n: v for n, v in old.metadata.items() if n in PLACE}
        assert place.keys() >= {"char_start", "headings"}
        assert new.metadata == {"team": "blue", **place}
        assert (new.version, new.embedding_status) == (old.version + 1, "ready"), "the text is unchanged"
    assert await count(services, tenant, tags=["old"]) == 0
    assert await count(services, tenant, tags=["x"], role="dev", metadata={"team": "blue"}) == len(chunks)


async def test_omitted_fields_keep_their_value(services: Services, tenant: Tenant, run_jobs: RunJobs) -> None:
    upload = Upload("a.md", SECTIONS, tags=["a"], roles=["qa"], metadata={"k": 1})
    asset, _ = await services.assets.upload(tenant.id, upload)
    await run_jobs()
    changed = await services.assets.change(tenant.id, asset.id, AssetPatch(title="Manual"))
    assert (changed.tags, changed.roles, changed.metadata) == (["a"], ["qa"], {"k": 1})
    same = await services.assets.change(tenant.id, asset.id, AssetPatch(title="Manual"))
    assert same == changed, "a change without effect is not one"


async def test_title_replaces_that_of_the_file_and_is_embedded_again(
    services: Services, tenant: Tenant, run_jobs: RunJobs
) -> None:
    asset, _ = await services.assets.upload(tenant.id, Upload("a.md", SECTIONS, external_id="a"))
    await run_jobs()
    titles = [chunk.title for chunk in await chunks_of(services, tenant, asset)]
    changed = await services.assets.change(tenant.id, asset.id, AssetPatch(title="Manual"))
    assert changed.title == "Manual"
    chunks = await chunks_of(services, tenant, asset)
    assert [c.title for c in chunks] == [t and t.replace("Handbook", "Manual", 1) for t in titles]
    assert {c.embedding_status for c in chunks} == {"pending"}
    assert await count(services, tenant, query="manual") == len(chunks)
    await run_jobs()
    assert {c.embedding_status for c in await chunks_of(services, tenant, asset)} == {"ready"}
    # A new version of the file keeps the given title.
    again = SECTIONS + b"\n## Buoys\n\nThe buoys.\n"
    await services.assets.upload(tenant.id, Upload("a.md", again, external_id="a"))
    await run_jobs()
    chunks = await chunks_of(services, tenant, asset)
    assert chunks
    assert all((c.title or "").startswith("Manual") for c in chunks)
    restored = await services.assets.change(tenant.id, asset.id, AssetPatch(title=None))
    assert restored.title == "Handbook"
    assert all((c.title or "").startswith("Handbook") for c in await chunks_of(services, tenant, asset))


async def test_title_of_a_file_without_one_precedes_the_headings(
    services: Services, tenant: Tenant, run_jobs: RunJobs
) -> None:
    asset, _ = await services.assets.upload(tenant.id, Upload("a.txt", b"The harbour is deep."))
    await run_jobs()
    for given, title in (("One", "One"), ("Two > parts", "Two > parts"), (None, None)):
        changed = await services.assets.change(tenant.id, asset.id, AssetPatch(title=given))
        assert changed.title == title
        assert [c.title for c in await chunks_of(services, tenant, asset)] == [title]


async def test_pages_of_chunks_are_kept(services: Services, tenant: Tenant, run_jobs: RunJobs) -> None:
    data = write_pdf([["The keeper of the harbour sleeps."], ["The pilot of the harbour wakes."]])
    asset, _ = await services.assets.upload(tenant.id, Upload("a.pdf", data, metadata={"page": "x"}))
    await run_jobs()
    pages = [chunk.metadata["page"] for chunk in await chunks_of(services, tenant, asset)]
    await services.assets.change(tenant.id, asset.id, AssetPatch(metadata={"a": 1}))
    chunks = await chunks_of(services, tenant, asset)
    assert [c.metadata["page"] for c in chunks] == pages
    assert {c.metadata["a"] for c in chunks} == {1}


async def test_a_page_in_the_metadata_of_a_file_without_pages_is_not_one_of_its_chunks(
    services: Services, tenant: Tenant, run_jobs: RunJobs
) -> None:
    asset, _ = await services.assets.upload(
        tenant.id, Upload("a.md", SECTIONS, metadata={"page": 7, "total_pages": 9, "k": 1})
    )
    await run_jobs()
    await services.assets.change(tenant.id, asset.id, AssetPatch(metadata={"page": 8, "k": 2}))
    stored = await services.assets.get(tenant.id, asset.id)
    assert stored.metadata == {"page": 8, "k": 2}
    result = await services.search.search(tenant.id, SearchQuery(query="pilots tugs", mode="keyword"))
    chunks = await chunks_of(services, tenant, asset)
    assert {c.metadata["k"] for c in chunks} == {2}
    assert not any({"page", "total_pages"} & c.metadata.keys() for c in chunks)
    assert {cite(hit).page for hit in result} == {None}
    with pytest.raises(PartOfAsset, match="page of its metadata"):
        await services.entries.change(tenant.id, chunks[0].id, EntryDraft(metadata={**chunks[0].metadata, "page": 7}))


async def test_change_while_the_file_is_read_is_inherited(
    services: Services, tenant: Tenant, failing_provider: FailingProvider, run_jobs: RunJobs
) -> None:
    asset, _ = await services.assets.upload(tenant.id, Upload("a.md", SECTIONS, tags=["old"]))
    go_on = failing_provider.hold_next_call()
    working = asyncio.create_task(services.worker.run_once())
    await failing_provider.entered.wait()
    draft = AssetPatch(title="Manual", tags=["new"], roles=["pm"], metadata={"k": 2})
    await services.assets.change(tenant.id, asset.id, draft)
    go_on.set()
    await working
    chunks = await chunks_of(services, tenant, asset)
    assert chunks
    for chunk in chunks:
        assert (chunk.tags, chunk.roles, chunk.metadata["k"]) == (["new"], ["pm"], 2)
        assert (chunk.title or "").startswith("Manual")
    assert {c.embedding_status for c in chunks} == {"pending"}
    await run_jobs()
    assert {c.embedding_status for c in await chunks_of(services, tenant, asset)} == {"ready"}


async def test_the_same_bytes_with_other_fields_change_the_asset(
    services: Services, tenant: Tenant, run_jobs: RunJobs
) -> None:
    first, _ = await services.assets.upload(tenant.id, Upload("a.md", SECTIONS, external_id="a", tags=["old"]))
    await run_jobs()
    again, work = await services.assets.upload(tenant.id, Upload("b.md", SECTIONS, external_id="a", tags=["new"]))
    assert (again.id, again.tags, again.name, work) == (first.id, ["new"], "b.md", False)
    assert {tuple(c.tags) for c in await chunks_of(services, tenant, first)} == {("new",)}
    kept, _ = await services.assets.upload(tenant.id, Upload("b.md", SECTIONS, external_id="a"))
    assert kept == again
    other = SECTIONS + b"More."
    version, work = await services.assets.upload(tenant.id, Upload("b.md", other, external_id="a"))
    assert (version.tags, version.generation, work) == (["new"], 2, True)


async def test_stale_and_bad_changes_are_refused(services: Services, tenant: Tenant, other_tenant: Tenant) -> None:
    asset, _ = await services.assets.upload(tenant.id, Upload("a.md", SECTIONS))
    with pytest.raises(PreconditionFailed):
        await services.assets.change(tenant.id, asset.id, AssetPatch(tags=["a"]), if_version=[asset.version + 1])
    bad: Mapping[str, Any] = {"tags": [""], "roles": [], "title": "", "metadata": {"a": float("nan")}}
    for field, value in bad.items():
        with pytest.raises(InvalidInput, match=field):
            AssetPatch(**{field: value})
    with pytest.raises(AssetNotFound):
        await services.assets.change(other_tenant.id, asset.id, AssetPatch(tags=["a"]))
    assert await services.assets.get(tenant.id, asset.id) == asset
