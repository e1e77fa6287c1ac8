"""Files over HTTP: upload, indexing, search, new versions, retry, delete."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from app.samples import load_documents
from tests.fixtures.documents import write_docx, write_pdf
from tests.fixtures.http.callers import Caller
from tests.fixtures.http.expectations import expect_problem, is_id, is_time
from tests.fixtures.providers.failing import FailingProvider

ASSET = {
    *(
        "id",
        "source",
        "external_id",
        "name",
        "media_type",
        "byte_size",
        "title",
        "total_pages",
        "pages_without_text",
    ),
    *("flags", "quarantined_chunks", "readers", "writers"),
    *("tags", "roles", "metadata", "status", "error", "progress", "generation", "chunks"),
    *("duplicate_of", "version", "created_at", "updated_at"),
}
PATH = "/knowledge/assets"
PDF = write_pdf([["The lighthouse keeper sleeps."], ["The harbour pilot is called Ostrich."], ["End."]])
Work = Callable[[], Awaitable[None]]


async def get(admin: Caller, asset_id: str) -> dict[str, Any]:
    """The current state of an asset."""
    asset: dict[str, Any] = (await admin.get(f"{PATH}/{asset_id}")).json()
    return asset


async def test_an_upload_is_accepted_with_every_field(admin: Caller) -> None:
    answer = await admin.upload(
        "../../etc/notes.txt",
        b"The harbour opens at six",
        "text/plain",
        external_id="N1",
        tags="time, harbour",
        roles="dev,qa",
        metadata='{"team": "red"}',
    )
    assert answer.status_code == 202
    asset = answer.json()
    assert set(asset) == ASSET
    assert answer.headers["location"] == f"{PATH}/{asset['id']}"
    assert is_id(asset["id"])
    assert is_time(asset["created_at"])
    assert is_time(asset["updated_at"])
    assert (asset["name"], asset["media_type"], asset["byte_size"]) == ("notes.txt", "text/plain", 24)
    assert (asset["tags"], asset["roles"]) == (["time", "harbour"], ["dev", "qa"])
    assert (asset["metadata"], asset["external_id"]) == ({"team": "red"}, "N1")
    assert (asset["status"], asset["error"], asset["progress"]) == ("pending", None, 0)
    assert (asset["generation"], asset["chunks"]) == (1, 0)
    assert (await get(admin, asset["id"])) == asset
    expect_problem(await admin.get(f"{PATH}/{asset['id']}/text"), 409)


@pytest.mark.parametrize("document", load_documents(), ids=lambda d: d.name)
async def test_a_sample_document_becomes_searchable(document: Any, admin: Caller, work: Work) -> None:
    answer = await admin.upload(document.name, document.read(), document.media_type, tags=",".join(document.tags))
    assert answer.status_code == 202
    await work()
    asset = await get(admin, answer.json()["id"])
    assert (asset["status"], asset["error"], asset["progress"]) == ("indexed", None, 1)
    assert asset["media_type"] == document.media_type
    text = await admin.get(f"{PATH}/{asset['id']}/text")
    assert text.headers["content-type"] == "text/plain; charset=utf-8"
    chunks = (await admin.get("/knowledge/entries", params={"asset_id": asset["id"], "limit": 200})).json()
    assert len(chunks["items"]) == asset["chunks"] > 0
    query = max(text.text.split(), key=len).strip(".,:;()")
    found = await admin.search(query, asset_id=[asset["id"]], source="asset", limit=50, mode="keyword")
    assert found["results"]
    for hit in found["results"]:
        assert (hit["entry_type"], hit["asset_id"], hit["asset_name"]) == (
            "chunk",
            asset["id"],
            document.name,
        )
        assert isinstance(hit["chunk_index"], int)
        assert hit["tags"] == list(document.tags)
        place = hit["metadata"]
        assert text.text[place["char_start"] : place["char_end"]] == hit["content"]
        if document.media_type == "application/pdf":
            assert 1 <= place["page"] <= place["total_pages"] == asset["total_pages"]


async def test_a_hit_in_a_pdf_names_its_page(admin: Caller, work: Work) -> None:
    asset = (await admin.upload("pilots.pdf", PDF, "application/pdf")).json()
    await work()
    (hit,) = (await admin.search("ostrich", mode="keyword"))["results"]
    text = (await admin.get(f"{PATH}/{asset['id']}/text")).text
    assert "Ostrich" in text[hit["metadata"]["char_start"] : hit["metadata"]["char_end"]]
    assert hit["metadata"]["total_pages"] == 3
    assert hit["metadata"]["page"] <= 2
    chunks = (await admin.get("/knowledge/entries", params={"asset_id": asset["id"]})).json()["items"]
    if hit["chunk_index"] > 0:
        assert hit["metadata"]["page"] == 2
    assert all(chunk["embedding_status"] == "ready" for chunk in chunks)


async def test_a_word_file_is_read(admin: Caller, work: Work) -> None:
    await admin.upload("handbook.docx", write_docx(), "application/octet-stream")
    await work()
    assert (await admin.search("shell", mode="keyword"))["results"]


async def test_the_same_bytes_again_are_the_same_asset(admin: Caller, work: Work, provider: FailingProvider) -> None:
    first = await admin.upload("a.txt", b"The harbour opens at six", "text/plain")
    await work()
    embedded = list(provider.documents)
    again = await admin.upload("b.txt", b"The harbour opens at six", "text/plain")
    assert (again.status_code, again.json()["id"]) == (200, first.json()["id"])
    await work()
    assert provider.documents == embedded
    assert len((await admin.get(PATH)).json()["items"]) == 1


async def test_other_bytes_under_the_same_external_id_are_a_new_version(admin: Caller, work: Work) -> None:
    first = await admin.upload("a.txt", b"The harbour opens at six", "text/plain", external_id="A")
    await work()
    second = await admin.upload("a.txt", b"The quay opens at seven", "text/plain", external_id="A")
    assert (second.status_code, second.json()["id"]) == (202, first.json()["id"])
    assert await admin.find("harbour") == ["The harbour opens at six"]
    await work()
    assert (await admin.find("harbour"), await admin.find("quay")) == ([], ["The quay opens at seven"])
    asset = await get(admin, first.json()["id"])
    assert (asset["generation"], asset["chunks"], asset["status"]) == (2, 1, "indexed")


async def test_a_deleted_asset_takes_its_chunks_with_it(admin: Caller, work: Work) -> None:
    asset = (await admin.upload("a.txt", b"The harbour opens at six", "text/plain")).json()
    await work()
    assert await admin.find("harbour")
    answer = await admin.delete(f"{PATH}/{asset['id']}")
    assert (answer.status_code, answer.content) == (204, b"")
    assert await admin.find("harbour") == []
    assert (await admin.get("/knowledge/entries")).json()["items"] == []
    for path in (f"{PATH}/{asset['id']}", f"{PATH}/{asset['id']}/text"):
        expect_problem(await admin.get(path), 404)
    assert (await admin.get("/admin/stats")).json()["passages"] == 0


async def test_an_asset_deleted_before_it_is_read_stays_deleted(admin: Caller, work: Work) -> None:
    asset = (await admin.upload("a.txt", b"The harbour opens at six", "text/plain")).json()
    assert (await admin.delete(f"{PATH}/{asset['id']}")).status_code == 204
    await work()
    assert (await admin.get("/knowledge/entries")).json()["items"] == []


async def test_a_chunk_cannot_be_changed_or_deleted_by_itself(admin: Caller, work: Work) -> None:
    await admin.upload("a.txt", b"The harbour opens at six", "text/plain")
    await work()
    (chunk,) = (await admin.get("/knowledge/entries")).json()["items"]
    expect_problem(await admin.delete(f"/knowledge/entries/{chunk['id']}"), 409)
    for field in ("content", "title"):
        body = expect_problem(await admin.patch(f"/knowledge/entries/{chunk['id']}", {field: "x"}), 409)
        assert "change the asset's title, or upload a new version" in body["detail"]
    changed = await admin.patch(f"/knowledge/entries/{chunk['id']}", {"is_verified": True})
    assert (changed.status_code, changed.json()["is_verified"]) == (200, True)


async def test_only_a_failed_asset_can_be_retried(admin: Caller, work: Work) -> None:
    failed = (await admin.upload("broken.pdf", b"%PDF-1.4 garbage", "application/pdf")).json()
    expect_problem(await admin.post(f"{PATH}/{failed['id']}/retry"), 409)
    await work()
    asset = await get(admin, failed["id"])
    assert asset["status"] == "failed"
    assert asset["error"]
    again = await admin.post(f"{PATH}/{failed['id']}/retry")
    assert (again.status_code, again.json()["status"], again.json()["error"]) == (202, "pending", None)
    await work()
    assert (await get(admin, failed["id"]))["status"] == "failed"


async def test_assets_are_listed_in_pages_and_by_status(admin: Caller, work: Work) -> None:
    await admin.upload("broken.pdf", b"%PDF-1.4 garbage", "application/pdf")
    await work()
    ids = [(await admin.upload(f"{n}.txt", b"Text %d" % n, "text/plain")).json()["id"] for n in range(3)]
    first = (await admin.get(PATH, params={"limit": 2})).json()
    rest = (await admin.get(PATH, params={"limit": 2, "cursor": first["next_cursor"]})).json()
    listed = [item["id"] for item in first["items"] + rest["items"]]
    assert (listed[:3], len(listed), rest["next_cursor"]) == (ids[::-1], 4, None)
    for status, count in (("pending", 3), ("failed", 1), ("indexed", 0)):
        items = (await admin.get(PATH, params={"status": status})).json()["items"]
        assert [item["status"] for item in items] == [status] * count
    assert (await admin.get("/admin/stats")).json()["assets_by_status"] == {"pending": 3, "failed": 1}


async def test_the_neighbours_of_a_chunk_are_its_siblings(admin: Caller, work: Work) -> None:
    text = "\n\n".join(f"Section {n}. " + f"Word{n} " * 200 for n in range(6))
    await admin.upload("long.txt", text.encode(), "text/plain")
    await work()
    chunks = (await admin.get("/knowledge/entries", params={"limit": 200})).json()["items"]
    by_index = {chunk["chunk_index"]: chunk["id"] for chunk in chunks}
    assert len(by_index) >= 4
    related = (await admin.get(f"/knowledge/entries/{by_index[1]}/related", params={"limit": 2})).json()
    assert {result["id"] for result in related["results"]} == {by_index[0], by_index[2]}
    assert related["metadata"]["relationship_types"] == ["sibling"]


async def test_a_provider_that_is_down_delays_only_vectors(
    admin: Caller, work: Work, provider: FailingProvider
) -> None:
    provider.down = True
    asset = (await admin.upload("a.txt", b"The harbour opens at six", "text/plain")).json()
    await work()
    now = await get(admin, asset["id"])
    assert (now["status"], now["error"], now["chunks"]) == ("indexed", None, 1)
    assert (await admin.get(f"/knowledge/assets/{asset['id']}/text")).status_code == 200
    found = (await admin.post("/knowledge/search", json={"query": "harbour"})).json()
    assert [hit["asset_id"] for hit in found["results"]] == [asset["id"]]
    assert found["metadata"]["degraded"] == ["embedding_unavailable"]
    assert found["metadata"]["pending"] == 1
    assert (await admin.get(f"/knowledge/entries/{found['results'][0]['id']}")).json()["embedding_status"] == (
        "pending"
    )
    assert (await admin.get("/admin/stats")).json()["pending_embeddings"] == 1


async def test_tags_as_a_json_list_are_refused_and_not_split(admin: Caller) -> None:
    problem = expect_problem(await admin.upload("a.txt", b"Text.", "text/plain", tags='["a", "b"]'), 422)
    assert problem["errors"] == [{"field": "tags", "message": "must be repeated or separated by commas"}]
