"""Ingestion: work, and changes and versions of assets."""

import asyncio
from collections.abc import Mapping
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.assets import AssetPatch, Upload
from app.contract.entries import Entry, EntryDraft
from app.contract.search import SearchQuery
from app.contract.vocabulary import Mode
from app.db.statements import parse_statement
from app.embeddings.provider import resolve_model
from app.errors import AssetNotFound, Conflict, InvalidInput, PartOfAsset, PreconditionFailed
from app.knowledge.entries.entry import PLACE, embedding_text
from app.knowledge.ingestion.pipeline import STORED_AT_ONCE, TITLE_ROOM, ChunkSize, Ingestion, chunk_tokens
from app.mcp.answers.passages import cite
from tests.fixtures.database.cluster import fetch
from tests.fixtures.documents import write_pdf
from tests.fixtures.providers.failing import FailingProvider
from tests.fixtures.workers import Bench
from tests.knowledge.conftest import RunJobs
from tests.knowledge.ingestion.reading import chunks_of, document

VECTORS = parse_statement(
    "vectors", "select entry_id, in_index from embeddings where tenant_id = :tenant_id and model_id = 1"
)


def section(subject: str) -> str:
    return f"# On {subject}\n\n" + f"The {subject} is described here in a sentence. " * 40


def version(*subjects: str) -> Upload:
    return Upload("a.md", "\n\n".join(map(section, subjects)).encode(), external_id="a")


async def list_chunks(services: Services, tenant: Tenant, asset_id: UUID) -> list[Entry]:
    chunks: list[Entry] = []
    cursor = None
    while True:
        page = await services.entries.list_entries(tenant.id, asset_id=asset_id, limit=100, cursor=cursor)
        chunks += page.items
        cursor = page.next_cursor
        if cursor is None:
            return sorted(chunks, key=lambda chunk: chunk.chunk_index or 0)


async def vectors_of(services: Services, tenant: Tenant) -> dict[UUID, bool]:
    async with services.database.tenant_session(tenant.id) as session:
        rows = await session.fetch(VECTORS)
    return {row["entry_id"]: row["in_index"] for row in rows}


@pytest.mark.parametrize("provider_is_down", [False, True])
async def test_small_pages_of_a_chunk_are_found_each_with_its_place(
    services: Services, tenant: Tenant, failing_provider: FailingProvider, run_jobs: RunJobs, provider_is_down: bool
) -> None:
    pages = [
        "Bears sleep through the winter.",
        "The engine of the ferry burns hydrogen.",
        "A choir sings at noon, in May.",
    ]
    failing_provider.down = provider_is_down
    asset, _ = await services.assets.upload(tenant.id, Upload("three.pdf", write_pdf([[page] for page in pages])))
    await run_jobs()
    if provider_is_down:  # the queue embeds the stored chunk
        failing_provider.down = False
        await run_jobs()
    text = await services.assets.text(tenant.id, asset.id)
    [chunk] = await chunks_of(services, tenant, asset)
    assert (chunk.metadata["page"], chunk.metadata["page_end"], len(chunk.metadata["parts"])) == (1, 3, 3)
    for number, page in enumerate(pages, 1):
        queries: list[tuple[Mode, str]] = [("semantic", page), ("keyword", page.split()[1]), ("hybrid", page)]
        for mode, query in queries:
            [hit] = await services.search.search(tenant.id, SearchQuery(query=query, mode=mode))
            assert mode == "keyword" or hit.similarity == pytest.approx(1, abs=1e-3)
            place = hit.metadata
            assert text[place["char_start"] : place["char_end"]] == page
            assert (place["page"], place["total_pages"], hit.id) == (number, 3, chunk.id)
            assert not {"page_end", "parts"} & place.keys()
            assert page.split()[1] in hit.snippet
    # The metadata of a hit can be changed and sent back.
    changed = await services.entries.change(tenant.id, chunk.id, EntryDraft(metadata={**hit.metadata, "team": "red"}))
    assert changed.metadata == {**chunk.metadata, "team": "red"}
    with pytest.raises(PartOfAsset, match="parts"):
        await services.entries.change(tenant.id, chunk.id, EntryDraft(metadata={"parts": []}))


async def test_new_version_embeds_the_changed_chunks_only(
    services: Services, tenant: Tenant, failing_provider: FailingProvider, run_jobs: RunJobs
) -> None:
    asset, _ = await services.assets.upload(tenant.id, version("harbour", "lighthouse", "pier", "quay"))
    await run_jobs()
    before = await list_chunks(services, tenant, asset.id)
    assert failing_provider.documents == [embedding_text(c.title, c.content) for c in before]
    failing_provider.documents.clear()

    await services.assets.upload(tenant.id, version("harbour", "beacon", "pier", "quay", "mole"))
    await run_jobs()
    after = await list_chunks(services, tenant, asset.id)
    known = {chunk.content for chunk in before}
    changed = [chunk for chunk in after if chunk.content not in known]
    assert len(after) > len(changed) >= 2
    assert {c.title for c in changed} == {"On beacon", "On mole"}
    assert failing_provider.documents == [embedding_text(c.title, c.content) for c in changed]
    assert set(await vectors_of(services, tenant)) == {chunk.id for chunk in after}

    failing_provider.documents.clear()
    await services.assets.upload(tenant.id, version("quay", "harbour"))
    await run_jobs()
    assert failing_provider.documents == [], "another order changes no chunk"


async def test_overlap_is_shared_by_neighbouring_chunks(bench: Bench, services: Services, tenant: Tenant) -> None:
    sentences = [f"Berth {n} of the harbour is dredged in the year {1900 + n}." for n in range(120)]
    ingestion = Ingestion(
        services.database, {1: bench.provider}, services.tenants, chunk_size=ChunkSize(tokens=60, overlap=20)
    )
    asset_id = await bench.upload(Upload("a.txt", " ".join(sentences).encode()))
    assert await bench.make_worker(ingestion=ingestion).run_once()
    text = await services.assets.text(tenant.id, asset_id)
    chunks = await list_chunks(services, tenant, asset_id)
    assert len(chunks) > 20
    for chunk in chunks:
        assert text[chunk.metadata["char_start"] : chunk.metadata["char_end"]] == chunk.content
        assert bench.provider.count_tokens(chunk.content) <= 60
    for early, late in pairwise(chunks):
        shared = text[late.metadata["char_start"] : early.metadata["char_end"]]
        assert 0 < bench.provider.count_tokens(shared) <= 20


def test_chunks_leave_room_for_titles_and_overlap_at_most_by_half() -> None:
    model = resolve_model("local")
    assert chunk_tokens(ChunkSize(), model) == (model.max_tokens - TITLE_ROOM, 0)
    assert chunk_tokens(ChunkSize(tokens=100, overlap=10), model) == (100, 10)
    assert chunk_tokens(ChunkSize(tokens=100, overlap=1_000), model) == (100, 50)


async def test_file_of_many_chunks_is_stored_at_once_and_its_words_are_counted_later(
    bench: Bench, services: Services, tenant: Tenant, superuser_dsn: str
) -> None:
    sentences = [f"Berth {n} of the harbour was dredged in the year {n} by hand." for n in range(1_100)]
    ingestion = Ingestion(services.database, {1: bench.provider}, services.tenants, chunk_size=ChunkSize(tokens=16))
    asset_id = await bench.upload(Upload("a.txt", " ".join(sentences).encode()))
    assert await bench.make_worker(ingestion=ingestion).run_once()
    chunks = await list_chunks(services, tenant, asset_id)
    assert len(chunks) > 2 * STORED_AT_ONCE
    assert [chunk.chunk_index for chunk in chunks] == list(range(len(chunks)))
    assert [chunk.content for chunk in chunks] == sentences
    assert set(await vectors_of(services, tenant)) == {chunk.id for chunk in chunks}
    due = await fetch(superuser_dsn, "select kind, run_at > clock_timestamp() as later from jobs")
    assert [tuple(job) for job in due] == [("refresh_statistics", True)]


async def test_chunks_of_an_indexed_tenant_go_into_the_index(bench: Bench, services: Services, tenant: Tenant) -> None:
    await bench.upload(version("harbour"))
    await services.worker.run_once()
    old = await vectors_of(services, tenant)
    await bench.change("update vector_statistics set index_state = 'ready'")
    await bench.upload(Upload("b.md", section("lighthouse").encode()))
    await services.worker.run_once()
    new = await vectors_of(services, tenant)
    assert old
    assert not any(new[entry_id] for entry_id in old)
    assert all(new[entry_id] for entry_id in new.keys() - old.keys())
    assert new.keys() > old.keys()


@pytest.mark.parametrize("fails", [False, True])
async def test_version_is_swapped_in_completely_or_not_at_all(
    bench: Bench, services: Services, tenant: Tenant, run_jobs: RunJobs, fails: bool
) -> None:
    """A failure between the first and the last statement of the swap leaves the old version unchanged."""
    asset_id = await bench.upload(version("harbour", "pier"))
    await run_jobs()
    before = await list_chunks(services, tenant, asset_id)
    if fails:
        await bench.change("alter table embeddings add constraint refuse check (char_end < 0) not valid")
    await bench.upload(version("harbour", "beacon"))
    await services.worker.run_once()
    after = await list_chunks(services, tenant, asset_id)
    assert (after == before) is fails
    assert set(await vectors_of(services, tenant)) == {chunk.id for chunk in after}


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
