"""Assets."""

import asyncio
import dataclasses
import random
from typing import Any
from uuid import UUID

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.assets import AssetPatch, Upload
from app.contract.entries import EntryDraft
from app.contract.search import SearchQuery
from app.errors import AssetNotFound, Conflict, InvalidInput, TooLarge, UnsupportedMediaType
from app.knowledge.entries.entry import embedding_text
from app.knowledge.ingestion.assets import AssetService
from app.knowledge.ingestion.pipeline import chunk_title
from tests.fixtures.database.cluster import MODEL
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


TEXT = b"# Pier\n\nBoats lie at the pier."
MODES = ("hybrid", "semantic", "keyword")


async def find(services: Services, tenant: Tenant, **wanted: Any) -> list[UUID | None]:
    """The assets of the hits of a search for all that these tests store."""
    chunks = (await services.entries.list_entries(tenant.id, entry_type="chunk", limit=200)).items
    texts = sorted({embedding_text(chunk.title, chunk.content) for chunk in chunks})
    vectors = await FailingProvider(MODEL).embed_documents(texts) if texts else []
    query = SearchQuery(
        **{"query": "boats at the pier", "limit": 50, "similarity_threshold": 0.0, "duplicates": "show", **wanted},
        query_embedding=[float(sum(column)) for column in zip(*vectors, strict=True)] if vectors else None,
    )
    return [hit.asset_id for hit in (await services.search.search(tenant.id, query)).results]


async def upload(services: Services, tenant: Tenant, name: str, data: bytes = TEXT, **given: Any) -> UUID:
    asset, _ = await services.assets.upload(tenant.id, Upload(f"{name}.md", data, external_id=name, **given))
    return asset.id


@pytest.mark.parametrize("mode", MODES)
async def test_a_text_of_two_assets_is_one_hit(
    mode: str, services: Services, tenant: Tenant, run_jobs: RunJobs
) -> None:
    first = await upload(services, tenant, "a", tags=["one"])
    await run_jobs()
    second = await upload(services, tenant, "b", tags=["two"], roles=["dev"], metadata={"k": "b"})
    assert (await services.assets.get(tenant.id, second)).duplicate_of == first
    assert (await services.assets.get(tenant.id, first)).duplicate_of is None
    await run_jobs()
    assert await find(services, tenant, mode=mode) == [first]
    for admits in ({"tags": ["two"]}, {"asset_id": [second]}, {"metadata": {"k": "b"}}):
        assert await find(services, tenant, mode=mode, **admits) == [second]
    assert await find(services, tenant, mode=mode, tags=["one", "two"]) == [first]
    query = SearchQuery(query="boats", mode="keyword")
    result = await services.search.search(tenant.id, query)
    assert (result.metadata.total, result.metadata.exact) == (1, True)
    (chunk,) = await chunks_of(services, tenant, await services.assets.get(tenant.id, second))
    why = await services.search.why_not(tenant.id, chunk.id, query)
    assert [reason.stage for reason in why.reasons] == ["duplicate"]


async def test_deleting_the_first_asset_keeps_the_second(services: Services, tenant: Tenant, run_jobs: RunJobs) -> None:
    ids = [await upload(services, tenant, name) for name in "abc"]
    await run_jobs()
    for number, gone in enumerate(ids):
        found = await find(services, tenant)
        assert len(found) == 1
        assert found[0] in ids[number:]
        await services.assets.delete(tenant.id, gone)
    assert await find(services, tenant) == []


async def test_a_new_version_of_one_asset_leaves_the_other(
    services: Services, tenant: Tenant, run_jobs: RunJobs
) -> None:
    first, second = [await upload(services, tenant, name) for name in "ab"]
    await run_jobs()
    # The new version begins with the same chunk as the old one.
    await upload(services, tenant, "a", TEXT + b"\n\n# Tugs\n\n" + b"Tugs pull boats to the pier. " * 80)
    await run_jobs()
    assert (await services.assets.get(tenant.id, second)).duplicate_of is None
    assert (await find(services, tenant)).count(second) == 1
    assert (await find(services, tenant)).count(first) >= 2


async def test_another_title_makes_another_text(services: Services, tenant: Tenant, run_jobs: RunJobs) -> None:
    first, second = [await upload(services, tenant, name) for name in "ab"]
    await run_jobs()
    await services.assets.change(tenant.id, second, AssetPatch(title="Mole"))
    await run_jobs()
    assert set(await find(services, tenant)) == {first, second}
    assert await find(services, tenant, query="mole", mode="keyword") == [second]
    await services.assets.change(tenant.id, second, AssetPatch(title=None))
    await run_jobs()
    assert len(await find(services, tenant)) == 1


async def test_assets_that_are_indexed_at_the_same_time_are_one_hit(
    services: Services, tenant: Tenant, run_jobs: RunJobs
) -> None:
    await asyncio.gather(*(upload(services, tenant, name) for name in "abcd"))
    await asyncio.gather(*(services.worker.run_once() for _ in range(4)))
    await run_jobs()
    assert len(await find(services, tenant)) == 1


@pytest.mark.parametrize(
    ("seed", "changes"), [(0, 6), *(pytest.param(seed, 16, marks=pytest.mark.slow) for seed in range(6))]
)
async def test_searches_find_each_text_once_under_any_filter(
    seed: int, changes: int, services: Services, tenant: Tenant, run_jobs: RunJobs
) -> None:
    """Uploads, versions, changes and deletions at random; every search is compared with a model of what is stored."""
    dice = random.Random(seed)  # noqa: S311
    contents = [f"# Pier {n}\n\nBoats of kind {n} lie at the pier.".encode() for n in range(3)]
    model: dict[str, dict[str, Any]] = {}
    for _ in range(changes):
        name = dice.choice("abcdef")
        match dice.choice(["upload", "upload", "change", "delete"]):
            case "upload":
                given = {"tags": [dice.choice("xy")], "metadata": {"k": dice.choice("uv")}}
                data = dice.choice(contents)
                asset_id = await upload(services, tenant, name, data, **given)
                model[name] = {"roles": ["all"], **model.get(name, {}), "id": asset_id, "data": data, **given}
            case "change" if name in model:
                changed: dict[str, Any] = {"tags": [dice.choice("xyz")], "roles": [dice.choice(["dev", "qa"])]}
                await services.assets.change(tenant.id, model[name]["id"], AssetPatch(**changed))
                model[name] |= changed
            case "delete" if name in model:
                await services.assets.delete(tenant.id, model.pop(name)["id"])
        if dice.random() < 0.6:
            await run_jobs()
        else:
            continue
        tag, key, role = dice.choice("xyz"), dice.choice("uv"), dice.choice(["dev", "qa"])
        some = dice.sample(sorted(f["id"] for f in model.values()), len(model) // 2)
        searches: list[tuple[dict[str, Any], list[dict[str, Any]]]] = [
            ({}, files := list(model.values())),
            ({"tags": [tag]}, [f for f in files if tag in f["tags"]]),
            ({"metadata": {"k": key}}, [f for f in files if f["metadata"]["k"] == key]),
            ({"role": role}, [f for f in files if {role, "all"} & set(f["roles"])]),
            ({"asset_id": some or [UUID(int=1)]}, [f for f in files if f["id"] in some]),
        ]
        for wanted, admitted in searches:
            groups: dict[bytes, set[UUID]] = {}
            for file in admitted:
                groups.setdefault(file["data"], set()).add(file["id"])
            for mode in MODES:
                found = await find(services, tenant, mode=mode, **wanted)
                assert len(found) == len(groups), (mode, wanted)
                for ids in groups.values():
                    assert len(ids & set(found)) == 1, (mode, wanted)


async def test_a_declared_charset_is_kept_and_a_guessed_one_is_said(
    services: Services, tenant: Tenant, run_jobs: RunJobs
) -> None:
    data = "Правила возврата товара: покупатель может вернуть товар.".encode("cp1251")
    told, _ = await services.assets.upload(
        tenant.id, Upload("told.txt", data, declared_type="text/plain; charset=windows-1251")
    )
    guessed, _ = await services.assets.upload(tenant.id, Upload("guessed.md", data + b"\x02"))
    assert (told.encoding, told.encoding_guessed, guessed.encoding) == ("cp1251", None, None)
    await run_jobs()
    told, guessed = [await services.assets.get(tenant.id, asset.id) for asset in (told, guessed)]
    assert (told.encoding, told.encoding_guessed, told.removed_controls) == ("cp1251", False, 0)
    assert (guessed.encoding, guessed.encoding_guessed, guessed.removed_controls) == ("cp1251", True, 1)
    result = await services.search.search(tenant.id, SearchQuery("возврата", mode="keyword"))
    assert {hit.asset_id for hit in result} <= {told.id, guessed.id}
    assert result[0].content.startswith("Правила возврата")
