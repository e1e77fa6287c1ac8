"""Which roles see which page, for every page of the console."""

from __future__ import annotations

import pytest
from fastapi import FastAPI

from app.auth.principal import Role
from tests.console.browser import Browser, open_browser
from tests.console.conftest import SignIn
from tests.console.pages import OPEN, PAGES, path_of
from tests.fixtures.http.callers import Caller, make_token
from tests.fixtures.http.routes import list_endpoints


async def open_page(browser: Browser, page: str, ids: dict[str, str] | None = None) -> int:
    """The status of a page."""
    method, path = path_of(page, ids)
    return (await (browser.get(path) if method == "GET" else browser.post(path))).status


def test_every_page_has_a_row_in_the_table(app: FastAPI) -> None:
    routes = {
        f"{method} {route.path}"
        for route in list_endpoints(app)
        for method in route.methods or ()
        if route.path.split("/")[1] == "console"
    }
    assert routes == set(PAGES) | OPEN


async def test_every_page_asks_a_signed_out_visitor_to_sign_in(signed_out: Browser) -> None:
    for page in PAGES:
        assert await open_page(signed_out, page) == (303 if page.startswith("GET") else 401), page


@pytest.mark.parametrize("role", list(Role))
async def test_every_page_is_refused_only_to_other_roles(app: FastAPI, admin: Caller, role: Role) -> None:
    browser = open_browser(app, make_token(admin.tenant_id, role))
    for page, allowed in PAGES.items():
        status = await open_page(browser, page)
        if (page, role) == ("GET /console", Role.PLATFORM_ADMIN):
            assert status == 303, "to the tenants"
        else:
            assert (status == 403) == (role not in allowed), (page, status)
        assert status < 500, page
    await browser.http.aclose()


async def test_every_form_of_another_site_is_refused(sign_in: SignIn, admin: Caller, platform: Caller) -> None:
    for caller in (admin, platform):
        browser = sign_in(caller)
        for page in (*PAGES, *OPEN):
            method, path = path_of(page)
            if method == "POST":
                answer = await browser.http.post(path, headers={"Sec-Fetch-Site": "cross-site"})
                assert answer.status_code == 403, page
