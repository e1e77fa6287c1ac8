"""Signing in at a provider of OpenID Connect, and signing out."""

from __future__ import annotations

import base64
import json
import logging
import time
from http.cookies import SimpleCookie

import httpx
import pytest
from fastapi import FastAPI
from pydantic import SecretStr

from app.composition.services import Services
from app.console.session import COOKIE
from app.contract.administration import Tenant
from tests.console.browser import ADDRESS, OWN, Browser, open_browser
from tests.console.single_sign_on import BEGIN, KEY, OTHER_KEY, begin, come_back, open_app, sign_in, target_of
from tests.fixtures.http.callers import Caller
from tests.fixtures.identity.openid import CLIENT_ID, OpenIdProvider, parameters_of


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
