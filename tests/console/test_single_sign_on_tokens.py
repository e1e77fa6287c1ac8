"""ID tokens and sessions that are refused."""

from __future__ import annotations

import json
import time
from typing import Any
from uuid import uuid4

from starlette.responses import JSONResponse

from app.composition.services import Services
from app.console.session import COOKIE
from tests.console.browser import ADDRESS, Browser, open_browser
from tests.console.single_sign_on import (
    MISSING,
    OTHER_KEY,
    TOO_MANY,
    UNUSABLE,
    begin,
    come_back,
    expect_refusal,
    open_app,
    refuse,
    sign_in,
)
from tests.fixtures.http.callers import Caller
from tests.fixtures.identity.forgery import forge
from tests.fixtures.identity.openid import CLIENT_ID, CLIENT_SECRET, OpenIdProvider, parameters_of

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
