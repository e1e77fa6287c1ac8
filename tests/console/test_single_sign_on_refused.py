"""Sign-ins at a provider that are refused: each with a clear page, without a session and without internals."""

from __future__ import annotations

import time
from collections.abc import Callable

from fastapi import FastAPI
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response

from app.auth.jwks import MAX_DOCUMENT_BYTES
from app.auth.openid.code_flow import Attempt, Attempts, derive_key
from app.composition.services import Services
from tests.console.browser import ADDRESS, Browser, open_browser
from tests.console.single_sign_on import (
    BEGIN,
    CALLBACK,
    DENIED,
    EXPIRED,
    GENERAL,
    KEY,
    OTHER_KEY,
    UNREACHABLE,
    UNUSABLE,
    begin,
    come_back,
    expect_refusal,
    open_app,
    refuse,
    target_of,
)
from tests.fixtures.identity.openid import CLIENT_ID, OpenIdProvider, parameters_of


async def test_errors_of_the_provider_are_clear_pages(visitor: Browser, openid: OpenIdProvider) -> None:
    for error, text in {
        "access_denied": DENIED,
        "temporarily_unavailable": UNREACHABLE,
        "server_error": UNREACHABLE,
        "login_required": GENERAL,
        "<script>alert(1)</script>": GENERAL,
    }.items():
        openid.error = error
        await refuse(visitor, openid, text)
    assert "/token" not in openid.paths


async def test_only_the_browser_that_began_completes(visitor: Browser, openid: OpenIdProvider, sso: FastAPI) -> None:
    address = await openid.visit(await begin(visitor))
    sealed = visitor.http.cookies["kb_console_attempt"]
    stranger = open_browser(sso)
    # A victim of login CSRF has no attempt, or an own one.
    expect_refusal(await come_back(stranger, address), EXPIRED, openid)
    await begin(stranger)
    expect_refusal(await come_back(stranger, address), EXPIRED, openid)
    await stranger.http.aclose()
    for state in ("", "x", "é", None):
        visitor.http.cookies.set("kb_console_attempt", sealed, domain="console.test", path="/console/sign-in")
        given = {"code": parameters_of(address)["code"], "state": state}
        page = await visitor.get(CALLBACK, {k: v for k, v in given.items() if v is not None})
        expect_refusal(page, EXPIRED, openid)
    assert "/token" not in openid.paths


async def test_a_code_is_exchanged_once(visitor: Browser, openid: OpenIdProvider) -> None:
    address = await openid.visit(await begin(visitor))
    sealed = visitor.http.cookies["kb_console_attempt"]
    assert (await come_back(visitor, address)).status == 200
    await visitor.post("/console/sign-out")
    expect_refusal(await come_back(visitor, address), EXPIRED, openid)
    visitor.http.cookies.set("kb_console_attempt", sealed, domain="console.test", path="/console/sign-in")
    expect_refusal(await come_back(visitor, address), EXPIRED, openid)
    assert openid.paths.count("/token") == 2, "the provider refused it"


async def test_a_sign_in_ends_after_ten_minutes_and_its_cookie_cannot_be_forged(
    visitor: Browser, openid: OpenIdProvider
) -> None:
    def seal(key: str, age: float, issuer: str = openid.url, purpose: str = "attempt") -> str:
        derived = derive_key(key.encode(), purpose, issuer, CLIENT_ID)
        attempts = Attempts([derived], clock=lambda: time.time() - age)
        return attempts.seal(Attempt("state-1", "nonce-1", "v" * 48, "/console"))

    good = seal(KEY, 590)
    for cookie, text in {
        seal(KEY, 602): EXPIRED,
        seal(OTHER_KEY, 0): EXPIRED,
        seal(KEY, 0, issuer="https://other.example"): EXPIRED,
        seal(KEY, 0, purpose="session"): EXPIRED,
        good[:-4] + "AAA=": EXPIRED,
        "x": EXPIRED,
        good: DENIED,
    }.items():
        visitor.http.cookies.set("kb_console_attempt", cookie, domain="console.test", path="/console/sign-in")
        page = await visitor.get(CALLBACK, {"state": "state-1", "error": "access_denied"})
        expect_refusal(page, text, openid)


async def test_an_answer_with_repeated_or_missing_parameters_is_refused(
    visitor: Browser, openid: OpenIdProvider
) -> None:
    for change, text in (
        ("&state=other", EXPIRED),
        ("&code=other", EXPIRED),
        ("&iss=https%3A%2F%2Fother.example", UNUSABLE),
        (f"&iss={openid.url}/", UNUSABLE),
        ("&" + "&".join(f"p{n}=1" for n in range(20)), EXPIRED),
    ):
        address = await openid.visit(await begin(visitor))
        expect_refusal(await come_back(visitor, address + change), text, openid)
    for code in ("", "x" * 5_000):
        state = parameters_of(await begin(visitor))["state"]
        expect_refusal(await visitor.get(CALLBACK, {"state": state, "code": code}), GENERAL, openid)
    assert "/token" not in openid.paths


async def test_a_provider_that_names_itself_in_answers_must_do_so(visitor: Browser, openid: OpenIdProvider) -> None:
    openid.document = {"authorization_response_iss_parameter_supported": True}
    await refuse(visitor, openid, UNUSABLE)
    address = await openid.visit(await begin(visitor))
    assert (await come_back(visitor, f"{address}&iss={openid.url}")).status == 200


async def test_a_token_endpoint_that_fails_is_a_clear_page(visitor: Browser, openid: OpenIdProvider) -> None:
    answers: list[tuple[Callable[[], Response], str]] = [
        (lambda: PlainTextResponse("internal", 500), UNREACHABLE),
        (lambda: PlainTextResponse("internal"), UNREACHABLE),
        (lambda: JSONResponse([]), UNREACHABLE),
        (lambda: RedirectResponse(f"{openid.url}/keys", 307), UNREACHABLE),
        (lambda: JSONResponse({"id_token": "a" * MAX_DOCUMENT_BYTES}), UNREACHABLE),
        (lambda: Response(b"x", headers={"content-encoding": "gzip"}), UNREACHABLE),
        (lambda: JSONResponse({"access_token": "a"}), UNUSABLE),
        (lambda: JSONResponse({"id_token": 7}), UNUSABLE),
        (lambda: JSONResponse({"error": "invalid_client"}, 401), GENERAL),
        (lambda: JSONResponse({"error": {"internal": 1}}, 400), GENERAL),
        (lambda: JSONResponse({"error": "invalid_grant"}, 400), EXPIRED),
    ]
    for make, text in answers:
        openid.answer = make()
        await refuse(visitor, openid, text)
    assert "/keys" not in openid.paths


async def test_an_unreachable_provider_is_a_clear_page(api_services: Services, openid: OpenIdProvider) -> None:
    gone = OpenIdProvider(ADDRESS)
    async with gone.serving():
        pass
    async with open_app(api_services, gone.url) as app:
        browser = open_browser(app)
        page = await browser.get(BEGIN, {"next": "/console/entries"})
        expect_refusal(page, UNREACHABLE, openid)
        assert page.one("#provider").get("href").endswith("next=%2Fconsole%2Fentries")
        await browser.http.aclose()


async def test_no_address_outside_the_console_is_reached(visitor: Browser, openid: OpenIdProvider) -> None:
    for page in (
        "https://elsewhere.test/console", "//elsewhere.test", "/knowledge/entries", "javascript:alert(1)", "",
        "/console/../docs", "/console\\..\\docs", "/console//elsewhere.test", "\t/console", "http://[",
    ):  # fmt: skip
        answer = (await visitor.get(BEGIN, {"next": page})).answer
        back = await come_back(visitor, await openid.visit(answer.headers["location"]))
        assert target_of(back) == "/console"


async def test_previews_of_links_have_no_effect(visitor: Browser, openid: OpenIdProvider) -> None:
    address = await openid.visit(await begin(visitor))
    callback = address.removeprefix(ADDRESS)
    for path in (BEGIN, callback):
        answer = await visitor.http.head(path)
        assert answer.status_code == 200
        assert "set-cookie" not in answer.headers
    assert (await come_back(visitor, address)).status == 200
