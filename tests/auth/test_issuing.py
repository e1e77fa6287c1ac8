"""Tokens of an issuer and of the service, and links that sign in once."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from app.auth.issuing import VALID_SECONDS, SignInLink
from app.auth.jwks import MAX_KEYS, PublicKey, SigningKey, UnusableKeySet, find_key, parse_key_set
from app.auth.tokens import TokenVerifier
from app.errors import Unauthenticated
from app.hosts import is_loopback
from tests.fixtures.identity.forgery import NOW, PrivateKey, encode, forge, forge_asymmetric, make_claims, to_jwk

RSA = rsa.generate_private_key(65537, 2048)
EC = ec.generate_private_key(ec.SECP256R1())
EC384 = ec.generate_private_key(ec.SECP384R1())
STRANGER = rsa.generate_private_key(65537, 2048)


class FixedKeys:
    """A source of keys that never changes and records its calls."""

    def __init__(self, *keys: dict[str, Any]) -> None:
        self.keys: Sequence[SigningKey] = parse_key_set(json.dumps({"keys": keys}).encode())
        self.asked: list[str | None] = []

    async def find(self, kid: str | None, algorithm: str) -> PublicKey | None:
        self.asked.append(kid)
        return find_key(self.keys, kid, algorithm)


def make_keys() -> FixedKeys:
    return FixedKeys(to_jwk(RSA, kid="r", alg="RS256", use="sig"), to_jwk(EC, kid="e"))


async def verify(token: str, keys: FixedKeys | None = None) -> str:
    verifier = TokenVerifier(keys=keys or make_keys(), clock=lambda: NOW)
    return (await verifier.verify(token)).subject


async def refuse(token: str, keys: FixedKeys | None = None) -> str:
    with pytest.raises(Unauthenticated) as caught:
        await verify(token, keys)
    return str(caught.value)


@pytest.mark.parametrize(("key", "kid", "algorithm"), [(RSA, "r", "RS256"), (EC, "e", "ES256")])
async def test_a_token_of_the_issuer_is_accepted(key: PrivateKey, kid: str, algorithm: str) -> None:
    assert await verify(forge_asymmetric(make_claims(), key, {"alg": algorithm, "kid": kid})) == "ada"


async def test_a_token_without_key_id_is_accepted_when_only_one_key_fits() -> None:
    token = forge_asymmetric(make_claims(), RSA, {"alg": "RS256"})
    assert await verify(token) == "ada"
    assert "key is not known" in await refuse(token, FixedKeys(to_jwk(RSA, kid="1"), to_jwk(STRANGER, kid="2")))


async def test_key_ids_that_two_keys_have_are_refused_unless_the_algorithm_tells_them_apart() -> None:
    def sign(key: PrivateKey, algorithm: str, kid: str = "r") -> str:
        return forge_asymmetric(make_claims(), key, {"alg": algorithm, "kid": kid})

    twice = FixedKeys(to_jwk(RSA, kid="r"), to_jwk(STRANGER, kid="r"))
    assert {await refuse(sign(key, "RS256"), twice) for key in (RSA, STRANGER)} == {
        "the token's signing key is not known"
    }
    same = FixedKeys(to_jwk(RSA, kid="r"), to_jwk(RSA, kid="r"))
    assert "key is not known" in await refuse(sign(RSA, "RS256"), same), "an issuer whose set is wrong"
    mixed = FixedKeys(to_jwk(RSA, kid="r"), to_jwk(EC, kid="r"))
    assert [await verify(sign(RSA, "RS256"), mixed), await verify(sign(EC, "ES256"), mixed)] == ["ada", "ada"]
    apart = FixedKeys(to_jwk(RSA, kid="r", alg="RS256"), to_jwk(STRANGER, kid="r", alg="RS512"))
    assert await verify(sign(RSA, "RS256"), apart) == "ada"
    assert "signature" in await refuse(sign(RSA, "RS512"), apart)
    assert "signature" in await refuse(sign(STRANGER, "RS256"), apart)
    encrypts = FixedKeys(to_jwk(STRANGER, kid="r", use="enc"), to_jwk(RSA, kid="r"))
    assert await verify(sign(RSA, "RS256"), encrypts) == "ada"
    assert "signature" in await refuse(sign(STRANGER, "RS256"), encrypts)


async def test_a_key_id_of_another_published_key_is_refused() -> None:
    keys = FixedKeys(to_jwk(RSA, kid="1"), to_jwk(STRANGER, kid="2"), to_jwk(EC))
    for key, kid in ((RSA, "2"), (STRANGER, "1")):
        assert "signature" in await refuse(forge_asymmetric(make_claims(), key, {"alg": "RS256", "kid": kid}), keys)
    # A key without an id is only for tokens without one.
    assert await verify(forge_asymmetric(make_claims(), EC, {"alg": "ES256"}), keys) == "ada"
    for kid in ("1", "3"):
        token = forge_asymmetric(make_claims(), EC, {"alg": "ES256", "kid": kid})
        assert "key is not known" in await refuse(token, keys)


async def test_a_token_of_another_key_is_refused() -> None:
    for header in ({"alg": "RS256", "kid": "r"}, {"alg": "RS256"}):
        assert "signature" in await refuse(forge_asymmetric(make_claims(), STRANGER, header))
    assert "key is not known" in await refuse(forge_asymmetric(make_claims(), STRANGER, {"alg": "RS256", "kid": "s"}))


@pytest.mark.parametrize("key", [RSA, EC])
async def test_a_public_key_does_not_serve_as_a_shared_secret(key: PrivateKey) -> None:
    public = key.public_key()
    forms = [
        public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).strip(),
        public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        json.dumps(to_jwk(key)).encode(),
        b"",
    ]
    if isinstance(public, rsa.RSAPublicKey):
        forms.append(public.public_bytes(Encoding.PEM, PublicFormat.PKCS1))
    for form in forms:
        for algorithm, digest in (("HS256", "sha256"), ("HS384", "sha384"), ("HS512", "sha512")):
            header = {"alg": algorithm, "kid": "r"}
            assert "algorithm" in await refuse(forge(make_claims(), header, key=form, digest=digest))
        for algorithm in ("RS256", "ES256"):
            assert "signature" in await refuse(forge(make_claims(), {"alg": algorithm}, key=form))


async def test_a_published_shared_key_is_not_used() -> None:
    keys = FixedKeys({"kty": "oct", "k": encode(b"k" * 40), "kid": "o", "alg": "HS256"}, to_jwk(RSA, kid="r"))
    assert len(keys.keys) == 1
    assert "algorithm" in await refuse(forge(make_claims(), {"alg": "HS256", "kid": "o"}, key=b"k" * 40), keys)


@pytest.mark.parametrize("algorithm", ["none", "PS256", "EdDSA", "RS1", "dir", "", None, ["RS256"]])
async def test_every_other_algorithm_is_refused(algorithm: object) -> None:
    token = forge_asymmetric(make_claims(), RSA, {"alg": algorithm, "kid": "r"})
    assert "algorithm" in await refuse(token)


async def test_a_key_is_used_only_for_its_own_algorithm() -> None:
    # The first key is published for RS256, the second is on the curve of ES256.
    for header in (
        {"alg": "RS384", "kid": "r"},
        {"alg": "ES256", "kid": "r"},
        {"alg": "ES384", "kid": "e"},
        {"alg": "RS256", "kid": "e"},
    ):
        key = RSA if header["kid"] == "r" else EC
        assert "key is not known" in await refuse(forge_asymmetric(make_claims(), key, header))
    token = forge_asymmetric(make_claims(), EC384, {"alg": "ES256", "kid": "x"})
    assert "key is not known" in await refuse(token, FixedKeys(to_jwk(EC384, kid="x")))


@pytest.mark.parametrize("kid", [1, ["r"], {"r": 1}, True, "r" * 257])
async def test_a_malformed_key_id_is_refused_without_a_lookup(kid: object) -> None:
    keys = make_keys()
    token = forge_asymmetric(make_claims(), RSA, {"alg": "RS256", "kid": kid})
    assert await refuse(token, keys) == "the token is malformed"
    assert keys.asked == []


@pytest.mark.parametrize(
    "kid", ["../../dev/null", "/etc/passwd", "' or 1=1 --", "http://evil.example/k", "", "r\x00", "\ud800", "R"]
)
async def test_a_key_id_is_only_ever_compared(kid: str) -> None:
    token = forge_asymmetric(make_claims(), RSA, {"alg": "RS256", "kid": kid})
    assert "key is not known" in await refuse(token)
    assert "key is not known" in await refuse(forge(make_claims(), {"alg": "RS256", "kid": kid}, key=b""))


async def test_a_key_offered_by_the_token_is_not_used() -> None:
    offers = {
        "jwk": to_jwk(STRANGER, kid="r"),
        "jku": "https://evil.example/keys",
        "x5u": "https://evil.example/cert",
        "x5c": ["MIIB"],
    }
    for name, offer in offers.items():
        token = forge_asymmetric(make_claims(), STRANGER, {"alg": "RS256", "kid": "r", name: offer})
        assert "signature" in await refuse(token)


async def test_claims_of_an_issuers_token_are_also_checked() -> None:
    header = {"alg": "RS256", "kid": "r"}
    assert "expired" in await refuse(forge_asymmetric(make_claims(exp=NOW - 40), RSA, header))
    assert "extension" in await refuse(forge_asymmetric(make_claims(), RSA, {**header, "crit": ["x"], "x": 1}))


@pytest.mark.parametrize(
    "changes",
    [
        {"use": "enc"}, {"key_ops": ["sign"]}, {"key_ops": "verify"}, {"kid": 1}, {"alg": "RSA-OAEP"},
        {"alg": 1}, {"alg": "HS256"}, {"kty": "rsa"}, {"kty": "EC"}, {"n": 5}, {"n": "!!"}, {"n": None},
        {"e": ""}, {"e": "AQ"}, {"e": encode(b"\x01" * 5)}, {"n": encode(b"\xff" * 127)},
        {"n": encode(b"\xff" * 1500)},
    ],
)  # fmt: skip
def test_a_published_key_that_cannot_verify_is_ignored(changes: dict[str, Any]) -> None:
    document = {"keys": [{**to_jwk(RSA, kid="r"), **changes}, to_jwk(EC, kid="e"), "key", None]}
    assert [key.kid for key in parse_key_set(json.dumps(document).encode())] == ["e"]


@pytest.mark.parametrize("changes", [{"crv": "secp256k1"}, {"crv": ["P-256"]}, {"x": "AAAA"}, {"y": 1}])
def test_an_invalid_published_point_is_ignored(changes: dict[str, Any]) -> None:
    assert parse_key_set(json.dumps({"keys": [{**to_jwk(EC, kid="e"), **changes}]}).encode()) == ()


@pytest.mark.parametrize(
    "document", [b"", b"<html>", b"[]", b"{}", b'{"keys": {}}', b"\xff\xfe", b"[" * 100_000, b'{"keys": [%s]}']
)
def test_a_document_that_is_not_a_key_set_is_refused(document: bytes) -> None:
    with pytest.raises(UnusableKeySet):
        parse_key_set(document.replace(b"%s", b",".join([b"{}"] * (MAX_KEYS + 1))))


def test_a_key_is_exchanged_once() -> None:
    link = SignInLink("a token")
    assert link.redeem("") is None
    key = link.issue()
    assert link.redeem(key + "x") is None
    assert link.redeem("\ud800") is None
    assert link.redeem(key) == "a token"
    assert link.redeem(key) is None


def test_a_new_key_replaces_the_one_before() -> None:
    link = SignInLink("a token")
    first, second = link.issue(), link.issue()
    assert first != second
    assert link.redeem(first) is None
    assert link.redeem(second) == "a token"


def test_a_key_expires() -> None:
    now = 100.0
    link = SignInLink("a token", clock=lambda: now)
    key = link.issue()
    now += VALID_SECONDS
    assert link.redeem(key) is None
    now -= 1
    assert link.redeem(key) is None, "an expired key has been used"


@pytest.mark.parametrize(
    ("host", "near"),
    [
        *(("127.0.0.1", True), ("127.8.0.1", True), ("::1", True), ("localhost", True)),
        *(("0.0.0.0", False), ("::", False), ("10.0.0.7", False), ("", False)),  # noqa: S104
        ("localhost.elsewhere.test", False),
    ],
)
def test_only_addresses_of_this_machine_are_loopback(host: str, near: bool) -> None:
    assert is_loopback(host) is near
