"""All tenants in counts: only for platform administrators, and without tenants' knowledge."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

import pytest

from app.auth.principal import Role
from app.composition.services import Services
from app.contract.administration import NewTenant
from app.db.rows import new_id
from app.errors import InvalidInput
from tests.console.browser import Browser, Page
from tests.console.conftest import SignIn
from tests.fixtures.database.cluster import TestDatabase, connected
from tests.fixtures.http.callers import Caller, make_token
from tests.fixtures.providers.failing import FailingProvider

PLATFORM = "/console/platform"
CANARY = "canary7791"


NUMBERS = re.compile(r"Page \d+ of (\d+)")


async def find_row(browser: Browser, slug: str) -> list[str]:
    """The cells of a new tenant."""
    rows = [row for page in await last_pages(browser) for row in page.all("table.stacked > tbody > tr")]
    (row,) = (row for row in rows if slug in row.text_content())
    return [" ".join(cell.text_content().split()) for cell in row.cssselect("td")]


async def last_pages(browser: Browser) -> list[Page]:
    """The pages with the newest tenants: all tests share one database, and the list is in order of creation."""
    first = await browser.get(PLATFORM)
    found = NUMBERS.search(" ".join(first.one("main").text_content().split()))
    last = int(found[1]) if found else 1
    return [
        first if number == 1 else await browser.get(PLATFORM, {"page": str(number)})
        for number in range(max(1, last - 1), last + 1)
    ]


async def test_a_tenant_is_shown_in_counts_and_never_by_content(
    sign_in: SignIn,
    platform: Caller,
    admin: Caller,
    provider: FailingProvider,
    api_services: Services,
    work: Callable[[], Awaitable[None]],
) -> None:
    await admin.patch("/admin/settings", {"keep_query_text": True})
    await admin.upload(f"{CANARY}.txt", f"The harbour {CANARY}".encode(), "text/plain", tags=CANARY)
    await admin.upload(f"{CANARY}.pdf", b"%PDF-1.7 nothing", "application/pdf")
    await work()
    await admin.upload(f"{CANARY}2.txt", f"The bell {CANARY}".encode(), "text/plain", tags=CANARY)
    provider.down = True
    await admin.add(f"Text {CANARY}", title=f"Title {CANARY}", tags=[CANARY], external_id=CANARY)
    await admin.search(f"harbour {CANARY}")
    await admin.search(CANARY, mode="keyword")
    await admin.post("/knowledge/saved-searches", {"name": CANARY, "request": {"query": CANARY}})
    await api_services.journal.flush()
    await platform.patch(f"/admin/tenants/{admin.tenant_id}", {"limits": {"entries": 1234}})
    browser = sign_in(platform)
    slug = (await api_services.tenants.context(admin.tenant_id)).slug if admin.tenant_id else ""
    cells = await find_row(browser, slug)
    assert cells[:6] == ["2", "3", "2", "1", "2", "50.0 %"], "entries, documents, pending, failed, searches, fallback"
    assert cells[6] != "never"
    assert "entries1,234" in cells[7]
    for page in await last_pages(browser):
        assert CANARY not in page.answer.text


async def test_the_platform_sees_nothing_else_of_a_tenant(sign_in: SignIn, platform: Caller, admin: Caller) -> None:
    entry = await admin.add(CANARY)
    browser = sign_in(platform)
    for path in (
        "/console/entries", f"/console/entries/{entry['id']}", f"/console/entries/{entry['id']}/edit",
        "/console/assets", "/console/saved-searches", "/console/health",
    ):  # fmt: skip
        page = await browser.get(path)
        assert page.status == 403, path
        assert CANARY not in page.answer.text
    assert (await browser.post("/console/entries", {"content": "Mine"})).status == 403


@pytest.mark.parametrize("role", [Role.READER, Role.CREATOR, Role.TENANT_ADMIN])
async def test_no_role_in_a_tenant_sees_the_platform(sign_in: SignIn, admin: Caller, role: Role) -> None:
    browser = sign_in(Caller(admin.http, admin.tenant_id, make_token(admin.tenant_id, role)))
    assert (await browser.get(PLATFORM)).status == 403
    assert (await browser.post(f"{PLATFORM}/tenants", {"slug": "mine"})).status == 403


async def test_a_tenant_is_created(sign_in: SignIn, platform: Caller, api_services: Services) -> None:
    browser, slug = sign_in(platform), f"n-{new_id().hex}"
    made = await browser.post(f"{PLATFORM}/tenants", {"slug": slug, "name": "<script>alert(1)</script>"})
    assert (made.status, made.answer.headers["location"]) == (303, f"{PLATFORM}?created={slug}")
    assert "The tenant has been created" in (await browser.get(made.answer.headers["location"])).text
    tenant = await api_services.tenants.find(slug)
    assert tenant.name == "<script>alert(1)</script>"
    cells = await find_row(browser, slug)
    assert cells[:7] == ["0", "0", "0", "0", "0", "–", "never"]
    for page in await last_pages(browser):
        assert not page.all("main script")
    again = await browser.post(f"{PLATFORM}/tenants", {"slug": slug})
    assert again.status == 409
    assert "already exists" in again.one("#field-slug-error").text_content()
    for bad in ("", "Not A Slug", "<script>", "-x"):
        wrong = await browser.post(f"{PLATFORM}/tenants", {"slug": bad})
        assert wrong.status == 422
        assert "must be 1 to 63" in wrong.one("#field-slug-error").text_content()
    refused = await browser.http.post(f"{PLATFORM}/tenants", data={"slug": f"{slug}-2"})
    assert refused.status_code == 403


async def test_tenants_are_listed_in_pages_and_views_are_audited(
    api_services: Services,
    api_database: TestDatabase,
    sign_in: SignIn,
    platform: Caller,
) -> None:
    for _ in range(3):
        await api_services.tenants.create(NewTenant(f"p-{new_id().hex}"), actor="test")
    total = len(await api_services.tenants.list_tenants())
    first = await api_services.platform.tenants(size=2, reader="olga")
    last = await api_services.platform.tenants(first.pages, size=2, reader="olga")
    assert (first.total, first.pages, len(first.items)) == (total, -(-total // 2), 2)
    assert last.items[-1].tenant == (await api_services.tenants.list_tenants())[-1]
    for page in (0, first.pages + 1):
        with pytest.raises(InvalidInput, match="page: must be between 1 and"):
            await api_services.platform.tenants(page, size=2, reader="olga")
    async with connected(api_database.superuser_dsn) as superuser:
        noted = await superuser.fetch("select action, subject_tenant from platform_audit where actor = 'olga'")
    assert [tuple(row) for row in noted] == [("tenant.health", None)] * 2
    for bad in ("0", "x", "9999999"):
        assert (await sign_in(platform).get(PLATFORM, {"page": bad})).status == 422
