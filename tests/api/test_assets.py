"""Assets and their changes."""

import hashlib
import io
import zipfile
from collections.abc import AsyncIterator
from typing import Any

import pytest

from app.samples import load_documents
from tests.fixtures.database.cluster import TestDatabase, connected
from tests.fixtures.http.application import Work
from tests.fixtures.http.callers import Caller
from tests.fixtures.http.expectations import expect_fields, expect_problem, is_id, is_time

PATH = "/knowledge/assets"


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

    for omitted in ({}, {"metadata": "", "tags": ""}, {"metadata": "null"}):
        again = await admin.upload("notes.txt", b"It closes at ten", "text/plain", external_id="N1", **omitted)
        assert (again.json()["metadata"], again.json()["tags"]) == ({"team": "red"}, ["time", "harbour"])


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
    for chunk in chunks["items"]:
        place = chunk["metadata"]
        assert text.text[place["char_start"] : place["char_end"]] == chunk["content"][place.get("header_chars", 0) :]
    query = max(text.text.split(), key=len).strip(".,:;()")
    found = await admin.search(query, asset_id=[asset["id"]], source="asset", limit=50, mode="keyword")
    assert found["results"]
    for hit in found["results"]:
        assert (hit["entry_type"], hit["asset_id"], hit["asset_name"]) == ("chunk", asset["id"], document.name)
        assert isinstance(hit["chunk_index"], int)
        assert hit["tags"] == list(document.tags)
        place = hit["metadata"]
        assert text.text[place["char_start"] : place["char_end"]] in hit["content"]  # the part that matched
        if document.media_type == "application/pdf":
            assert 1 <= place["page"] <= place["total_pages"] == asset["total_pages"]


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


def zipped(members: dict[str, bytes]) -> bytes:
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
    assert changed.headers["etag"].startswith(f'"{changed.json()["version"]}-')
    assert changed.headers["etag"] != etag
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
        ("a.html", b"<html><script>alert(1)</script><p>Boats.</p></html>", "text/html", "application/octet-stream"),
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
        ("x.docx", b"PK\x03\x04garbage", "application/octet-stream"),
    ],
)
async def test_an_unsupported_kind_of_file_is_refused(admin: Caller, name: str, data: bytes, media_type: str) -> None:
    body = expect_problem(await admin.upload(name, data, media_type), 415)
    assert "PDF" in body["detail"]


@pytest.mark.usefixtures("nothing_written")
async def test_empty_and_too_large_files_and_wrong_fields_are_refused(admin: Caller) -> None:
    for name, media_type in (("a.txt", "text/plain"), ("a.pdf", "application/pdf")):
        expect_fields(await admin.upload(name, b"", media_type), "file")
    for size in ((50 << 20) + 1, 60 << 20):
        body = expect_problem(await admin.upload("big.txt", b"a" * size, "text/plain"), 413)
        assert "limit" in body["detail"]
    wrong: dict[str, dict[str, Any]] = {"metadata": {"metadata": "{"}, "roles.0": {"roles": "boss"}}
    for field, form in wrong.items():
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


async def test_a_quotation_mark_in_a_name_stays_one(admin: Caller) -> None:
    uploaded = await admin.upload('a"b.md', b"# Quay\n\nOpen at six.", "text/markdown")
    assert uploaded.json()["name"] == 'a"b.md'


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
