"""The provider's document and keys, and the pieces of a sign-in at it."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import httpx
import httpx2
import pytest

from app.auth import openid as module
from app.auth.jwks import MAX_DOCUMENT_BYTES
from app.auth.openid import (
    FRESH_SECONDS,
    MAX_STALE_SECONDS,
    RETRY_SECONDS,
    Provider,
    ProviderUnreachable,
    SignInExpired,
    UnusableProvider,
    origin_of,
    parse_endpoints,
)
from app.auth.principal import Principal, Role, find_claim
from app.auth.sign_in import VALID_SECONDS, Attempt, Attempts, BoundedTransport, Sessions, derive_key
from app.errors import ConfigurationError, Unauthenticated
from tests.fixtures.clock import FakeClock
from tests.fixtures.identity.forgery import NOW, forge, make_claims
from tests.fixtures.identity.issuer import Issuer

ISSUER = "https://login.example.com/realms/kb"
ORIGIN = "https://login.example.com"
KEYS = (b"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=", b"ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA=")


def describe(origin: str = ORIGIN, issuer: str = ISSUER, **changes: Any) -> bytes:
    """A provider's document; a change to `...` removes the member."""
    document = {
        "issuer": issuer,
        "authorization_endpoint": f"{origin}/authorize",
        "token_endpoint": f"{origin}/token",
        "jwks_uri": f"{origin}/keys",
        **changes,
    }
    return json.dumps({name: value for name, value in document.items() if value is not ...}).encode()


def parse(document: bytes, *origins: str) -> Any:
    return parse_endpoints(document, ISSUER, frozenset(origins or (ORIGIN,)))


def test_a_document_gives_the_addresses() -> None:
    found = parse(describe(end_session_endpoint=f"{ORIGIN}/logout"))
    assert (found.authorization, found.token, found.keys, found.end_session) == (
        f"{ORIGIN}/authorize",
        f"{ORIGIN}/token",
        f"{ORIGIN}/keys",
        f"{ORIGIN}/logout",
    )
    assert (found.authentication, found.names_issuer) == ("client_secret_basic", False)
    assert parse(describe(end_session_endpoint="http://login.example.com/logout")).end_session is None
    ways = ["private_key_jwt", "client_secret_post"]
    found = parse(describe(token_endpoint_auth_methods_supported=ways))
    assert found.authentication == "client_secret_post"


@pytest.mark.parametrize(
    "document",
    [
        b"", b"x", b"[]", b"{}", b"[" * 100_000, b'{"issuer": "\xff"}',
        describe(issuer=f"{ISSUER}/"), describe(issuer="https://evil.example"),
        describe(authorization_endpoint=...), describe(authorization_endpoint="javascript:alert(1)"),
        describe(authorization_endpoint="http://login.example.com/authorize"),
        describe(authorization_endpoint="https://login.example.com/a\r\nSet-Cookie: x=y"),
        describe(token_endpoint=...), describe(token_endpoint=7), describe(token_endpoint="/token"),
        describe(token_endpoint="http://login.example.com/token"),
        describe(token_endpoint="https://169.254.169.254/token"),
        describe(token_endpoint="http://127.0.0.1:5432/token"),
        describe(token_endpoint="https://login.example.com:8443/token"),
        describe(token_endpoint="https://login.example.com.evil.example/token"),
        describe(token_endpoint="https://login.example.com@evil.example/token"),
        describe(token_endpoint="https://login.example.com:x/token"),
        describe(jwks_uri=...), describe(jwks_uri="file:///etc/passwd"), describe(jwks_uri="https://keys.example/k"),
        describe(code_challenge_methods_supported=["plain"]), describe(code_challenge_methods_supported="S256"),
    ],
)  # fmt: skip
def test_a_document_that_is_unusable_or_leads_elsewhere_is_refused(document: bytes) -> None:
    with pytest.raises(UnusableProvider):
        parse(document)


def test_further_origins_may_be_allowed() -> None:
    document = describe(token_endpoint="https://oauth.example/token", jwks_uri="https://keys.example:444/k")
    assert parse(document, ORIGIN, "https://oauth.example", "https://keys.example:444")
    with pytest.raises(UnusableProvider):
        parse(document, ORIGIN, "https://oauth.example", "https://keys.example")


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://A.example:443/x", "https://a.example"),
        ("http://[::1]:80/x", "http://[::1]"),
        ("http://127.0.0.1:8080/x?y", "http://127.0.0.1:8080"),
    ],
)
def test_an_origin_has_no_usual_port(url: str, origin: str) -> None:
    assert origin_of(url) == origin


@pytest.fixture
async def issuer() -> AsyncIterator[Issuer]:
    async with Issuer() as issuer:
        yield issuer


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(trust_env=False) as client:
        yield client


async def test_the_document_is_fetched_once_and_outlives_an_outage(
    issuer: Issuer, client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    url, clock = issuer.url.removesuffix("/keys"), FakeClock()
    issuer.body = describe(url, url)
    provider = Provider(url, client, clock=clock)
    found = await asyncio.gather(*(provider.endpoints() for _ in range(20)))
    assert issuer.requests == 1
    assert issuer.heads[0].startswith("GET /.well-known/openid-configuration ")
    clock.now += FRESH_SECONDS - 1
    assert await provider.endpoints() == found[0]
    assert issuer.requests == 1
    clock.now += 2
    issuer.status = "503 Service Unavailable"
    assert await provider.endpoints() == found[0], "the last addresses"
    assert await provider.endpoints() == found[0]
    assert issuer.requests == 2, "the next attempt is due later"
    clock.now += MAX_STALE_SECONDS
    with pytest.raises(ProviderUnreachable):
        await provider.endpoints()
    issuer.status = "200 OK"
    clock.now += RETRY_SECONDS
    issuer.body = describe(url, url, token_endpoint=f"{url}/new")
    assert (await provider.endpoints()).token == f"{url}/new"
    reasons = {vars(record)["reason"] for record in caplog.records if record.levelno == logging.WARNING}
    assert reasons == {"status 503"}


@pytest.mark.parametrize(
    ("status", "headers", "body"),
    [
        ("302 Found", "location: http://127.0.0.1:1/\r\n", b"{}"),
        ("200 OK", "content-encoding: gzip\r\n", b"{}"),
        ("200 OK", "", b"x" * (MAX_DOCUMENT_BYTES + 1)),
        ("404 Not Found", "", b"{}"),
        ("200 OK", "", b"<html>"),
    ],
)
async def test_a_document_that_is_not_delivered_as_such_is_refused(
    issuer: Issuer, client: httpx.AsyncClient, status: str, headers: str, body: bytes
) -> None:
    issuer.status, issuer.headers, issuer.body = status, headers, body
    with pytest.raises(ProviderUnreachable):
        await Provider(issuer.url.removesuffix("/keys"), client).endpoints()
    assert issuer.requests == 1


async def test_a_silent_provider_is_given_up(
    issuer: Issuer, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FETCH_SECONDS", 0.1)
    issuer.open.clear()
    provider = Provider(issuer.url.removesuffix("/keys"), client)
    for _ in range(2):
        with pytest.raises(ProviderUnreachable):
            await provider.endpoints()
    assert issuer.requests == 1


@pytest.mark.parametrize("url", ["http://login.example.com", "http://10.0.0.1", "ftp://x", "https://", "http://["])
async def test_an_issuer_must_be_secure(client: httpx.AsyncClient, url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^KB_OIDC_ISSUER: must be an https"):
        Provider(url, client)
    for near in ("http://127.0.0.1:8080", "http://localhost", "http://[::1]:9"):
        Provider(near, client)


async def test_requests_to_other_origins_are_not_sent() -> None:
    sent: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        sent.append(request)
        return httpx2.Response(200, stream=httpx2.ByteStream(b"x" * 10))

    bounded = BoundedTransport(httpx2.MockTransport(answer), frozenset({ORIGIN}))
    async with httpx2.AsyncClient(transport=bounded) as http:
        assert (await http.get(f"{ORIGIN}:443/token")).content == b"x" * 10
        assert sent[0].headers["accept-encoding"] == "identity"
        for url in ("https://evil.example/", "http://login.example.com/token", f"{ORIGIN}:444/token"):
            with pytest.raises(httpx2.TransportError):
                await http.get(url)
    assert len(sent) == 1


def test_an_attempt_is_opened_by_any_key_and_for_ten_minutes() -> None:
    clock = FakeClock()
    old, new = (derive_key(key, "attempt", ISSUER, "console") for key in KEYS)
    attempt = Attempt.new("/console/entries")
    assert all(43 <= len(value) <= 128 for value in (attempt.state, attempt.nonce, attempt.code_verifier))
    sealed = Attempts([old], clock=clock).seal(attempt)
    both = Attempts([new, old], clock=clock)
    assert both.open(sealed) == attempt
    clock.now += VALID_SECONDS
    assert both.open(sealed) == attempt
    clock.now += 1
    for wrong in (sealed, both.seal(attempt)[:-6] + "AAAAA=", "", "é", "a.b.c"):
        with pytest.raises(SignInExpired):
            both.open(wrong)
    with pytest.raises(SignInExpired):
        Attempts([old], clock=clock).open(both.seal(attempt))


def test_each_purpose_and_registration_has_a_key_of_its_own() -> None:
    derived = {
        derive_key(KEYS[0], "attempt", ISSUER, "console"),
        derive_key(KEYS[0], "session", ISSUER, "console"),
        derive_key(KEYS[1], "session", ISSUER, "console"),
        derive_key(KEYS[0], "session", f"{ISSUER}/", "console"),
        derive_key(KEYS[0], "session", ISSUER, "other"),
    }
    assert len(derived) == 5
    assert all(len(key) == 32 for key in derived)


async def test_a_session_is_verified_by_any_key_and_recognised_by_its_own() -> None:
    old, new = (derive_key(key, "session", ISSUER, "console") for key in KEYS)
    service = "https://kb.example.com/console"
    person = Principal("rita", None, frozenset({Role.PLATFORM_ADMIN}))
    token = Sessions([old], service=service, seconds=60).issue(person)
    both = Sessions([new, old], service=service, seconds=60).verifier
    assert both.names_own_secret(token)
    assert await both.verify(token) == person
    assert not Sessions([new], service=service, seconds=60).verifier.names_own_secret(token)
    elsewhere = Sessions([old], service="https://other.example/console", seconds=60).verifier
    with pytest.raises(Unauthenticated):
        await elsewhere.verify(token)
    for other in ("", "x", forge(make_claims(exp=NOW)), forge(make_claims(), {"alg": "HS256", "kid": ["x"]})):
        assert not both.names_own_secret(other)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("roles", ["a"]),
        ("realm_access.roles", ["b"]),
        ("https://kb.example/tenant", "t"),
        ("realm_access.none", None),
        ("roles.0", None),
        ("", None),
        (".", None),
    ],
)
def test_a_claim_is_found_by_its_name_or_path(name: str, value: object) -> None:
    claims = {"roles": ["a"], "realm_access": {"roles": ["b"]}, "https://kb.example/tenant": "t"}
    assert find_claim(claims, name) == value
