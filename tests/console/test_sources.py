"""Sources in the console, with deletions that wait for a confirmation, only for admins."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from tests.console.browser import Browser
from tests.fixtures.http.callers import Caller

LIST = "/console/sources"


async def put(admin: Caller, names: list[str], **options: Any) -> int:
    """The status of a manifest of the source `shelf` with these files."""
    items = [{"external_id": name, "digest": "1", "name": name} for name in names]
    body = {"items": items, "origin": "/srv/shelf", **options}
    return (await admin.request("PUT", "/knowledge/sources/shelf", json=body)).status_code


async def upload(admin: Caller, name: str, run: str = "1") -> None:
    answer = await admin.upload(
        name, f"All about {name}".encode(), "text/markdown", source="shelf", run=run, external_id=name
    )
    assert answer.status_code in (200, 202), answer.text


async def test_a_source_shows_its_items_and_what_failed(
    browser: Browser, admin: Caller, stranger: Caller, work: Callable[[], Awaitable[None]]
) -> None:
    assert await put(admin, ["a.md", "b.md", "c.bin"]) == 201
    await upload(admin, "a.md")
    await work()
    page = await browser.get(LIST)
    assert page.texts("tbody th a") == ["shelf"]
    assert page.texts("tbody td[data-label=Items] a")[0] == "1 indexed"
    one = await browser.get(f"{LIST}/shelf")
    assert "a.md" in one.texts("tbody th")
    assert one.texts("tbody tr:first-child .badge") == ["indexed"]
    missing = await browser.get(f"{LIST}/shelf", {"state": "missing"})
    assert "a.md" not in missing.texts("tbody th")
    assert missing.texts("tbody th")
    assert (await browser.get(f"{LIST}/shelf", {"state": "lost"})).status == 422
    assert (await browser.get(f"{LIST}/cellar")).status == 404
    assert (await browser.get(f"{LIST}/%00")).status == 422


async def test_held_deletions_are_shown_until_a_run_is_accepted(
    browser: Browser, admin: Caller, work: Callable[[], Awaitable[None]]
) -> None:
    names = [f"{n}.md" for n in range(4)]
    assert await put(admin, names) == 201
    for name in names:
        await upload(admin, name)
    await work()
    assert not (await browser.get(LIST)).all(".notice")
    assert await put(admin, names[:1]) == 409
    refused = (await admin.get("/admin/audit", params={"outcome": "refused"})).json()["items"]
    assert refused[0]["detail"] == {
        "reason": "TooManyDeletions",
        "source": "shelf",
        "deletions": 3,
        "assets": 4,
    }
    for address in (LIST, f"{LIST}/shelf"):
        (notice,) = (await browser.get(address)).texts(".notice.warning")
        assert "would have deleted 3 of 4 documents" in notice
        assert "knowledge sync shelf /srv/shelf --confirm-deletions" in notice
    assert await put(admin, names[:1], confirm_deletions=True) == 200
    assert not (await browser.get(LIST)).all(".notice")


async def test_a_tenant_without_sources_reads_how_to_make_one(browser: Browser) -> None:
    assert "There are no sources yet" in (await browser.get(LIST)).text
