"""Files from upload to chunks, and their deletion."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.assets import Upload
from app.contract.entries import EntryDraft
from app.contract.search import SearchQuery
from app.errors import AssetNotFound, Conflict, InvalidInput, TooLarge, UnsupportedMediaType
from app.knowledge.ingestion.assets import AssetService
from app.knowledge.ingestion.pipeline import chunk_title
from tests.fixtures.documents import write_pdf
from tests.fixtures.providers.failing import FailingProvider
from tests.knowledge.conftest import RunJobs
from tests.knowledge.ingestion.reading import chunks_of, document

pytestmark = pytest.mark.own_tenants


async def test_uploaded_file_becomes_chunks_with_exact_offsets(
    services: Services, tenant: Tenant, run_jobs: RunJobs
) -> None:
    upload = Upload(
        "dir/notes.md",
        document("harbour", "lighthouse", "Müller 😀"),
        tags=["sea"],
        roles=["dev"],
        metadata={"team": "red"},
        external_id="notes",
    )
    asset, new = await services.assets.upload(tenant.id, upload)
    assert new
    assert (asset.status, asset.progress, asset.name) == ("pending", 0, "notes.md")
    with pytest.raises(Conflict):
        await services.assets.text(tenant.id, asset.id)
    await run_jobs()
    asset = await services.assets.get(tenant.id, asset.id)
    assert (asset.status, asset.progress, asset.error) == ("indexed", 1, None)
    text = await services.assets.text(tenant.id, asset.id)
    chunks = await chunks_of(services, tenant, asset)
    assert asset.chunks == len(chunks) >= 3
    assert [chunk.chunk_index for chunk in chunks] == list(range(len(chunks)))
    for chunk in chunks:
        assert text[chunk.metadata["char_start"] : chunk.metadata["char_end"]] == chunk.content
        assert (chunk.entry_type, chunk.tags, chunk.roles) == ("chunk", ["sea"], ["dev"])
        assert chunk.metadata["team"] == "red"
        assert (chunk.asset_name, chunk.embedding_status) == ("notes.md", "ready")
    result = await services.search.search(tenant.id, SearchQuery(query="lighthouse", mode="keyword"))
    assert result[0].asset_id == asset.id
    assert result[0].title == "On lighthouse" or "lighthouse" in (result[0].title or "")


async def test_chunks_of_a_table_repeat_its_header_and_say_how_long_it_is(
    services: Services, tenant: Tenant, run_jobs: RunJobs
) -> None:
    header = "| Harbour | Depth of its entrance |\n| --- | --- |\n"
    rows = "".join(f"| Haven number {number} | {number} metres at low tide |\n" for number in range(120))
    asset, _ = await services.assets.upload(tenant.id, Upload("a.md", f"# Depths\n\n{header}{rows}".encode()))
    await run_jobs()
    text = await services.assets.text(tenant.id, asset.id)
    first, *others = await chunks_of(services, tenant, asset)
    assert "header_chars" not in first.metadata
    assert len(others) > 1
    for chunk in others:
        assert chunk.metadata["header_chars"] == len(header)
        assert chunk.content[: len(header)] == header
        assert text[chunk.metadata["char_start"] : chunk.metadata["char_end"]] == chunk.content[len(header) :]
        assert chunk.metadata["headings"] == ["Depths"]


async def test_chunks_of_a_pdf_have_page_numbers(services: Services, tenant: Tenant, run_jobs: RunJobs) -> None:
    data = write_pdf([["The first page speaks of boats."] * 50, ["The second page speaks of harbours."] * 50])
    asset, _ = await services.assets.upload(tenant.id, Upload("two.pdf", data))
    await run_jobs()
    asset = await services.assets.get(tenant.id, asset.id)
    assert (asset.status, asset.total_pages) == ("indexed", 2)
    result = await services.search.search(tenant.id, SearchQuery(query="harbours", mode="keyword"))
    assert {(hit.metadata["page"], hit.metadata["total_pages"]) for hit in result} == {(2, 2)}


async def test_same_bytes_give_the_same_asset(
    services: Services, tenant: Tenant, other_tenant: Tenant, run_jobs: RunJobs
) -> None:
    data = document("harbour")
    first, _ = await services.assets.upload(tenant.id, Upload("a.md", data))
    again, new = await services.assets.upload(tenant.id, Upload("b.md", data))
    assert (again.id, new) == (first.id, False)
    foreign, new = await services.assets.upload(other_tenant.id, Upload("a.md", data))
    assert new
    assert foreign.id != first.id
    with pytest.raises(AssetNotFound):
        await services.assets.get(tenant.id, foreign.id)
    assert await run_jobs() == 2


async def test_concurrent_uploads_of_the_same_bytes_make_one_asset(services: Services, tenant: Tenant) -> None:
    upload = Upload("a.md", document("harbour"))
    made = await asyncio.gather(*(services.assets.upload(tenant.id, upload) for _ in range(5)))
    assert len({asset.id for asset, _ in made}) == 1
    assert sum(new for _, new in made) == 1


async def test_unreadable_file_fails_with_a_reason_and_can_be_retried(
    services: Services, tenant: Tenant, run_jobs: RunJobs
) -> None:
    asset, _ = await services.assets.upload(tenant.id, Upload("broken.pdf", b"%PDF-1.4\nnothing more"))
    await run_jobs()
    failed = await services.assets.get(tenant.id, asset.id)
    assert failed.status == "failed"
    assert failed.error
    assert "Traceback" not in failed.error
    assert (await services.administration.stats(tenant.id)).jobs == 0
    retried = await services.assets.retry(tenant.id, asset.id)
    assert (retried.status, retried.error) == ("pending", None)
    with pytest.raises(Conflict):
        await services.assets.retry(tenant.id, asset.id)
    await run_jobs()
    assert (await services.assets.get(tenant.id, asset.id)).status == "failed"


async def test_deleting_an_asset_deletes_its_chunks(services: Services, tenant: Tenant, run_jobs: RunJobs) -> None:
    asset, _ = await services.assets.upload(tenant.id, Upload("a.md", document("harbour")))
    await run_jobs()
    chunk = (await chunks_of(services, tenant, asset))[0]
    with pytest.raises(Conflict):
        await services.entries.delete(tenant.id, chunk.id)
    with pytest.raises(Conflict):
        await services.entries.change(tenant.id, chunk.id, EntryDraft(content="other"))
    tagged = await services.entries.change(tenant.id, chunk.id, EntryDraft(tags=["own"]))
    assert tagged.tags == ["own"]
    await services.assets.delete(tenant.id, asset.id)
    for act in (services.assets.get, services.assets.text, services.assets.delete, services.assets.retry):
        with pytest.raises(AssetNotFound):
            await act(tenant.id, asset.id)
    assert (await services.administration.stats(tenant.id)).entries == 0


async def test_file_ingested_without_a_provider_is_found_by_keyword_at_once_and_by_vector_later(
    services: Services, tenant: Tenant, failing_provider: FailingProvider, run_jobs: RunJobs
) -> None:
    asset, _ = await services.assets.upload(tenant.id, Upload("a.md", document("harbour")))
    failing_provider.down = True
    for _ in range(5):
        assert await run_jobs() > 0
    asset = await services.assets.get(tenant.id, asset.id)
    assert (asset.status, asset.error) == ("indexed", None)
    assert "harbour" in await services.assets.text(tenant.id, asset.id)
    found = await services.search.search(tenant.id, SearchQuery(query="harbour"))
    assert {hit.asset_id for hit in found} == {asset.id}
    statistics = await services.administration.stats(tenant.id)
    assert statistics.pending_embeddings == asset.chunks > 0
    failing_provider.down = False
    await run_jobs()
    chunks = (await services.entries.list_entries(tenant.id, asset_id=asset.id, limit=100)).items
    assert {chunk.embedding_status for chunk in chunks} == {"ready"}
    assert len(failing_provider.documents) == len(set(failing_provider.documents)) == asset.chunks
    assert (await services.administration.stats(tenant.id)).jobs == 0


async def test_asset_that_cannot_be_processed_fails_after_three_attempts(
    services: Services, tenant: Tenant, failing_provider: FailingProvider, run_jobs: RunJobs
) -> None:
    asset, _ = await services.assets.upload(tenant.id, Upload("a.md", document("harbour")))
    failing_provider.error = RuntimeError("a bug")
    tries = 0
    while await run_jobs():
        tries += 1
    assert tries == 3
    asset = await services.assets.get(tenant.id, asset.id)
    assert asset.status == "failed"
    assert asset.error == "the file could not be processed; the reason is in the service's log"


async def test_refused_uploads_store_nothing(services: Services, tenant: Tenant) -> None:
    good = Upload("a.md", b"text")
    small = AssetService(services.database, services.trail, services.jobs, services.tenants, max_bytes=10)
    with pytest.raises(TooLarge, match="10 bytes"):
        await small.upload(tenant.id, Upload("a.md", b"x" * 11))
    for change, error in (
        ({"data": b""}, InvalidInput),
        ({"name": ""}, InvalidInput),
        ({"name": "dir/"}, InvalidInput),
        ({"name": "x" * 510 + ".md"}, InvalidInput),
        ({"name": "a\x00.md"}, InvalidInput),
        ({"name": "a\ud800.md"}, InvalidInput),
        ({"tags": [""]}, InvalidInput),
        ({"roles": ["boss"]}, InvalidInput),
        ({"roles": []}, InvalidInput),
        ({"metadata": {"k": "\x00"}}, InvalidInput),
        ({"external_id": ""}, InvalidInput),
        ({"name": "a.exe", "data": b"MZ\x00\x01"}, UnsupportedMediaType),
    ):
        with pytest.raises(error):
            await services.assets.upload(tenant.id, dataclasses.replace(good, **change))
    assert (await services.assets.list_assets(tenant.id)).items == []


async def test_asset_list_pages_neither_repeat_nor_skip(services: Services, tenant: Tenant) -> None:
    for n in range(7):
        await services.assets.upload(tenant.id, Upload(f"{n}.txt", f"text {n}".encode()))
    names: list[str] = []
    cursor = None
    while True:
        page = await services.assets.list_assets(tenant.id, limit=3, cursor=cursor)
        names += [asset.name for asset in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert names == [f"{n}.txt" for n in range(6, -1, -1)]
    assert (await services.assets.list_assets(tenant.id, status="failed")).items == []
    assert len((await services.assets.list_assets(tenant.id, status="pending")).items) == 7


@pytest.mark.parametrize(
    ("document_title", "headings", "title"),
    [
        (None, (), None),
        (None, ("Part",), "Part"),
        ("Doc", (), "Doc"),
        ("Doc", ("Doc",), "Doc"),
        ("Doc", ("Doc", "Part"), "Doc > Part"),
        ("Doc", ("Part", "Section"), "Doc > Part > Section"),
    ],
)
def test_chunk_title_contains_each_heading_once(
    document_title: str | None, headings: tuple[str, ...], title: str | None
) -> None:
    assert chunk_title(document_title, headings) == title
