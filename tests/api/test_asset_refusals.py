"""Files that are refused at once, or fail with a reason; neither leaves anything half-written."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from tests.fixtures.database.cluster import TestDatabase, connected
from tests.fixtures.documents import write_pdf, write_pdf_with
from tests.fixtures.http.callers import Caller
from tests.fixtures.http.expectations import expect_fields, expect_problem

PATH = "/knowledge/assets"
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
        ({"metadata": "[]"}, "metadata"),
        ({"metadata": "null"}, "metadata"),
        ({"metadata": '{"a": NaN}'}, "metadata"),
        ({"metadata": '{"a": "\\u0000"}'}, "metadata"),
        ({"metadata": '{"a": "' + "x" * 70_000 + '"}'}, "metadata"),
        ({"roles": "boss"}, "roles.0"),
        ({"tags": "x" * 101}, "tags.0"),
        ({"tags": "a\x00"}, "tags"),
        ({"tags": ",".join(f"t{n}" for n in range(51))}, "tags"),
        ({"external_id": "x" * 513}, "external_id"),
        ({"external_id": "a\x00"}, "external_id"),
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
