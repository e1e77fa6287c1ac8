"""Several files in one form."""

from __future__ import annotations

from tests.console.asset_pages import LIST, PART_OF_PAGE, Work, upload
from tests.console.browser import Browser, Page
from tests.fixtures.http.callers import Caller


async def upload_all(browser: Browser, files: dict[str, bytes], **form: str) -> Page:
    return await browser.post(LIST, form, files=[("file", item) for item in files.items()])


async def test_several_files_are_uploaded_with_the_same_tags(browser: Browser, admin: Caller, work: Work) -> None:
    page = await upload_all(browser, {"a.txt": b"Boats", "b.txt": b"Lamps", "bad.exe": b"MZ\x00\x01"}, tags="sea")
    assert page.status == 200
    assert page.texts("#upload-answer .good a") == ["a.txt", "b.txt"]
    assert "bad.exe was refused" in page.one("#upload-answer .warning").text_content()
    await work()
    listed = (await admin.get("/knowledge/assets")).json()["items"]
    assert {(asset["name"], *asset["tags"]) for asset in listed} == {("a.txt", "sea"), ("b.txt", "sea")}
    assert page.one("#field-file").get("multiple") is not None


async def test_an_external_id_belongs_to_one_file(browser: Browser) -> None:
    page = await upload_all(browser, {"a.txt": b"Boats", "b.txt": b"Lamps"}, external_id="x")
    assert page.status == 422
    assert "belongs to one file" in page.one("#field-external_id-error").text_content()
    assert (await browser.get(LIST)).all(".empty")


async def test_duplicates_and_versions_are_told(browser: Browser, work: Work) -> None:
    first = await upload(browser, "a.txt", b"Boats", external_id="one")
    await work()
    copy = await upload(browser, "copy.txt", b"Boats", part=True, external_id="two")
    assert first.answer.headers["location"] in [a.get("href") for a in copy.all("a")]
    assert "has the same content" in copy.text
    second = await upload(browser, "a.txt", b"More boats", part=True, external_id="one")
    assert "as version 2" in second.text
    await work()
    names = [row.text_content() for row in (await browser.get(LIST)).all("tbody th")]
    assert any("version 2" in name for name in names)
    same = await browser.post(
        LIST, {"external_id": "one"}, files={"file": ("a.txt", b"More boats")}, headers=PART_OF_PAGE
    )
    assert "already stored" in same.text
