"""Changes of assets, their original bytes, and the same bytes under several names."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Awaitable, Callable

from fastapi import FastAPI

from tests.fixtures.http.callers import Caller
from tests.fixtures.http.expectations import expect_problem

PATH = "/knowledge/assets"

Work = Callable[[], Awaitable[None]]


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


def test_the_schema_of_a_change_has_no_defaults(app: FastAPI) -> None:
    for field in app.openapi()["components"]["schemas"]["AssetPatch"]["properties"].values():
        assert "default" not in field


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
