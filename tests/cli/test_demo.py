from __future__ import annotations

import asyncio

import pytest

from app.cli.demo import STILL_SECONDS, curl_line, load_demo
from app.composition.services import Services
from app.contract.administration import NewTenant
from app.contract.entries import Entry, EntryDraft
from app.contract.search import SearchQuery
from app.db.principals import warn_of_unnamed_work
from app.samples import load_documents, load_entries
from tests.fixtures.providers.failing import FailingProvider


async def read_entries(services: Services) -> dict[str | None, Entry]:
    tenant = await services.tenants.find("demo")
    page = await services.entries.list_entries(tenant.id, limit=200)
    return {entry.external_id: entry for entry in page.items if entry.asset_id is None}


async def test_demo_is_complete_and_its_relations_are_valid(services: Services) -> None:
    tenant = await load_demo(services)
    entries = await read_entries(services)
    names = {entry.id: entry.external_id for entry in entries.values()}
    assert entries.keys() == {sample.external_id for sample in load_entries()}
    for sample in load_entries():
        entry = entries[sample.external_id]
        assert (names[entry.parent_id] if entry.parent_id else None) == sample.parent
        assert (names[entry.superseded_by_id] if entry.superseded_by_id else None) == sample.superseded_by
        assert tuple(names[source] for source in entry.source_ids) == sample.sources
        assert entry.embedding_status == "ready"
    assets = (await services.assets.list_assets(tenant.id)).items
    assert {(asset.name, asset.status) for asset in assets} == {(d.name, "indexed") for d in load_documents()}
    found = await services.search.search(tenant.id, SearchQuery(query="backup", source="asset", mode="keyword"))
    assert len(found) > 0


async def test_demo_is_work_of_the_service(services: Services) -> None:
    """A first start does not warn of work that names no principal."""
    unnamed = warn_of_unnamed_work.cache_info().hits
    await load_demo(services)
    assert warn_of_unnamed_work.cache_info().hits == unnamed


async def test_interrupted_demo_is_completed_and_a_complete_one_is_unchanged(
    services: Services,
) -> None:
    # The first start got only this far.
    await services.tenants.create(NewTenant("demo"), actor="test")
    tenant = await load_demo(services)
    entries = await read_entries(services)
    first, last = load_entries()[0].external_id, load_entries()[-1].external_id
    await services.entries.change(tenant.id, entries[first].id, EntryDraft(content="mine now"))
    await load_demo(services)
    assert (await read_entries(services))[first].content == "mine now"

    await services.entries.delete(tenant.id, entries[last].id)
    await load_demo(services)
    assert (await read_entries(services)).keys() == entries.keys()


@pytest.mark.slow
async def test_demo_does_not_wait_for_an_unavailable_provider_and_is_loaded_once(
    services: Services, failing_provider: FailingProvider
) -> None:
    failing_provider.down = True
    async with asyncio.timeout(STILL_SECONDS):
        tenant = await load_demo(services)
    entries = await read_entries(services)
    assert {entry.embedding_status for entry in entries.values()} == {"pending"}
    before = await services.administration.stats(tenant.id)
    assert before.assets_by_status == {"indexed": len(load_documents())}
    assert before.pending_embeddings == before.entries
    await load_demo(services)
    failing_provider.down = False
    assert await services.embedder.embed_all(tenant.id)
    after = await services.administration.stats(tenant.id)
    assert (after.entries, after.assets_by_status) == (before.entries, before.assets_by_status)
    assert after.pending_embeddings == 0


def test_curl_line_avoids_a_proxy_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert "--noproxy" not in curl_line("http://127.0.0.1:8000", "t")
    monkeypatch.setenv("http_proxy", "http://proxy.example:3128")
    assert "--noproxy '*' http://127.0.0.1:8000/knowledge/search" in curl_line("http://127.0.0.1:8000", "t")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert "--noproxy" not in curl_line("http://127.0.0.1:8000", "t")
