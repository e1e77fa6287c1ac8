"""All pages: problems, styles and untrusted content."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from fastapi import FastAPI, Response

from app.auth.principal import Role
from app.composition.services import Services
from app.console.rendering import FOLDER, make_sentence
from app.console.session import COOKIE
from app.console.visitor import EVERYTHING_COOKIE, PAGE_STATE, begin_everything
from app.contract.administration import NewTenant
from app.db.rows import new_id
from tests.console.browser import ADDRESS, OWN, Browser, Page, all_fields, open_browser
from tests.console.conftest import SignIn
from tests.console.contents import join, offer
from tests.console.pages import ADMINISTER, PAGES, path_of
from tests.fixtures.http.application import Work
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
    for path in ("/console", "/console/entries", "/console/settings", "/console/health", f"/console/entries/{hidden}"):
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

    own = json.loads((await browser.get("/console")).one("body").get("hx-headers"))[PAGE_STATE]
    assert own.endswith(":own")
    everything = own.replace(":own", ":all")
    assert [await ask(state) for state in (own, everything, None)] == [None, "true", None]
    await browser.post(ACT, {"on": "true"})
    assert [await ask(state) for state in (own, everything, None)] == ["true", None, None]
    page = await browser.get("/console")
    assert json.loads(page.one("body").get("hx-headers")) == {PAGE_STATE: everything}


async def test_a_form_of_another_tenants_page_changes_nothing(browser: Browser, stranger: Caller) -> None:
    async def fill() -> tuple[str, dict[str, Any]]:
        page = await browser.get("/console/entries/new")
        (address,) = set(re.findall(r'action="(/console/entries[^"]*)"', page.answer.text))
        (form,) = page.all("form:has(textarea[name=content])")
        return address, {**all_fields(form), "content": "The payroll of the harbour"}

    address, entry = await fill()
    browser.http.cookies.set(COOKIE, stranger.token, domain="console.test", path="/console")
    refused = await browser.post(address, entry)
    assert refused.status == 409
    assert "another tenant" in refused.text
    assert (await stranger.get("/knowledge/entries")).json()["items"] == []
    assert (await browser.post(*(await fill()))).status == 303
    assert len((await stranger.get("/knowledge/entries")).json()["items"]) == 1


async def test_a_tenant_without_permissions_needs_no_act(browser: Browser, admin: Caller) -> None:
    await admin.add("The pier opens")
    page = await browser.get("/console/health")
    assert page.status == 200
    assert not page.all("form.everything")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("there is no entry with this id", "There is no entry with this id."),
        ("limit: must be at most 50", "limit: must be at most 50."),
        ("Ready.", "Ready."),
        ("élan", "Élan."),
        ("3 files", "3 files."),
        ("", ""),
    ],
)
def test_a_detail_becomes_a_sentence(text: str, sentence: str) -> None:
    assert make_sentence(text) == sentence


async def test_a_refusal_has_a_heading_in_words_and_a_way_back(
    browser: Browser, sign_in: SignIn, reader: Caller, platform: Caller
) -> None:
    missing = await browser.get(path_of("GET /console/entries/{entry_id}")[1])
    assert (missing.status, missing.one("h1").text_content()) == (404, "This does not exist")
    refused = await sign_in(reader).get("/console/health")
    assert (refused.status, refused.one("h1").text_content()) == (403, "You may not do this")
    assert "This requires the role tenant_admin." in refused.one("[role=alert]").text_content()
    for page in (missing, refused):
        assert page.one("main section > p > a").get("href") == "/console"
        assert not page.one("h1").text_content().endswith(page.answer.reason_phrase)
    lost = await sign_in(platform).get("/console/entries")
    assert lost.one("main section > p > a").get("href") == "/console/platform"


SHEETS = sorted((FOLDER / "static").glob("*.css"))
DECLARATION = re.compile(r"(?<![\w-])(?P<name>-{0,2}[a-z][a-z-]*):\s*(?P<value>[^;{}]+)(?=[;}])")
SPACE = re.compile(r"(?:(?:scroll-)?(?:margin|padding)(?:-[a-z-]+)?|(?:row-|column-)?gap)")
SPACES = re.compile(
    r"var\(--[a-z0-9]+\)|0|auto|-?\d*\.?\d+em|-?[123]px|calc\([^()]*(?:\([^()]*\)[^()]*)*\)|clamp\(.*\)"
)
TYPE = re.compile(r"var\(--text-[a-z0-9]+\)|inherit|\d*\.?\d+em")
COLOUR = re.compile(r"#[0-9a-f]{3,8}\b|\b(?:rgb|hsl)a?\(|\b(?:white|black|red|gr[ae]y)\b")


def declarations(sheet: Path) -> Iterator[tuple[str, str]]:
    """Name and value of each declaration of a style sheet outside `:root`, where the scales themselves are."""
    text = re.sub(r"/\*.*?\*/", "", sheet.read_text("utf-8"), flags=re.DOTALL)
    text = re.sub(r":root\s*\{[^}]*\}", "", text)
    for found in DECLARATION.finditer(text):
        yield found["name"], found["value"].removesuffix("!important").strip()


def parts_of(value: str) -> list[str]:
    """The parts of a value between spaces outside parentheses."""
    return re.findall(r"(?:[^\s()]|\([^()]*(?:\([^()]*\)[^()]*)*\))+", value)


@pytest.mark.parametrize("sheet", SHEETS, ids=lambda sheet: sheet.name)
def test_space_is_taken_from_its_scale(sheet: Path) -> None:
    given = [(n, v) for n, v in declarations(sheet) if SPACE.fullmatch(n)]
    assert len(given) > 10
    assert [(n, v) for n, v in given if not all(SPACES.fullmatch(part) for part in parts_of(v))] == []


@pytest.mark.parametrize("sheet", SHEETS, ids=lambda sheet: sheet.name)
def test_sizes_of_type_are_taken_from_their_scale(sheet: Path) -> None:
    given = [value for name, value in declarations(sheet) if name == "font-size"]
    assert len(given) > 5
    assert [value for value in given if not TYPE.fullmatch(value)] == []


@pytest.mark.parametrize("sheet", SHEETS, ids=lambda sheet: sheet.name)
def test_colours_are_named_for_light_and_dark(sheet: Path) -> None:
    assert [(n, v) for n, v in declarations(sheet) if COLOUR.search(v)] == []


def test_both_themes_name_the_same_colours() -> None:
    text = (FOLDER / "static" / "console.css").read_text("utf-8")
    light, dark = (
        {found["name"]: found["value"] for found in DECLARATION.finditer(block)}
        for block in re.findall(r":root\s*\{([^}]*\})", text)
    )
    colours = {name for name, value in light.items() if value.startswith("#")}
    assert len(colours) > 15
    assert colours == {name for name, value in dark.items() if value.startswith("#")}


EVIL = (
    "\"'><script>alert(1)</script><img src=x onerror=alert(2)><b hx-get=/evil data-hx-get=/evil hx-trigger=load>"
    "</textarea></title><svg onload=alert(3)>{{7*7}}{% raw %}<a href=javascript:alert(4)>bell</a>"
)
MANY = 40
"""The maximum number of pages to visit."""
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


async def test_script_in_every_field_is_shown_as_text_on_every_page(
    app: FastAPI, api_services: Services, http: object, work: Work
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
