"""Stored content is shown as text: script in every field, on every page that links lead to."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from fastapi import FastAPI

from app.auth.principal import Role
from app.composition.services import Services
from app.contract.administration import NewTenant
from app.db.rows import new_id
from tests.console.browser import Browser, Page, open_browser
from tests.fixtures.http.callers import Caller, make_token

EVIL = (
    "\"'><script>alert(1)</script><img src=x onerror=alert(2)><b hx-get=/evil data-hx-get=/evil hx-trigger=load>"
    "</textarea></title><svg onload=alert(3)>{{7*7}}{% raw %}<a href=javascript:alert(4)>bell</a>"
)
MANY = 40
"""The maximum number of pages to visit."""

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


async def test_script_in_every_field_is_shown_as_text_on_every_page(
    app: FastAPI, api_services: Services, http: object, work: Callable[[], Awaitable[None]]
) -> None:
    tenant = await api_services.tenants.create(NewTenant(f"t-{new_id().hex}", EVIL[:200]), actor=EVIL)
    token = make_token(tenant.id, Role.TENANT_ADMIN, subject=f"ada {EVIL}")
    async with open_browser(app).http as client:
        caller = Caller(client, tenant.id, token)
        fields = {
            "title": f"bell {EVIL}", "tags": [EVIL[:100], f"x {EVIL}"[:100]], "metadata": {EVIL: {EVIL: EVIL}},
            "external_id": EVIL,
        }  # fmt: skip
        parent = await caller.add(f"bell {EVIL}", **fields)
        await caller.add(
            f"bell two {EVIL}", title=f"bell {EVIL}", tags=fields["tags"], parent_id=parent["id"],
            source_ids=[parent["id"]],
        )  # fmt: skip
        uploaded = await caller.upload(
            f"{EVIL[:100].replace('/', ' ')}.md", f"# bell {EVIL}\n\nbell {EVIL}".encode(), "text/markdown",
            external_id=EVIL, tags=EVIL[:100], metadata=json.dumps({EVIL: EVIL}),
        )  # fmt: skip
        assert uploaded.status_code == 202, uploaded.text
        await work()
        request = {"query": f"bell {EVIL}", "tags": [EVIL[:100]], "metadata": {EVIL: EVIL}}
        saved = await caller.post("/knowledge/saved-searches", {"name": EVIL[:200], "request": request})
        assert saved.status_code == 201, saved.text
    browser = open_browser(app, token)
    found = await browser.search("bell", explain="true", limit="10")
    assert len(found.all(".hit")) >= 3
    assert EVIL in found.tree.text_content()
    pages = await crawl(browser, ["/console?query=bell&explain=true", f"/console/related/{parent['id']}"])
    hostile = [
        await browser.get("/console", {"query": f"bell {EVIL}", "tags": EVIL, "limit": EVIL, "mode": EVIL}),
        await browser.get("/console/why-not", {"query": EVIL, "entry_id": EVIL}),
        await browser.get("/console/compare", {"query": f"bell {EVIL}", "a.mode": EVIL, "b.boost": EVIL}),
        await browser.get("/console/sign-in", {"next": f"/console?{EVIL}"}),
        await browser.post("/console/sign-in", {"token": EVIL, "next": f"/console?{EVIL}"}),
        await browser.post("/console/saved-searches", {"name": EVIL * 9, "request": EVIL}),
    ]
    for page in (*pages.values(), *hostile):
        expect_text_alone(page)
    for wanted in ("/console", "/console/compare", "/console/entries", "/console/assets", "/console/health"):
        assert any(urlsplit(address).path.startswith(wanted) for address in pages), wanted
    downloads = {a.get("href") for page in pages.values() for a in page.all("a[download]")}
    assert downloads
    for address in downloads:
        await expect_attachment(browser, address)
    await browser.http.aclose()


async def crawl(browser: Browser, starts: list[str]) -> dict[str, Page]:
    """One page of each kind that links lead to: a kind is a path without ids and a set of parameters."""
    waiting, seen, pages = list(starts), set[object](), dict[str, Page]()
    while waiting and len(pages) < MANY:
        address = waiting.pop(0)
        parts = urlsplit(address)
        kind = (UUID.sub("", parts.path), tuple(sorted(p.split("=")[0] for p in parts.query.split("&"))))
        if kind in seen or not parts.path.startswith("/console") or parts.path.startswith("/console/files"):
            continue
        seen.add(kind)
        page = await browser.get(address)
        if page.status == 303:
            waiting.append(page.answer.headers["location"])
            continue
        assert page.status == 200, (address, page.text)
        pages[address] = page
        waiting += [a.get("href") for a in page.all("a[href]:not([download])")]
        waiting += [e.get("hx-get") for e in page.all("[hx-get]") if e.tag != "form"]
    return pages


def expect_text_alone(page: Page) -> None:
    """Nothing of the planted markup became part of the page (`read_page` checks for handlers)."""
    address = str(page.answer.request.url)
    assert not page.all("img:not([src='/console/files/icon.svg'])"), address
    assert not [e for e in page.all("[hx-get], [data-hx-get]") if "evil" in str(dict(e.attrib))], address
    assert not [e for e in page.all("[href]") if not e.get("href").startswith(("/console", "#"))], address
    assert len(page.all("head title")) == 1, address
    assert len(page.all("main")) <= 1, address
    assert "49" not in page.texts("head title")[0]


async def expect_attachment(browser: Browser, address: str) -> None:
    """The file is stored by the browser and never shown as a page, even if the address is opened directly."""
    async with browser.http.stream("GET", address) as answer:
        assert answer.status_code == 200, address
        assert answer.headers["content-disposition"].startswith("attachment;"), address
        assert answer.headers["x-content-type-options"] == "nosniff", address
        assert answer.headers["content-security-policy"].startswith("sandbox;"), address
        assert not answer.headers["content-type"].startswith(("text/html", "image/svg")), address
