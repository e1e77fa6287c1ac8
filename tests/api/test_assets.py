"""Assets and their changes."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from app.samples import load_documents
from tests.fixtures.database.cluster import TestDatabase, connected
from tests.fixtures.documents import write_docx, write_pdf, write_pdf_with
from tests.fixtures.http.callers import Caller
from tests.fixtures.http.expectations import expect_fields, expect_problem, is_id, is_time
from tests.fixtures.providers.failing import FailingProvider

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


def zipped(members: dict[str, bytes]) -> bytes:
    """A ZIP file."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return target.getvalue()


async def test_a_change_is_inherited_and_has_an_etag(admin: Caller, work: Work) -> None:
    answer = await admin.upload("a.md", b"# Pier\n\nBoats lie at the pier.", "text/markdown", tags="old")
    path = f"{PATH}/{answer.json()['id']}"
    await work()
    etag = (await admin.get(path)).headers["etag"]
    changed = await admin.patch(path, {"tags": ["new"]}, headers={"If-Match": etag})
    assert changed.status_code == 200
    assert (changed.json()["tags"], changed.json()["roles"]) == (["new"], ["all"])
    assert changed.headers["etag"] == f'"{changed.json()["version"]}"' != etag
    assert (await admin.search("boats", tags=["old"]))["results"] == []
    (hit,) = (await admin.search("boats", tags=["new"]))["results"]
    assert hit["title"] == "Pier"
    expect_problem(await admin.patch(path, {"tags": ["x"]}, headers={"If-Match": etag}), 412)
    expect_problem(await admin.patch(path, {"name": "b.md"}), 422)
    assert (await admin.patch(path, {"title": "Mole"})).json()["title"] == "Mole"
    assert (await admin.patch(path, {"title": None})).json()["title"] == "Pier"


async def test_the_original_bytes_are_an_attachment(admin: Caller) -> None:
    data = bytes(range(256)) * 9_000
    for name, content, declared, shown in (
        ('a "b"\r\n;é.md', b"# Pier\n\nBoats.", "text/markdown", "text/markdown"),
        (
            "a.html",
            b"<html><script>alert(1)</script><p>Boats.</p></html>",
            "text/html",
            "application/octet-stream",
        ),
        ("a.txt", b"Boats. " * 400_000, "text/plain", "text/plain"),
        ("a.zip", zipped({"a.bin": data, "a.txt": b"Boats."}), "application/zip", "application/zip"),
    ):
        asset = (await admin.upload(name, content, declared)).json()
        answer = await admin.get(f"{PATH}/{asset['id']}/content")
        assert answer.status_code == 200
        assert answer.content == content
        headers = answer.headers
        assert headers["content-type"] == shown
        assert headers["content-length"] == str(len(content)) == str(asset["byte_size"])
        assert headers["content-disposition"].startswith("attachment; filename*=UTF-8''a")
        assert headers["content-disposition"].isascii()
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["content-security-policy"].startswith("sandbox")
        assert headers["etag"] == f'"{hashlib.sha256(content).hexdigest()}"'
        head = await admin.request("HEAD", f"{PATH}/{asset['id']}/content")
        assert (head.content, head.headers["content-length"]) == (b"", str(len(content)))


async def test_the_same_bytes_under_another_name_are_reported(admin: Caller, work: Work) -> None:
    first = (await admin.upload("a.txt", b"Boats lie here.", "text/plain", external_id="a")).json()
    second = await admin.upload("b.txt", b"Boats lie here.", "text/plain", external_id="b", tags="b")
    assert (second.status_code, second.json()["duplicate_of"]) == (202, first["id"])
    again = await admin.upload("a.txt", b"Boats lie here.", "text/plain", external_id="a", tags="x")
    assert (again.status_code, again.json()["tags"]) == (200, ["x"])
    await work()
    assert len((await admin.search("boats"))["results"]) == 1
    found = await admin.search("boats", tags=["b"])
    assert [hit["asset_id"] for hit in found["results"]] == [second.json()["id"]]


TABLES = ("assets", "entries", "embeddings", "pending_embeddings", "jobs")
PNG = bytes.fromhex("89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489")
ELF = b"\x7fELF\x02\x01\x01" + bytes(57)
TEXT = ("a.txt", b"The harbour", "text/plain")


@pytest.fixture
async def nothing_written(admin: Caller, api_database: TestDatabase) -> AsyncIterator[None]:
    """Check that the test leaves no row of its tenant behind."""
    yield
    async with connected(api_database.superuser_dsn) as superuser:
        for table in TABLES:
            count = f"select count(*) from {table} where tenant_id = $1"
            assert await superuser.fetchval(count, admin.tenant_id) == 0, table
    assert (await admin.get("/admin/audit")).json()["items"] == []


@pytest.mark.usefixtures("nothing_written")
@pytest.mark.parametrize(
    ("name", "data", "media_type"),
    [
        ("image.png", PNG, "image/png"),
        ("program", ELF, "application/octet-stream"),
        ("image.pdf", PNG, "application/pdf"),
        ("notes.txt", ELF, "text/plain"),
        ("old.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "application/msword"),
        ("a.rtf", b"{\\rtf1 hello}", "text/rtf"),
        ("a.zip", b"PK\x05\x06" + bytes(18), "application/zip"),
    ],
)
async def test_an_unsupported_kind_of_file_is_refused(admin: Caller, name: str, data: bytes, media_type: str) -> None:
    body = expect_problem(await admin.upload(name, data, media_type), 415)
    assert "PDF" in body["detail"]


@pytest.mark.usefixtures("nothing_written")
@pytest.mark.parametrize(("name", "media_type"), [("a.txt", "text/plain"), ("a.pdf", "application/pdf")])
async def test_an_empty_file_is_refused(admin: Caller, name: str, media_type: str) -> None:
    expect_fields(await admin.upload(name, b"", media_type), "file")


@pytest.mark.usefixtures("nothing_written")
async def test_a_file_over_the_limit_is_refused(admin: Caller) -> None:
    for size in ((50 << 20) + 1, 60 << 20):
        body = expect_problem(await admin.upload("big.txt", b"a" * size, "text/plain"), 413)
        assert "limit" in body["detail"]


@pytest.mark.usefixtures("nothing_written")
@pytest.mark.parametrize(
    ("form", "field"),
    [
        ({"metadata": "{"}, "metadata"),
        ({"roles": "boss"}, "roles.0"),
        ({"tags": "a\x00"}, "tags"),
        ({"external_id": "  "}, "external_id"),
    ],
)
async def test_a_form_field_outside_its_range_is_named(admin: Caller, form: dict[str, Any], field: str) -> None:
    expect_fields(await admin.upload(*TEXT, **form), field)


@pytest.mark.usefixtures("nothing_written")
@pytest.mark.parametrize("name", ["x" * 513, "folder/", " "])
async def test_an_invalid_name_is_refused(admin: Caller, name: str) -> None:
    answer = await admin.post(PATH, files={"file": (name, b"The harbour", "text/plain")})
    expect_fields(answer, "file")


@pytest.mark.usefixtures("nothing_written")
async def test_a_request_without_exactly_one_file_is_refused(admin: Caller) -> None:
    expect_fields(await admin.post(PATH, data={"tags": "a"}), "file")
    text = expect_fields(await admin.post(PATH, data={"file": "text"}), "file")
    assert text["errors"] == [{"field": "file", "message": "must be a file"}]
    expect_fields(await admin.post(PATH, files={"document": TEXT}), "file")
    expect_fields(await admin.post(PATH, files={"file": TEXT}, data={"tag": "a", "note": "b"}), "note", "tag")
    expect_problem(await admin.post(PATH, {"file": "text"}), 415)
    packed = {"Content-Type": "multipart/form-data; boundary=x", "Content-Encoding": "gzip"}
    expect_problem(await admin.post(PATH, content=b"--x--", headers=packed), 415)
    expect_fields(await admin.post(PATH, files=[("file", TEXT), ("file", ("b.txt", b"b", "text/plain"))]), "file")


@pytest.mark.usefixtures("nothing_written")
@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("multipart/form-data", b"--x\r\n"),
        ("multipart/form-data; boundary=x", b"garbage"),
        ("multipart/form-data; boundary=x", b"--x\r\nno header\r\n\r\nx\r\n--x--"),
    ],
)
async def test_a_broken_multipart_body_is_refused(admin: Caller, kind: str, body: bytes) -> None:
    expect_problem(await admin.post(PATH, content=body, headers={"Content-Type": kind}), 400)


@pytest.mark.usefixtures("nothing_written")
@pytest.mark.filterwarnings(
    # The framework leaves the partly received file to the garbage collector.
    "ignore:.*SpooledTemporaryFile.*:pytest.PytestUnraisableExceptionWarning"
)
async def test_a_multipart_body_that_ends_early_is_refused(admin: Caller) -> None:
    body = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nThe harb'
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    answer = await admin.post(PATH, content=body, headers=headers)
    assert answer.status_code in (400, 422), answer.text


FAILING: list[Any] = [
    pytest.param("garbage.pdf", b"%PDF-1.4\nThe harbour, but no PDF at all", "damaged", id="garbage"),
    pytest.param("cut.pdf", write_pdf([["The harbour"]])[:200], "damaged", id="cut"),
    pytest.param("locked.pdf", write_pdf_with([["The harbour"]], user_password="x"), "encrypted", id="encrypted"),
    pytest.param("blank.pdf", write_pdf([[""]]), "no text", id="without text"),
    pytest.param("cut.docx", b"PK\x03\x04word/document.xml and then nothing", "damaged", id="cut DOCX"),
    pytest.param("blank.txt", b" \n\t\n", "no text", id="blank"),
]


@pytest.mark.parametrize(("name", "data", "reason"), FAILING)
async def test_a_file_that_cannot_be_read_fails_with_a_reason(
    admin: Caller, work: Callable[[], Awaitable[None]], name: str, data: bytes, reason: str
) -> None:
    answer = await admin.upload(name, data, "application/octet-stream")
    assert answer.status_code == 202, answer.text
    await work()
    asset = (await admin.get(f"{PATH}/{answer.json()['id']}")).json()
    assert (asset["status"], asset["chunks"]) == ("failed", 0)
    assert reason in asset["error"]
    assert "Traceback" not in asset["error"]
    assert (await admin.get("/knowledge/entries")).json()["items"] == []
    expect_problem(await admin.get(f"{PATH}/{asset['id']}/text"), 409)
