"""Sign-ins at a provider that are refused: each with a clear page, without a session and without internals."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from fastapi import FastAPI
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response

from app.auth.download import MAX_DOCUMENT_BYTES
from app.auth.openid.attempts import Attempt, Attempts, derive_key
from app.composition.services import Services
from app.console.session import COOKIE
from tests.console.browser import ADDRESS, Browser, Page, open_browser
from tests.console.single_sign_on import (
    BEGIN,
    CALLBACK,
    KEY,
    OTHER_KEY,
    begin,
    come_back,
    open_app,
    sign_in,
    target_of,
)
from tests.fixtures.http.callers import Caller
from tests.fixtures.identity.forgery import forge
from tests.fixtures.identity.openid import CLIENT_ID, CLIENT_SECRET, OpenIdProvider, parameters_of

GENERAL = "Example ID could not sign you in. Try again, or ask your administrator."
UNREACHABLE = "Example ID does not answer at the moment. Try again in a minute."
EXPIRED = "This sign-in has expired, or was not started in this browser. Start again."
DENIED = "Example ID refused the sign-in."
MISSING = "Your account has no access to this service. Ask your administrator for a tenant and a role."
UNUSABLE = "The answer of Example ID could not be verified. Try again, or ask your administrator."


def expect_refusal(page: Page, text: str, openid: OpenIdProvider) -> None:
    """A sign-in page with this text alone, and no session."""
    assert page.texts("[role=alert]") == [text]
    assert page.status == (503 if text == UNREACHABLE else 401)
    kept = [line for line in page.answer.headers.get_list("set-cookie") if "max-age=0" not in line.lower()]
    assert not kept
    for internal in (openid.url, "internal", "Error", "Traceback", "httpx"):
        assert internal not in page.answer.text
    assert page.all("#provider"), "the person can try again"
    assert page.all("#token")


async def refuse(visitor: Browser, openid: OpenIdProvider, text: str) -> None:
    """Sign in, which must fail with this text."""
    expect_refusal(await sign_in(visitor, openid), text, openid)
    assert COOKIE not in visitor.http.cookies


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


async def test_only_the_browser_that_began_completes(
    visitor: Browser, openid: OpenIdProvider, sso: FastAPI
) -> None:
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


async def test_a_provider_that_names_itself_in_answers_must_do_so(
    visitor: Browser, openid: OpenIdProvider
) -> None:
    openid.document = {"authorization_response_iss_parameter_supported": True}
    await refuse(visitor, openid, UNUSABLE)
    address = await openid.visit(await begin(visitor))
    assert (await come_back(visitor, f"{address}&iss={openid.url}")).status == 200


NOW = int(time.time())
BAD_CLAIMS: tuple[dict[str, Any], ...] = (
    {"iss": "https://other.example"},
    {"iss": ...},
    {"aud": "another-client"},
    {"aud": [CLIENT_ID, "another-client"]},
    {"aud": [CLIENT_ID, "another-client"], "azp": "another-client"},
    {"aud": ...},
    {"azp": "another-client"},
    {"exp": NOW - 120},
    {"exp": ...},
    {"exp": "tomorrow"},
    {"iat": ...},
    {"iat": NOW + 3600},
    {"nbf": NOW + 3600},
    {"nonce": "another"},
    {"nonce": ...},
    {"nonce": ["x"]},
    {"at_hash": "AAAAAAAAAAAAAAAAAAAAAA"},
    {"at_hash": 7},
    {"sub": ...},
    {"sub": 7},
)


async def test_every_claim_of_the_id_token_is_checked(visitor: Browser, openid: OpenIdProvider) -> None:
    usual = dict(openid.claims)
    for changes in BAD_CLAIMS:
        openid.claims = usual | changes
        await refuse(visitor, openid, UNUSABLE)
    # The clocks of two machines differ by a few seconds.
    for changes in ({"exp": NOW + 3600, "iat": NOW + 20}, {"aud": [CLIENT_ID, "other"], "azp": CLIENT_ID}):
        openid.claims = usual | changes
        assert (await sign_in(visitor, openid)).status == 200


async def test_the_signature_of_the_id_token_is_checked(visitor: Browser, openid: OpenIdProvider) -> None:
    own = OpenIdProvider(ADDRESS)
    own.url, own.claims = openid.url, openid.claims

    def forgeries(nonce: str) -> list[str]:
        right = openid.make_id_token(nonce)
        claims = {"iss": openid.url, "sub": "rita", "aud": CLIENT_ID, "nonce": nonce, **openid.claims}
        claims |= {"iat": int(time.time()), "exp": int(time.time()) + 60}
        return [
            own.make_id_token(nonce),
            forge(claims, {"alg": "HS256", "typ": "JWT", "kid": "one"}, key=CLIENT_SECRET.encode()),
            forge(claims, {"alg": "none", "typ": "JWT"}),
            right.rpartition(".")[0] + ".",
            right[:-8] + "AAAAAAAA",
            "x",
            "",
            "a" * 9_000,
        ]

    for number in range(8):
        address = await begin(visitor)
        id_token = forgeries(parameters_of(address)["nonce"])[number]
        openid.answer = JSONResponse({"access_token": "a", "token_type": "Bearer", "id_token": id_token})
        expect_refusal(await come_back(visitor, await openid.visit(address)), UNUSABLE, openid)
    address = await begin(visitor)
    id_token = openid.make_id_token(parameters_of(address)["nonce"])
    openid.answer = JSONResponse({"access_token": "a", "token_type": "Bearer", "id_token": id_token})
    assert (await come_back(visitor, await openid.visit(address))).status == 200, (
        "the forgeries differ in one"
    )


async def test_an_account_without_tenant_or_role_has_no_access(
    visitor: Browser, openid: OpenIdProvider, platform: Caller, admin: Caller
) -> None:
    tenant = openid.claims["tenant_id"]
    for claims in (
        {},
        {"roles": ["reader"]},
        {"tenant_id": tenant},
        {"tenant_id": tenant, "roles": []},
        {"tenant_id": tenant, "roles": ["owner"]},
        {"tenant_id": tenant, "roles": "reader"},
        {"tenant_id": "acme", "roles": ["reader"]},
        {"tenant_id": [tenant], "roles": ["reader"]},
        {"tenant_id": str(uuid4()), "roles": ["reader"]},
    ):
        openid.claims = claims
        await refuse(visitor, openid, MISSING)
    openid.claims = {"tenant_id": tenant, "roles": ["reader"]}
    assert (await sign_in(visitor, openid)).status == 200
    assert (await platform.delete(f"/admin/tenants/{admin.tenant_id}")).status_code == 204
    assert (await visitor.get("/console")).status == 303


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


async def test_an_unreachable_provider_is_a_clear_page(
    api_services: Services, openid: OpenIdProvider
) -> None:
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


async def test_a_session_of_another_key_or_issuer_is_refused(
    visitor: Browser, openid: OpenIdProvider, api_services: Services
) -> None:
    await sign_in(visitor, openid)
    header, claims, signature = visitor.http.cookies[COOKIE].split(".")
    assert json.dumps("rita") not in claims
    for changed in (f"{header}.{claims}.{signature[:-4]}AAAA", f"{header}.{claims}."):
        visitor.http.cookies.set(COOKIE, changed, domain="console.test", path="/console")
        assert (await visitor.get("/console")).status == 303
    session = f"{header}.{claims}.{signature}"
    for options in ({"keys": OTHER_KEY}, {"client_id": "other"}, {"issuer": "https://other.example"}):
        issuer = options.pop("issuer", openid.url)
        async with open_app(api_services, issuer, **options) as app:
            browser = open_browser(app, session)
            assert (await browser.get("/console")).status == 303
            await browser.http.aclose()
