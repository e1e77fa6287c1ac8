"""A token's signature is verified once in a few seconds; everything else is checked each time."""

from __future__ import annotations

import pytest

from app.auth import tokens
from app.auth.tokens import SECONDS, TOKENS, TokenVerifier, Verified, VerifiedTokens
from app.errors import Unauthenticated
from tests.auth.verification import make_verifier
from tests.fixtures.identity.forgery import NOW, SECRET, forge, make_claims


class Clock:
    """Seconds since 1970, which the test sets."""

    def __init__(self) -> None:
        self.now = float(NOW)

    def __call__(self) -> float:
        return self.now


class Signatures:
    """Counts the signatures that are verified."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.verified = 0
        verify = tokens._verify_signature

        def count(*arguments: object) -> bytes:
            self.verified += 1
            return verify(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(tokens, "_verify_signature", count)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def verifier(clock: Clock) -> TokenVerifier:
    return TokenVerifier(secret=SECRET, clock=clock)


@pytest.fixture
def signatures(monkeypatch: pytest.MonkeyPatch) -> Signatures:
    return Signatures(monkeypatch)


async def test_a_signature_is_verified_once_in_a_few_seconds(
    verifier: TokenVerifier, clock: Clock, signatures: Signatures
) -> None:
    token = forge(make_claims())
    first = await verifier.verify(token)
    assert await verifier.verify(token) == first
    assert signatures.verified == 1
    clock.now += SECONDS
    assert await verifier.verify(token) == first
    assert signatures.verified == 2
    clock.now -= 2 * SECONDS  # a clock that was set back keeps nothing longer
    await verifier.verify(token)
    assert signatures.verified == 3


async def test_a_token_expires_although_its_signature_was_verified(
    verifier: TokenVerifier, clock: Clock, signatures: Signatures
) -> None:
    token = forge(make_claims(exp=NOW - 29))
    await verifier.verify(token)
    clock.now += 1.5
    with pytest.raises(Unauthenticated, match="expired"):
        await verifier.verify(token)
    assert signatures.verified == 1


async def test_a_token_is_not_valid_early_although_its_signature_was_verified(
    verifier: TokenVerifier, clock: Clock
) -> None:
    token = forge(make_claims(nbf=NOW + 29))
    await verifier.verify(token)
    clock.now -= 2
    with pytest.raises(Unauthenticated, match="not valid yet"):
        await verifier.verify(token)


async def test_a_refused_token_is_refused_again(verifier: TokenVerifier, signatures: Signatures) -> None:
    valid = forge(make_claims())
    await verifier.verify(valid)
    forged = valid[:-4] + ("AAAA" if not valid.endswith("AAAA") else "BBBB")
    for _ in range(2):
        with pytest.raises(Unauthenticated):
            await verifier.verify(forged)
    assert signatures.verified == 3


async def test_the_number_of_remembered_tokens_is_bounded() -> None:
    principal = await make_verifier().verify(forge(make_claims()))
    known = VerifiedTokens()
    for number in range(TOKENS + 1):
        known.remember(str(number), Verified(float(NOW), {}, principal))
    assert known.find("0", NOW) is None
    assert known.find("1", NOW) is not None
    assert known.find(str(TOKENS), NOW) is not None
