"""Signing in."""

import hashlib
import logging
import re
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from fastapi import FastAPI

from app.auth.issuing import SignInLink
from app.auth.principal import Role
from app.cli.demo import welcome
from app.composition.services import Services
from app.console.rendering import FOLDER
from app.console.session import COOKIE, local_page
from app.console.start import QUESTIONS
from app.contract.administration import Tenant
from app.settings import load_settings
from tests.api.deletion import delete_elsewhere
from tests.console.browser import ADDRESS, OWN, Browser, all_fields, open_browser, read_page
from tests.console.conftest import SignIn
from tests.console.contents import upload
from tests.fixtures.database.cluster import TestDatabase
from tests.fixtures.http.application import Work
from tests.fixtures.http.callers import SECRET, Caller, make_token
from tests.fixtures.identity.forgery import forge


async def test_a_page_redirects_to_the_sign_in_and_back(signed_out: Browser, admin: Caller) -> None:
    wanted = "/console?query=who+knows&tags=a%2C+b"
    answer = (await signed_out.get(wanted)).answer
    assert answer.status_code == 303
    page = await signed_out.get(answer.headers["location"])
    assert page.status == 200
    hidden = page.one("input[name=next]").get("value")
    assert hidden == wanted
    sent = await signed_out.post("/console/sign-in", {"token": f"  Bearer {admin.token}\n", "next": hidden})
    assert (sent.status, sent.answer.headers["location"]) == (303, wanted)
    assert (await signed_out.get(wanted)).status == 200


async def test_the_cookie_is_hidden_from_scripts_and_other_sites(signed_out: Browser, admin: Caller) -> None:
    form = {"token": admin.token}
    answer = (await signed_out.post("/console/sign-in", form)).answer
    flags = answer.headers["set-cookie"].lower()
    assert f"{COOKIE}={admin.token}".lower() in flags
    for flag in ("httponly", "samesite=strict", "path=/console"):
        assert flag in flags
    assert "secure" not in flags
    # A cookie without an expiry is deleted when the browser closes.
    assert "max-age" not in flags
    assert "expires" not in flags
    origin = {"Origin": "https://console.test"}
    secure = await signed_out.http.post("https://console.test/console/sign-in", data=form, headers=origin)
    assert "secure" in secure.headers["set-cookie"].lower()
    # Behind a proxy that terminates TLS, the browser's page still uses https.
    behind = await signed_out.http.post("/console/sign-in", data=form, headers=origin)
    assert "secure" in behind.headers["set-cookie"].lower()


async def test_the_cookie_is_not_a_token_of_the_api(browser: Browser) -> None:
    assert (await browser.http.get("/knowledge/entries")).status_code == 401
    client = browser.http
    client.cookies.set(COOKIE, client.cookies[COOKIE], domain="console.test", path="/")
    assert (await client.get("/knowledge/entries")).status_code == 401


async def test_a_link_of_another_site_is_followed_once_more(browser: Browser, signed_out: Browser) -> None:
    elsewhere = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    page = await signed_out.get("/console", {"query": "a&b"}, headers=elsewhere)
    assert (page.status, page.one("meta[http-equiv]").get("content")) == (200, "0; url=/console?query=a%26b")
    # What this page requests is of the same site: with the cookie a page, without it the form for the token.
    own = {**elsewhere, "Sec-Fetch-Site": "same-origin"}
    assert (await browser.get("/console", {"query": "a&b"}, headers=own)).status == 200
    again = await signed_out.get("/console", {"query": "a&b"}, headers=own)
    assert again.answer.headers["location"] == "/console/sign-in?next=%2Fconsole%3Fquery%3Da%2526b"
    # Only a page that a person opens, not one inside another, and never what a form of another site sends.
    for mode in ("no-cors", "cors"):
        refused = await signed_out.get("/console", headers={**elsewhere, "Sec-Fetch-Mode": mode})
        assert refused.status == 303, mode
    assert (await browser.http.post("/console", headers=elsewhere)).status_code == 403


@pytest.mark.parametrize("token", ["", "x", "a.b.c"])
async def test_a_malformed_token_is_refused_at_its_field(signed_out: Browser, token: str) -> None:
    page = await signed_out.post("/console/sign-in", {"token": token})
    assert page.status in (401, 422)
    assert "set-cookie" not in page.answer.headers
    assert page.all("[role=alert]")


@pytest.mark.parametrize(
    ("token", "told"),
    [("hunter2", "7 characters and no dots"), ("eyJa.b", "6 characters and 1 dot."), ("kb_x", None), ("eyJ.b.c", None)],
)
async def test_a_refusal_shows_what_a_good_token_looks_like(signed_out: Browser, token: str, told: str | None) -> None:
    words = (await signed_out.post("/console/sign-in", {"token": token})).one("#refusal").text_content()
    assert ("begins with eyJ" in words and told in words) if told else "begins with" not in words


async def test_a_token_without_a_role_is_refused(signed_out: Browser, admin: Caller) -> None:
    claims = {"sub": "ada", "tenant_id": str(admin.tenant_id), "roles": [], "exp": time.time() + 60}
    page = await signed_out.post("/console/sign-in", {"token": forge(claims, key=SECRET.encode())})
    assert page.status == 401
    assert "set-cookie" not in page.answer.headers
    assert not page.all("nav, .who"), "signed out"


async def test_a_token_too_long_for_a_cookie_is_refused(signed_out: Browser, admin: Caller) -> None:
    claims = {
        "sub": "ada", "tenant_id": str(admin.tenant_id), "roles": ["reader"], "exp": time.time() + 60,
        "groups": "x" * 4_000,
    }  # fmt: skip
    page = await signed_out.post("/console/sign-in", {"token": forge(claims, key=SECRET.encode())})
    assert (page.status, page.one("#refusal").text_content().strip()) == (
        401,
        "The token is longer than the 3,900 characters that a browser keeps.",
    )
    assert "set-cookie" not in page.answer.headers


async def test_input_sent_after_the_token_expired_is_kept(signed_out: Browser, admin: Caller) -> None:
    written = {"content": "Line one\nline <two>", "tags": "sea", "roles": ["dev", "qa"]}
    page = await signed_out.post("/console/entries", written)
    assert page.status == 401
    assert "Nothing was saved" in page.text
    form = page.one("main form")
    assert form.get("action") == "/console/entries"
    again = all_fields(form)
    assert (again["content"], again["roles"]) == ([written["content"]], written["roles"])
    await signed_out.post("/console/sign-in", {"token": admin.token})
    stored = await signed_out.post("/console/entries", again)
    entry = await signed_out.get(stored.answer.headers["location"])
    assert entry.one("pre.text").text_content() == written["content"]
    await signed_out.post("/console/sign-out")
    part = await signed_out.post("/console/assets", headers={"HX-Request": "true"})
    assert (part.status, part.answer.headers["hx-retarget"]) == (401, "#problem")
    assert "this had no effect" in part.text
    upload = await signed_out.post("/console/assets", files={"file": ("a.txt", b"a")})
    assert "choose the file again" in upload.text


@pytest.mark.parametrize(
    ("method", "path", "status", "headers"),
    [
        ("GET", "/console/nothing", 404, {}),
        ("GET", "/console/", 404, {}),
        ("PUT", "/console/entries", 405, {}),
        ("POST", "/console/assets", 400, {"Content-Type": "multipart/form-data; boundary=x"}),
        ("POST", "/console/saved-searches", 413, {"Content-Length": str(3 << 20)}),
    ],
)
async def test_a_refusal_outside_the_pages_is_a_page(
    browser: Browser, method: str, path: str, status: int, headers: dict[str, str]
) -> None:
    for part in ({}, {"HX-Request": "true"}):
        sent = {**OWN, "Content-Type": "application/x-www-form-urlencoded", **headers, **part}
        page = read_page(await browser.http.request(method, path, content=b"garbage", headers=sent))
        assert page.status == status
        assert page.all("[role=alert]")
        assert bool(page.all("main")) == (not part)
        assert ("allow" in page.answer.headers) == (status == 405)


async def test_the_root_of_the_service_redirects_a_browser_to_the_console(signed_out: Browser) -> None:
    page = await signed_out.get("/", headers={"Accept": "text/html,*/*"})
    assert (page.status, page.answer.headers["location"]) == (303, "/console")


async def test_an_invalid_address_is_not_a_failure(signed_out: Browser) -> None:
    assert (await signed_out.get("/console/sign-in", {"next": "http://["})).status == 200
    headers = {"HX-Request": "true", "HX-Current-URL": "http://[x"}
    led = (await signed_out.get("/console/entries", headers=headers)).answer.headers["hx-redirect"]
    assert led == "/console/sign-in?next=%2Fconsole"
    refused = await signed_out.http.post("/console/sign-out", headers={"Origin": "http://["})
    assert refused.status_code == 403


async def test_an_expired_token_redirects_to_the_sign_in(app: FastAPI, admin: Caller) -> None:
    claims = {"sub": "ada", "tenant_id": str(admin.tenant_id), "roles": ["reader"], "exp": time.time() - 3600}
    browser = open_browser(app, forge(claims, key=SECRET.encode()))
    answer = (await browser.get("/console", {"query": "word"})).answer
    assert answer.status_code == 303
    assert urlsplit(answer.headers["location"]).path == "/console/sign-in"
    await browser.http.aclose()


async def test_a_part_of_a_page_redirects_the_whole_page_to_the_sign_in(signed_out: Browser) -> None:
    headers = {"HX-Request": "true", "HX-Current-URL": f"{ADDRESS}/console?query=a"}
    answer = (await signed_out.get("/console", {"query": "b"}, headers=headers)).answer
    assert answer.status_code == 200
    assert parse_qs(urlsplit(answer.headers["hx-redirect"]).query) == {"next": ["/console?query=a"]}


async def test_signing_out_deletes_the_token(browser: Browser) -> None:
    assert (await browser.get("/console")).status == 200
    answer = (await browser.post("/console/sign-out")).answer
    assert answer.headers["location"] == "/console/sign-in"
    assert (await browser.get("/console")).status == 303


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "http://elsewhere.test"},
        {"Origin": "null"},
        {"Origin": ADDRESS, "Sec-Fetch-Site": "cross-site"},
        {"Origin": ADDRESS, "Sec-Fetch-Site": "same-site"},
        {"Origin": ADDRESS, "Sec-Fetch-Site": "none"},
        {"Origin": f"{ADDRESS}.elsewhere.test"},
    ],
)
async def test_a_form_of_another_site_is_refused(browser: Browser, headers: dict[str, str]) -> None:
    for path in ("/console/sign-out", "/console/sign-in", "/console/saved-searches"):
        answer = await browser.http.post(path, data={"token": "x"}, headers=headers)
        assert answer.status_code == 403, path
        assert "set-cookie" not in answer.headers
    assert (await browser.get("/console")).status == 200


async def test_a_form_of_the_console_needs_one_of_two_headers(browser: Browser) -> None:
    answer = await browser.http.post("/console/sign-out", headers={"Origin": OWN["Origin"]})
    assert answer.status_code == 303


async def test_a_platform_administrator_is_redirected_to_the_tenants_only(
    signed_out: Browser, platform: Caller, sign_in: SignIn
) -> None:
    answer = (await signed_out.post("/console/sign-in", {"token": platform.token})).answer
    assert answer.headers["location"] == "/console/platform"
    browser = sign_in(platform)
    page = await browser.get("/console", {"query": "word"})
    assert page.status == 403
    assert page.all("[role=alert]")
    assert (await browser.get("/console")).answer.headers["location"] == "/console/platform"


async def test_a_visitor_of_a_deleted_tenant_is_redirected_to_the_sign_in(
    browser: Browser, admin: Caller, platform: Caller
) -> None:
    assert (await platform.delete(f"/admin/tenants/{admin.tenant_id}")).status_code == 204
    assert (await browser.get("/console")).status == 303


async def test_a_form_of_a_tenant_that_another_process_deleted_is_kept(
    browser: Browser, api_tenant: Tenant, api_services: Services, api_database: TestDatabase
) -> None:
    form = all_fields((await browser.get("/console/entries/new")).one("main form"))
    recall = await delete_elsewhere(api_services, api_database.service_dsn, api_tenant.id)
    page = await browser.post("/console/entries", {**form, "content": "The lighthouse"})
    assert page.status == 401
    assert "The lighthouse" in page.answer.text
    recall()
    assert (await browser.get("/console/health")).status == 303


@pytest.mark.parametrize(
    "address",
    [
        "https://elsewhere.test/console", "//elsewhere.test/console", "/knowledge/entries", "/consoles", "console",
        "/console/../docs", "/console\\..\\docs", "javascript:alert(1)", "", "\\\\elsewhere.test",
        "/console/%2e%2e//elsewhere.test", "\t/console", "/con\tsole", "http://[", "/console//elsewhere.test",
    ],
)  # fmt: skip
def test_the_sign_in_redirects_only_into_the_console(address: str) -> None:
    assert local_page(address) == "/console"


def test_htmx_is_the_recorded_version() -> None:
    files = FOLDER / "static"
    (recorded,) = re.findall(r"sha256\s+`([0-9a-f]{64})`", (files / "README.md").read_text())
    assert hashlib.sha256(Path(files / "htmx.min.js").read_bytes()).hexdigest() == recorded


async def test_each_role_sees_its_own_navigation(sign_in: SignIn, admin: Caller, reader: Caller) -> None:
    assert "Administration" in (await sign_in(admin).get("/console")).texts("nav[aria-label=Main] a")
    page = await sign_in(reader).get("/console")
    assert "Administration" not in page.texts("nav[aria-label=Main] a")
    assert "rita" in page.one(".who").text_content()
    assert make_token(admin.tenant_id, Role.READER) not in page.answer.text


PATH = "/console/sign-in/once"


@pytest.fixture
def key(app: FastAPI, admin: Caller) -> Iterator[str]:
    """The key of a link to the admin's token."""
    link = SignInLink(admin.token)
    app.state.sign_in_link = link
    yield link.issue()
    del app.state.sign_in_link


async def test_the_link_signs_in_once(
    signed_out: Browser, app: FastAPI, admin: Caller, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "app")
    wrong = await signed_out.get(PATH, {"key": f"{key}x"})
    assert wrong.status == 401
    answer = (await signed_out.get(PATH, {"key": key})).answer
    assert (answer.status_code, answer.headers["location"]) == (303, "/console")
    flags = answer.headers["set-cookie"].lower()
    assert "httponly" in flags
    assert "samesite=strict" in flags
    assert (await signed_out.get("/console")).status == 200
    again = await signed_out.get(PATH, {"key": key})
    assert (again.status, again.answer.headers.get("location")) == (303, "/console"), "signed in already"
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url=ADDRESS) as other:
        used = read_page(await other.get(PATH, params={"key": key}))
        assert used.status == 401
        assert "has been used" in used.one("#refusal").text_content()
        assert COOKIE not in other.cookies
    logged = " ".join(str(vars(record)) for record in caplog.records)
    assert key not in logged
    assert admin.token not in logged


async def test_head_neither_uses_the_link_nor_tells_whether_it_is_valid(app: FastAPI, key: str) -> None:
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url=ADDRESS) as browser:
        asked = [await browser.head(PATH, params={"key": sent}) for sent in (key, key, f"{key}x")]
        for answer in asked:
            assert (answer.status_code, answer.content) == (200, b"")
            assert "set-cookie" not in answer.headers
        assert len({answer.headers["content-length"] for answer in asked}) == 1
        signed_in = await browser.get(PATH, params={"key": key})
        assert (signed_in.status_code, signed_in.headers["location"]) == (303, "/console")
        assert "set-cookie" in signed_in.headers
        told = await browser.head(PATH, params={"key": key})
        assert "set-cookie" not in told.headers


async def test_the_link_is_refused_from_another_machine(app: FastAPI, key: str) -> None:
    transport = httpx.ASGITransport(app=app, client=("10.0.0.7", 4711))
    async with httpx.AsyncClient(transport=transport, base_url=ADDRESS) as other:
        assert (await other.get(PATH, params={"key": key})).status_code == 401


async def test_a_service_without_a_link_refuses_every_key(signed_out: Browser) -> None:
    for key in ("", "x"):
        assert (await signed_out.get(PATH, {"key": key})).status == 401


def test_only_a_service_for_this_machine_prints_a_link(api_tenant: Tenant) -> None:
    given = {"JWT_SECRET": SECRET, "DATABASE_URL": "postgresql://localhost/x"}
    near = load_settings(given)
    hints = welcome(near, api_tenant, "http://127.0.0.1:8000")
    assert hints.link is not None
    (line,) = [line for line in hints.text.splitlines() if PATH in line]
    assert hints.link.redeem(urlsplit(line).query.removeprefix("key=")) is not None
    far = load_settings(given | {"KB_HOST": "0.0.0.0"})  # noqa: S104
    for hints in (
        welcome(far, api_tenant, "http://127.0.0.1:8000"),
        welcome(near, api_tenant, "http://127.0.0.1:8000", alone=False),
    ):
        assert hints.link is None
        assert PATH not in hints.text


GUIDE = "# Guide\n\n## How do boats moor?\n\n" + "With ropes that the crew throws. " * 60


async def test_the_first_page_shows_what_is_new_and_what_to_ask(browser: Browser, admin: Caller, work: Work) -> None:
    await admin.add("The bell rings at noon", title="When the bell rings")
    await admin.add("Nothing to ask", title="Bells")
    await admin.add("It ended", title="An entry that is over", expires_at="2020-01-01T00:00:00Z")
    await upload(browser, "guide.md", GUIDE.encode())
    await work()
    page = await browser.get("/console")
    assert page.status == 200
    assert page.texts(".start .tag") == ["How do boats moor?", "When the bell rings"]
    titles = page.texts("#news-heading + ul a")
    assert set(titles) == {"Guide", "Bells", "When the bell rings"}
    for link in page.all(".start a"):
        assert (await browser.get(link.get("href"))).status == 200
    question = await browser.get(page.all(".start .tag")[0].get("href"))
    assert question.one("#hit-1 h3 a").text_content() == "How do boats moor?"


async def test_questions_are_few_and_come_from_several_documents(browser: Browser, work: Work) -> None:
    for name in ("boats", "lamps"):
        text = "".join(f"## The {name} of berth {n}\n\n" + f"There are {n} {name}. " * 60 + "\n\n" for n in range(9))
        await upload(browser, f"{name}.md", text.encode())
    await work()
    found = (await browser.get("/console")).texts(".start .tag")
    assert len(found) == len(set(found)) == QUESTIONS
    assert sum("boats" in question for question in found) == QUESTIONS / 2


async def test_a_long_document_leaves_room_for_questions_of_others(browser: Browser, admin: Caller, work: Work) -> None:
    await admin.add("The bell rings at noon", title="When the bell rings")
    await upload(browser, "boats.md", b"# Boats\n\n## 4.2 Where boats moor\n\nAt the quay.")
    await work()
    text = "".join(f"## {n}. Lamp of berth {n}\n\n" + f"Lamp {n} is red. " * 60 + "\n\n" for n in range(40))
    await upload(browser, "lamps.md", text.encode())
    await work()
    found = (await browser.get("/console")).texts(".start .tag")
    assert {"When the bell rings", "Where boats moor"} < set(found)
    assert "Lamp of berth 39" in found, "without the number of its section"


async def test_a_title_that_begins_with_a_number_keeps_it(browser: Browser, admin: Caller) -> None:
    await admin.add("Of twelve hours each", title="3 shifts at the lock")
    await admin.add("It is new", title="2.0 is the new tide table")
    found = (await browser.get("/console")).texts(".start .tag")
    assert set(found) == {"3 shifts at the lock", "2.0 is the new tide table"}


async def test_questions_are_in_the_language_of_the_browser(browser: Browser, admin: Caller) -> None:
    german = [f"Wie wird das Boot am Steg {n} vertäut?" for n in range(4)]
    english = [f"How is the boat moored at berth {n}?" for n in range(5)]
    for title in (*german, *english):
        language = "german" if title in german else "english"
        await admin.add(f"{title} An answer.", title=title, language=language)
    for accepted, found in {"de-AT,de;q=0.9,en;q=0.8": german, "en": english, "ja": english, "": english}.items():
        browser.http.headers["accept-language"] = accepted
        assert set((await browser.get("/console")).texts(".start .tag")) == set(found), accepted


async def test_indexes_and_the_like_are_not_questions(browser: Browser, work: Work) -> None:
    headings = (
        *("Concept Index", "B.5 Function Index", "Appendix D Indexes", "Index of Shell Builtin Commands"),
        *("Table of Contents", "List of Figures", "GNU Free Documentation License", "Copying This Manual"),
        *("See Also", "About this manual", "How the index is built", "List of boats at berth 7, by name"),
    )
    text = "".join(f"## {heading}\n\n" + f"It tells of {n}. " * 80 + "\n\n" for n, heading in enumerate(headings))
    await upload(browser, "manual.md", text.encode())
    await work()
    found = (await browser.get("/console")).texts(".start .tag")
    assert set(found) == {"How the index is built", "List of boats at berth 7, by name"}


async def test_saved_searches_are_the_visitors_own(
    browser: Browser, sign_in: SignIn, admin: Caller, reader: Caller
) -> None:
    await admin.add("The bell")
    saved = {"name": "Bells at sea", "request": {"query": "bell"}}
    assert (await admin.post("/knowledge/saved-searches", saved)).status_code == 201
    assert (await browser.get("/console")).texts("#saved-heading + ul a") == ["Bells at sea"]
    assert not (await sign_in(reader).get("/console")).all("#saved-heading")


async def test_only_writers_are_told_where_to_add(browser: Browser, sign_in: SignIn, reader: Caller) -> None:
    page = await browser.get("/console")
    assert page.texts("#adding-heading") == ["There is nothing to find yet"]
    assert {a.get("href") for a in page.all(".start a")} == {"/console/assets", "/console/entries/new"}
    assert not (await sign_in(reader).get("/console")).all(".start a")


async def test_another_tenants_knowledge_is_not_shown(browser: Browser, stranger: Caller) -> None:
    await stranger.add("Foreign", title="A canary in the mine")
    assert "canary" not in (await browser.get("/console")).text
