"""An admin reads what its own groups may read, until it asks to see everything: visibly, and for one session."""

from __future__ import annotations

import pytest
from fastapi import FastAPI, Response

from app.auth.principal import Role
from app.console.visitor import EVERYTHING_COOKIE, PAGE_STATE, begin_everything
from tests.console.browser import ADDRESS, OWN, Browser, open_browser
from tests.console.conftest import SignIn
from tests.console.members import join, offer
from tests.console.pages import ADMINISTER, PAGES, path_of
from tests.fixtures.http.callers import Caller, make_token

ACT = "/console/everything"
ALL = {"X-KB-Access": "all"}
NARROW = ("/console/settings", "/console/access/change")
"""Pages of the administration that show nothing that the admin may not read."""


@pytest.fixture
async def hidden(admin: Caller) -> str:
    """The id of an entry that the admin may not read."""
    ann = join(admin, "ann", "finance")
    return str((await ann.add("The payroll is due", readers=["group:finance"]))["id"])


async def test_pages_that_show_everything_explain_and_offer_it(browser: Browser, hidden: str) -> None:
    refused = []
    for page, roles in PAGES.items():
        method, path = path_of(page, {"name": "shelf"})
        if method == "GET" and roles == ADMINISTER:
            seen = await browser.get(path)
            if path in NARROW:
                assert seen.status == 200, path
                continue
            assert offer(seen) == {"on": "true", "next": path}
            assert seen.texts("h1") == ["This page shows everything in the tenant"]
            assert seen.all("nav.sections a"), "the other pages stay in reach"
            refused.append(path)
    assert len(refused) > 12
    seen = await browser.get("/console/audit", {"action": "entry.write"})
    assert offer(seen)["next"] == "/console/audit?action=entry.write"


async def test_a_refused_change_is_not_done(browser: Browser, admin: Caller, hidden: str) -> None:
    entry = (await admin.add("The pier opens"))["id"]
    refused = await browser.post(f"/console/entries/{entry}/release")
    assert offer(refused)["next"] == "/console/entries"
    assert "nothing was changed" in refused.text
    assert offer(await browser.post("/console/model", {"action": "rebuild"}))["next"] == "/console/model"
    assert (await admin.get("/admin/reembed", headers=ALL)).status_code == 404


async def test_the_act_is_recorded_visible_and_ends(browser: Browser, admin: Caller, hidden: str) -> None:
    assert (await browser.get(f"/console/entries/{hidden}")).status == 404
    form = offer(await browser.get("/console/health"))
    begun = await browser.post(ACT, form)
    assert (begun.status, begun.answer.headers["location"]) == (303, "/console/health")
    attributes = begun.answer.headers["set-cookie"].lower()
    assert all(part in attributes for part in ("httponly", "samesite=strict", "path=/console"))
    assert not any(part in attributes for part in ("max-age", "expires", "secure"))
    other = join(admin, "grace", role=Role.TENANT_ADMIN)
    found = await other.get("/admin/audit", params={"action": "access.all", "actor": "ada"}, headers=ALL)
    assert len(found.json()["items"]) == 1, "before anything was seen"
    for path in (
        "/console",
        "/console/entries",
        "/console/settings",
        "/console/health",
        f"/console/entries/{hidden}",
    ):
        page = await browser.get(path)
        assert page.status == 200, path
        assert "You see everything in this tenant" in page.one("form.everything").text_content()
    assert (await browser.get("/console/entries/nothing")).all("form.everything"), "also on a refused page"
    assert "The payroll is due" in (await browser.get("/console", {"query": "payroll", "mode": "keyword"})).text
    ended = await browser.post(ACT, dict(page.one("form.everything").form_values()))
    assert (ended.status, ended.answer.headers["location"]) == (303, "/console")
    assert EVERYTHING_COOKIE not in browser.http.cookies
    assert (await browser.get(f"/console/entries/{hidden}")).status == 404
    assert not (await browser.get("/console")).all("form.everything")
    offer(await browser.get("/console/health"))


async def test_an_admin_that_sees_everything_changes_everything(browser: Browser, admin: Caller, hidden: str) -> None:
    await browser.post(ACT, {"on": "true"})
    path = f"/console/entries/{hidden}/edit"
    page = await browser.get(path)
    assert "You see everything, so you need not be in them" in page.text
    form = dict(page.one("main form[method=post]").form_values())
    assert (await browser.post(path, {**form, "readers": "group:hr"})).status == 303
    assert (await join(admin, "hanna", "hr").get(f"/knowledge/entries/{hidden}")).status_code == 200
    assert (await join(admin, "ann", "finance").get(f"/knowledge/entries/{hidden}")).status_code == 404


async def test_the_act_belongs_to_its_session(app: FastAPI, browser: Browser, admin: Caller, hidden: str) -> None:
    await browser.post(ACT, {"on": "true"})
    kept = browser.http.cookies[EVERYTHING_COOKIE]
    page = f"/console/entries/{hidden}"
    assert (await browser.get(page)).status == 200
    others = [
        make_token(admin.tenant_id, Role.TENANT_ADMIN, ttl=3_000),
        make_token(admin.tenant_id, Role.TENANT_ADMIN, subject="grace"),
        make_token(admin.tenant_id, Role.CREATOR),
    ]
    for token in others:
        other = open_browser(app, token)
        other.http.cookies.set(EVERYTHING_COOKIE, kept, domain="console.test", path="/console")
        assert (await other.get(page)).status == 404
        assert not (await other.get("/console")).all("form.everything")
        await other.http.aclose()
    await browser.post("/console/sign-out")
    assert EVERYTHING_COOKIE not in browser.http.cookies


async def test_only_an_admins_token_makes_the_act_count(sign_in: SignIn, admin: Caller, hidden: str) -> None:
    for role in (Role.CREATOR, Role.READER):
        caller = join(admin, "ben", role=role)
        browser = sign_in(caller)
        assert (await browser.post(ACT, {"on": "true"})).status == 403
        # The cookie that an admin would get for this token: all can compute it.
        forged = Response()
        begin_everything(forged, caller.token, secure=False)
        value = forged.headers["set-cookie"].partition(";")[0].partition("=")[2]
        browser.http.cookies.set(EVERYTHING_COOKIE, value, domain="console.test", path="/console")
        assert (await browser.get(f"/console/entries/{hidden}")).status == 404
        assert not (await browser.get("/console/entries")).all("form.everything")


async def test_the_header_of_the_api_is_not_the_act(browser: Browser, hidden: str) -> None:
    offer(await browser.get("/console/health", headers=ALL))
    assert (await browser.get(f"/console/entries/{hidden}", headers=ALL)).status == 404


async def test_the_act_leads_only_to_pages_of_the_console(browser: Browser) -> None:
    for address in ("https://evil.test/", "//evil.test", "/docs", "/console/..//evil.test"):
        begun = await browser.post(ACT, {"on": "true", "next": address})
        assert begun.answer.headers["location"] == "/console"
    assert (await browser.post(ACT, {"next": "/console"})).status == 422


async def test_the_act_is_kept_for_https_only_where_the_page_is_on_https(browser: Browser) -> None:
    begun = await browser.http.post(
        ACT, data={"on": "true"}, headers={**OWN, "Origin": ADDRESS.replace("http:", "https:")}
    )
    assert "secure" in begun.headers["set-cookie"].lower()


async def test_a_page_that_shows_another_state_is_loaded_again(browser: Browser) -> None:
    async def ask(state: str | None) -> str | None:
        headers = {"HX-Request": "true"} | ({PAGE_STATE: state} if state else {})
        answer = await browser.http.post("/console", data={"query": "pier"}, headers={**OWN, **headers})
        assert answer.status_code == 200
        assert bool(answer.text) == ("hx-refresh" not in answer.headers)
        refresh: str | None = answer.headers.get("hx-refresh")
        return refresh

    assert [await ask(state) for state in ("own", "all", None)] == [None, "true", None]
    assert (await browser.get("/console")).one("body").get("hx-headers") == f'{{"{PAGE_STATE}": "own"}}'
    await browser.post(ACT, {"on": "true"})
    assert [await ask(state) for state in ("own", "all", None)] == ["true", None, None]
    assert (await browser.get("/console")).one("body").get("hx-headers") == f'{{"{PAGE_STATE}": "all"}}'


async def test_a_tenant_without_permissions_needs_no_act(browser: Browser, admin: Caller) -> None:
    await admin.add("The pier opens")
    page = await browser.get("/console/health")
    assert page.status == 200
    assert not page.all("form.everything")
