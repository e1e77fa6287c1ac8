"""The cache of an issuer's keys, against a small real HTTP server and with its own clock."""

import asyncio
import logging
from collections.abc import AsyncIterator

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from app.auth import jwks
from app.auth.jwks import MAX_DOCUMENT_BYTES, MAX_STALE_SECONDS, JwksCache
from app.auth.tokens import TokenVerifier
from app.errors import ConfigurationError, Unauthenticated
from tests.fixtures.clock import FakeClock
from tests.fixtures.identity.forgery import NOW, forge_asymmetric, make_claims, to_jwk
from tests.fixtures.identity.issuer import Issuer

KEY = ec.generate_private_key(ec.SECP256R1())
OTHER = ec.generate_private_key(ec.SECP256R1())


@pytest.fixture
async def issuer() -> AsyncIterator[Issuer]:
    async with Issuer() as server:
        server.publish(to_jwk(KEY, kid="a"))
        yield server


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def cache(issuer: Issuer, clock: FakeClock) -> AsyncIterator[JwksCache]:
    async with httpx.AsyncClient() as client:
        cache = JwksCache(issuer.url, client, clock=clock)
        yield cache
        issuer.open.set()
        await cache.close()


async def knows(cache: JwksCache, kid: str = "a") -> bool:
    return await cache.find(kid, "ES256") is not None


async def test_a_token_is_verified_with_a_fetched_key(cache: JwksCache) -> None:
    verifier = TokenVerifier(keys=cache, clock=lambda: NOW)
    token = forge_asymmetric(make_claims(), KEY, {"alg": "ES256", "kid": "a"})
    assert (await verifier.verify(token)).subject == "ada"
    forged = forge_asymmetric(make_claims(), OTHER, {"alg": "ES256", "kid": "a", "jku": "http://127.0.0.1:1/"})
    with pytest.raises(Unauthenticated, match="signature"):
        await verifier.verify(forged)


async def test_keys_are_fetched_once_and_cached(issuer: Issuer, cache: JwksCache, clock: FakeClock) -> None:
    for _ in range(20):
        assert await knows(cache)
        clock.now += 1.4
    assert issuer.requests == 1
    assert "authorization" not in issuer.heads[0].lower()


async def test_concurrent_callers_share_one_fetch(issuer: Issuer, cache: JwksCache) -> None:
    issuer.open.clear()
    callers = [asyncio.create_task(knows(cache)) for _ in range(50)]
    await issuer.wait_for_requests(1)
    callers[0].cancel()  # a caller that gives up must not end the fetch for the others
    issuer.open.set()
    answers = await asyncio.gather(*callers, return_exceptions=True)
    assert isinstance(answers[0], asyncio.CancelledError)
    assert answers[1:] == [True] * 49
    assert issuer.requests == 1


async def test_an_unknown_key_id_fetches_at_most_once_in_ten_seconds(
    issuer: Issuer, cache: JwksCache, clock: FakeClock
) -> None:
    assert await knows(cache)
    for step in range(1, 30):
        clock.now = 1000 + step * 0.99
        assert not await knows(cache, f"random-{step}")
    assert issuer.requests == 3
    issuer.publish(to_jwk(KEY, kid="a"), to_jwk(OTHER, kid="b"))
    clock.now = 1000 + 32
    assert await knows(cache, "b")


async def test_a_withdrawn_key_is_refused_within_a_minute(issuer: Issuer, cache: JwksCache, clock: FakeClock) -> None:
    assert await knows(cache)
    issuer.publish(to_jwk(OTHER, kid="b"))
    clock.now += 54  # no calls in between
    assert not await knows(cache)
    assert await knows(cache, "b")


async def test_all_keys_can_be_withdrawn(issuer: Issuer, cache: JwksCache, clock: FakeClock) -> None:
    assert await knows(cache)
    issuer.publish()
    clock.now += 54
    assert not await knows(cache)


async def test_keys_are_renewed_in_the_background_before_they_expire(
    issuer: Issuer, cache: JwksCache, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await knows(cache)
    monkeypatch.setattr(jwks, "FETCH_SECONDS", 60.0)
    issuer.open.clear()
    clock.now += 31
    async with asyncio.timeout(30):
        assert await knows(cache)
    await issuer.wait_for_requests(2)
    issuer.open.set()
    assert await cache.refresh()  # waits for the running fetch
    clock.now += 29
    assert await knows(cache)
    assert issuer.requests == 2


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("status", "headers", "body"),
    [
        ("500 Oops", "", b""),
        ("404 Not Found", "", b'{"keys": []}'),
        ("200 OK", "", b"<html>maintenance</html>"),
        ("200 OK", "", b"{}"),
        ("200 OK", "content-encoding: gzip\r\n", b"\x1f\x8b"),
        ("200 OK", "", b'{"keys": [], "x": "' + b"x" * MAX_DOCUMENT_BYTES + b'"}'),
        ("302 Found", "location: {url}\r\n", b""),
        ("not http", "", b""),
    ],
)
async def test_known_keys_are_used_while_the_issuer_is_down(
    issuer: Issuer, cache: JwksCache, clock: FakeClock, status: str, headers: str, body: bytes
) -> None:
    assert await knows(cache)
    issuer.status, issuer.headers, issuer.body = status, headers.format(url=issuer.url), body
    fetched = issuer.requests
    for _ in range(int(MAX_STALE_SECONDS / 100) - 1):
        clock.now += 100
        assert await knows(cache)
        assert not await knows(cache, "b")
    assert issuer.requests - fetched == int(MAX_STALE_SECONDS / 100) - 1
    clock.now += 100
    assert not await knows(cache)
    issuer.headers = ""
    issuer.publish(to_jwk(KEY, kid="a"))
    clock.now += 10
    assert await knows(cache)


async def test_known_keys_are_used_while_nothing_listens(clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
    async with httpx.AsyncClient() as client:
        async with Issuer() as issuer:
            issuer.publish(to_jwk(KEY, kid="a"))
            cache = JwksCache(issuer.url, client, clock=clock)
            assert await cache.refresh()
        clock.now += 120
        with caplog.at_level(logging.WARNING):
            assert await knows(cache)
        assert [vars(record)["reason"] for record in caplog.records] == ["ConnectError"]
        assert await cache.refresh()
        clock.now += MAX_STALE_SECONDS
        assert not await cache.refresh()


async def test_requests_wait_only_once_for_an_issuer_that_hangs(
    issuer: Issuer, cache: JwksCache, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await knows(cache)
    monkeypatch.setattr(jwks, "FETCH_SECONDS", 0.2)
    issuer.open.clear()
    clock.now += 60
    assert await knows(cache)  # waited for the fetch, which timed out
    monkeypatch.setattr(jwks, "FETCH_SECONDS", 60.0)
    clock.now += 11
    async with asyncio.timeout(30):
        assert await knows(cache)  # the next fetch hangs too, and no request waits for it
    await issuer.wait_for_requests(3)
    assert issuer.requests == 3


async def test_without_any_keys_no_token_is_accepted(issuer: Issuer, cache: JwksCache) -> None:
    issuer.status = "503 Away"
    token = forge_asymmetric(make_claims(), KEY, {"alg": "ES256", "kid": "a"})
    with pytest.raises(Unauthenticated, match="key is not known"):
        await TokenVerifier(keys=cache, clock=lambda: NOW).verify(token)
    assert not await cache.refresh()


@pytest.mark.parametrize(
    "url",
    [
        "http://issuer.example/keys",
        "http://169.254.169.254/keys",
        "http://localhost.evil.example/keys",
        "http://127.0.0.1.evil.example/",
        "ftp://127.0.0.1/keys",
        "file:///etc/passwd",
        "https:///keys",
        "issuer.example/keys",
        "",
    ],
)
async def test_an_address_that_others_could_answer_for_is_refused(url: str) -> None:
    async with httpx.AsyncClient() as client:
        with pytest.raises(ConfigurationError, match=r"^JWT_JWKS_URL: must be an https:// address"):
            JwksCache(url, client)


@pytest.mark.parametrize(
    "url", ["https://issuer.example/k", "http://localhost:1/k", "http://[::1]/k", "http://127.1.2.3/k"]
)
async def test_https_and_this_machine_are_accepted(url: str) -> None:
    async with httpx.AsyncClient() as client:
        await JwksCache(url, client).close()
