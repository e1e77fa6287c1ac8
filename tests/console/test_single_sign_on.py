"""Single sign-on."""

import base64
import json
import logging
import time
from collections.abc import Callable
from http.cookies import SimpleCookie
from typing import Any
from uuid import uuid4

import httpx
import pytest
from fastapi import FastAPI
from pydantic import SecretStr
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response

from app.auth.jwks import MAX_DOCUMENT_BYTES
from app.auth.sign_in import Attempt, Attempts, derive_key
from app.composition.services import Services
from app.console.session import COOKIE
from app.contract.administration import Tenant
from tests.console.browser import ADDRESS, OWN, Browser, open_browser
from tests.console.single_sign_on import (
    BEGIN,
    CALLBACK,
    DENIED,
    EXPIRED,
    GENERAL,
    KEY,
    MISSING,
    OTHER_KEY,
    TOO_MANY,
    UNREACHABLE,
    UNUSABLE,
    begin,
    come_back,
    expect_refusal,
    open_app,
    refuse,
    sign_in,
    target_of,
)
from tests.fixtures.http.callers import Caller
from tests.fixtures.identity.forgery import forge
from tests.fixtures.identity.openid import CLIENT_ID, CLIENT_SECRET, OpenIdProvider, parameters_of


async def test_a_person_signs_in_and_sees_the_page_that_was_asked_for(visitor: Browser, openid: OpenIdProvider) -> None:
    wanted = "/console?query=who+knows&tags=a%2C+b"
    page = await sign_in(visitor, openid, wanted)
    assert (page.status, target_of(page)) == (200, wanted)
    assert not page.all(".who"), "the next page is the first with a visitor"
    seen = await visitor.get(wanted)
    assert seen.status == 200
    assert "rita" in seen.one(".who").text_content()
    assert "Health" not in seen.texts("nav[aria-label=Main] a"), "a reader"


async def test_the_request_follows_the_standard(visitor: Browser, openid: OpenIdProvider) -> None:
    given = parameters_of(await begin(visitor))
    again = parameters_of(await begin(visitor))
    assert given["response_type"] == "code"
    assert given["client_id"] == CLIENT_ID
    assert given["scope"] == "openid"
    assert given["redirect_uri"] == f"{ADDRESS}/console/sign-in/callback"
    assert given["code_challenge_method"] == "S256"
    for name in ("state", "nonce", "code_challenge"):
        assert len(given[name]) >= 43
        assert given[name] != again[name]


async def test_the_sign_in_page_offers_the_provider_first(visitor: Browser, openid: OpenIdProvider) -> None:
    page = await visitor.get("/console/sign-in", {"next": "/console/entries"})
    assert page.texts("main a.button, main label") == ["Sign in with Example ID", "Token"]
    assert page.one("#provider").get("href") == f"{ADDRESS}{BEGIN}?next=%2Fconsole%2Fentries"
    assert openid.paths == [], "nothing is fetched before a person signs in"


async def test_the_cookies_are_hidden_from_scripts_and_other_sites(visitor: Browser, openid: OpenIdProvider) -> None:
    begun = await visitor.get(BEGIN)
    attempt = SimpleCookie(begun.answer.headers["set-cookie"])["kb_console_attempt"]
    assert (attempt["samesite"], attempt["httponly"], attempt["path"]) == ("lax", True, "/console/sign-in")
    assert int(attempt["max-age"]) == 600
    for value in parameters_of(begun.answer.headers["location"]).values():
        assert value not in attempt.value, "sealed"
    page = await come_back(visitor, await openid.visit(begun.answer.headers["location"]))
    cookies = SimpleCookie()
    for line in page.answer.headers.get_list("set-cookie"):
        cookies.load(line)
    assert cookies["kb_console_attempt"]["max-age"] == "0"
    for name, path in ((COOKIE, "/console"), ("kb_console_hint", "/console/sign-out")):
        kept = cookies[name]
        assert (kept["samesite"], kept["httponly"], kept["path"]) == ("strict", True, path)
        assert (kept["max-age"], kept["expires"]) == ("", "")


async def test_behind_https_every_cookie_is_secure(api_services: Services, openid: OpenIdProvider) -> None:
    home = "https://kb.example.com"
    openid.redirect_uris = {f"{home}/console/sign-in/callback"}
    async with open_app(api_services, openid.url, public_url=home) as app:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url=home) as http:
            begun = await http.get(BEGIN)
            back = await http.get(await openid.visit(begun.headers["location"]))
        lines = begun.headers.get_list("set-cookie") + back.headers.get_list("set-cookie")
        assert len(lines) == 4
        assert all("secure" in line.lower() for line in lines if "max-age=0" not in line.lower())


async def test_a_session_is_not_a_token_of_the_api(visitor: Browser, openid: OpenIdProvider, sso: FastAPI) -> None:
    await sign_in(visitor, openid)
    token = visitor.http.cookies[COOKIE]
    for path in ("/knowledge/entries", "/mcp"):
        answer = await visitor.http.get(path, headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code == 401
    other = open_browser(sso)
    assert (await other.post("/console/sign-in", {"token": token})).status == 401
    await other.http.aclose()


async def test_a_token_still_signs_in(visitor: Browser, admin: Caller) -> None:
    page = await visitor.post("/console/sign-in", {"token": admin.token})
    assert page.status == 303
    assert (await visitor.get("/console")).status == 200
    signed_out = await visitor.post("/console/sign-out")
    assert (signed_out.status, signed_out.answer.headers["location"]) == (303, "/console/sign-in")


async def test_a_revoked_session_ends(visitor: Browser, openid: OpenIdProvider, admin: Caller) -> None:
    await sign_in(visitor, openid)
    claims = visitor.http.cookies[COOKIE].split(".")[1]
    session = json.loads(base64.urlsafe_b64decode(f"{claims}=="))
    assert abs(session["exp"] - time.time() - 8 * 3600) < 60
    body = {"token_id": session["jti"], "expires_at": session["exp"]}
    assert (await admin.post("/admin/revoked-tokens", json=body)).status_code in (200, 201, 204)
    assert (await visitor.get("/console")).status == 303


async def test_a_platform_administrator_sees_the_tenants(visitor: Browser, openid: OpenIdProvider) -> None:
    openid.claims = {"roles": ["platform_admin"]}
    assert target_of(await sign_in(visitor, openid, "/console/entries")) == "/console/platform"
    assert (await visitor.get("/console/platform")).status == 200


async def test_claims_may_have_other_names_and_be_nested(
    api_services: Services, openid: OpenIdProvider, api_tenant: Tenant
) -> None:
    names = {"tenant_claim": "https://example.com/tenant", "roles_claim": "resource_access.kb.roles"}
    openid.claims = {
        "https://example.com/tenant": str(api_tenant.id),
        "resource_access": {"kb": {"roles": ["tenant_admin"]}},
    }
    async with open_app(api_services, openid.url, **names) as app:
        browser = open_browser(app)
        await sign_in(browser, openid)
        assert (await browser.get("/console/health")).status == 200
        await browser.http.aclose()


@pytest.mark.slow
async def test_another_process_completes_the_sign_in(
    api_services: Services, openid: OpenIdProvider, visitor: Browser
) -> None:
    address = await openid.visit(await begin(visitor, "/console/entries"))
    # The second process already uses a new key, and still knows the old one.
    async with open_app(api_services, openid.url, keys=f"{OTHER_KEY},{KEY}") as second:
        other = open_browser(second)
        other.http.cookies = visitor.http.cookies
        assert target_of(await come_back(other, address)) == "/console/entries"
        assert (await other.get("/console/entries")).status == 200
        await other.http.aclose()
    async with open_app(api_services, openid.url, keys=OTHER_KEY) as foreign:
        stranger = open_browser(foreign)
        stranger.http.cookies = other.http.cookies
        assert (await stranger.get("/console/entries")).status == 200, "the new key signed the session"
        await stranger.http.aclose()


@pytest.mark.slow
@pytest.mark.parametrize("ways", [["client_secret_post"], ["client_secret_basic"], ...])
async def test_the_client_identifies_itself_as_the_provider_supports(
    visitor: Browser, openid: OpenIdProvider, ways: object
) -> None:
    openid.document = {"token_endpoint_auth_methods_supported": ways}
    assert (await sign_in(visitor, openid)).status == 200


async def test_new_keys_of_the_provider_are_used(
    visitor: Browser, openid: OpenIdProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.auth.jwks.RETRY_SECONDS", 0.0)
    assert (await sign_in(visitor, openid)).status == 200
    openid.rotate("two")
    assert (await sign_in(visitor, openid)).status == 200
    assert openid.paths.count("/keys") == 2
    assert openid.paths.count("/.well-known/openid-configuration") == 1


async def test_signing_out_ends_the_session_at_the_provider_too(visitor: Browser, openid: OpenIdProvider) -> None:
    await sign_in(visitor, openid)
    page = await visitor.post("/console/sign-out")
    address = target_of(page)
    assert address.startswith(f"{openid.url}/logout?")
    given = parameters_of(address)
    assert given["client_id"] == CLIENT_ID
    assert given["post_logout_redirect_uri"] == f"{ADDRESS}/console/sign-in"
    assert given["id_token_hint"].count(".") == 2
    assert not visitor.http.cookies
    assert (await visitor.get("/console")).status == 303
    async with httpx.AsyncClient(trust_env=False) as http:
        answer = await http.get(address)
    assert answer.headers["location"] == f"{ADDRESS}/console/sign-in"
    assert openid.ended == [given]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("announced", [..., None, "http://provider.example/logout", "javascript:alert(1)"])
async def test_without_a_usable_address_a_sign_out_ends_the_own_session(
    visitor: Browser, openid: OpenIdProvider, announced: object
) -> None:
    openid.document = {"end_session_endpoint": announced}
    await sign_in(visitor, openid)
    answer = (await visitor.post("/console/sign-out")).answer
    assert (answer.status_code, answer.headers["location"]) == (303, "/console/sign-in")
    assert not visitor.http.cookies


async def test_another_site_cannot_sign_a_person_out(visitor: Browser, openid: OpenIdProvider) -> None:
    await sign_in(visitor, openid)
    answer = await visitor.http.post("/console/sign-out", headers={**OWN, "Sec-Fetch-Site": "cross-site"})
    assert answer.status_code == 403
    assert (await visitor.get("/console")).status == 200


async def test_nothing_secret_is_logged(
    visitor: Browser, openid: OpenIdProvider, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    address = await openid.visit(await begin(visitor))
    await come_back(visitor, address)
    await come_back(visitor, address)
    logged = " ".join(str(vars(record)) for record in caplog.records if record.name.startswith("app"))
    assert "sign-in at the provider failed" in logged
    for secret in (*parameters_of(address).values(), visitor.http.cookies[COOKIE]):
        assert secret not in logged


async def test_without_a_provider_there_are_no_such_pages(signed_out: Browser) -> None:
    for path in (BEGIN, "/console/sign-in/callback?code=x&state=y"):
        assert (await signed_out.get(path)).status == 404
    assert not (await signed_out.get("/console/sign-in")).all("#provider")


@pytest.mark.slow
async def test_a_public_client_has_no_secret(
    api_services: Services, openid: OpenIdProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    for given, status in ((SecretStr("wrong"), 401), (None, 200)):
        if given is None:
            monkeypatch.setattr("tests.fixtures.identity.openid.CLIENT_SECRET", None)
        async with open_app(api_services, openid.url, client_secret=given) as app:
            browser = open_browser(app)
            assert (await sign_in(browser, openid)).status == status
            await browser.http.aclose()


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


async def test_a_code_or_token_of_another_sign_in_is_refused(
    visitor: Browser, openid: OpenIdProvider, sso: FastAPI
) -> None:
    """A code that was stolen, or is injected into the sign-in of a victim, at a strict and at a careless provider."""
    attacker = open_browser(sso)
    for is_careless, told in ((False, EXPIRED), (True, UNUSABLE)):
        openid.is_careless = is_careless
        stolen = parameters_of(await openid.visit(await begin(visitor)))["code"]
        for browser in (attacker, visitor):  # each in a sign-in of its own
            state = parameters_of(await begin(browser))["state"]
            page = await browser.get(CALLBACK, {"state": state, "code": stolen})
            expect_refusal(page, told, openid)
    # The careless provider exchanges a code again: the browser has forgotten the sign-in.
    address = await openid.visit(await begin(visitor))
    assert (await come_back(visitor, address)).status == 200
    await visitor.post("/console/sign-out")
    expect_refusal(await come_back(visitor, address), EXPIRED, openid)
    # An ID token of an earlier sign-in.
    replayed = openid.make_id_token(parameters_of(await begin(visitor))["nonce"])
    openid.answer = JSONResponse({"access_token": "a", "token_type": "Bearer", "id_token": replayed})
    await refuse(attacker, openid, UNUSABLE)
    await attacker.http.aclose()


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
    assert (await come_back(visitor, await openid.visit(address))).status == 200, "the forgeries differ in one"


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


async def test_an_account_with_more_groups_than_a_cookie_holds_is_told(
    visitor: Browser, openid: OpenIdProvider
) -> None:
    openid.claims["groups"] = [str(uuid4()) for _ in range(200)]
    await refuse(visitor, openid, TOO_MANY)
    openid.claims["groups"] = openid.claims["groups"][:50]
    assert (await sign_in(visitor, openid)).status == 200


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
