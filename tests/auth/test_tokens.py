"""The verification of tokens, and its memory."""

import json
from typing import Any
from uuid import UUID, uuid4

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from app.auth import tokens
from app.auth.issuing import issue_token
from app.auth.principal import Principal, Role
from app.auth.tokens import SECONDS, TOKENS, TokenVerifier, Verified, VerifiedTokens, bearer_token
from app.errors import ConfigurationError, InvalidInput, Unauthenticated
from tests.auth.verification import make_verifier, refuse
from tests.fixtures.clock import FakeClock
from tests.fixtures.identity.forgery import NOW, SECRET, TENANT, encode, forge, make_claims

HS256 = {"alg": "HS256", "typ": "JWT"}


async def test_a_valid_token_gives_its_principal() -> None:
    principal = await make_verifier().verify(forge(make_claims(roles=["creator", "reader"])))
    assert principal == Principal("ada", UUID(TENANT), frozenset({Role.CREATOR, Role.READER}))


@pytest.mark.parametrize(
    "claims",
    [
        make_claims(exp=NOW + 0.5, iat=NOW, nbf=NOW),
        make_claims(exp=NOW - 29, iat=NOW + 29, nbf=NOW + 29.9),
        make_claims(tenant_id=TENANT.upper(), iss="anyone", jti="x"),
        make_claims(sub="auth0|Ada Lovelace – ä"),
    ],
)
async def test_valid_claims_are_accepted(claims: dict[str, Any]) -> None:
    assert (await make_verifier().verify(forge(claims))).tenant_id == UUID(TENANT)


@pytest.mark.parametrize("header", [{"alg": "HS256"}, {**HS256, "typ": "at+JWT"}, {**HS256, "kid": "any"}])
async def test_usual_headers_are_accepted(header: dict[str, Any]) -> None:
    assert (await make_verifier().verify(forge(make_claims(), header))).subject == "ada"


@pytest.mark.parametrize(
    "algorithm", ["none", "None", "NONE", "", "HS384", "HS512", "RS256", "hs256", None, 1, ["HS256"]]
)
async def test_every_other_algorithm_is_refused(algorithm: object) -> None:
    header = {"alg": algorithm, "typ": "JWT"}
    digest = {"HS384": "sha384", "HS512": "sha512"}.get(str(algorithm), "sha256")
    assert "algorithm" in await refuse(forge(make_claims(), header, digest=digest))


async def test_an_unsigned_token_is_refused() -> None:
    unsigned = f"{encode({'alg': 'none'})}.{encode(make_claims())}."
    assert await refuse(unsigned) == "the token is malformed"
    assert await refuse(unsigned.rstrip(".")) == "the token is malformed"


async def test_a_wrong_signature_is_refused() -> None:
    good = forge(make_claims())
    head, _, signature = good.split(".")
    swapped = f"{head}.{encode(make_claims(roles=['tenant_admin']))}.{signature}"
    for token in (forge(make_claims(), key=b"x" * 40), swapped, good[:-4], f"{good[:-8]}AAAAAAAA"):
        assert await refuse(token) == "the token's signature is not valid"


@pytest.mark.parametrize(
    ("header", "told"),
    [
        ({"typ": "JWT"}, "algorithm"),
        *(({**HS256, "crit": names}, "extension") for names in (["exp"], [], None)),
        *(({**HS256, "b64": value}, "extension") for value in (False, True)),
        *(({**HS256, "zip": value}, "extension") for value in ("DEF", None)),
        ({**HS256, "crit": ["b64"], "b64": False}, "extension"),
        ({**HS256, "crit": ["http://example.com/x"], "http://example.com/x": 1}, "extension"),
        *(({**HS256, "typ": kind}, "type") for kind in ("logout+jwt", "JWE", "", 1, None, ["JWT"])),
    ],
)
async def test_a_header_that_is_not_understood_is_refused(header: dict[str, Any], told: str) -> None:
    assert told in await refuse(forge(make_claims(), header))


@pytest.mark.parametrize("size", [16_385, 5 * 1024 * 1024])
async def test_a_token_over_the_maximum_length_is_refused_before_it_is_parsed(size: int) -> None:
    assert "longer than 16384" in await refuse("a" * size)
    padded = forge(make_claims(padding="x" * size))
    assert "longer than 16384" in await refuse(padded)


async def test_a_token_of_the_maximum_length_is_accepted() -> None:
    token = forge(make_claims(padding="x" * 12_000))
    assert 16_100 < len(token) <= 16_384
    assert (await make_verifier().verify(token)).subject == "ada"


async def test_a_token_has_room_for_the_groups_of_entra() -> None:
    groups = [str(uuid4()) for _ in range(200)]
    token = forge(make_claims(groups=groups, preferred_username="x" * 200, name="x" * 200))
    assert (await make_verifier().verify(token)).groups == tuple(sorted(groups))


async def test_an_encrypted_token_is_refused() -> None:
    header = encode({"alg": "dir", "enc": "A256GCM"})
    assert await refuse(f"{header}..{encode(b'i' * 12)}.{encode(b'c' * 40)}.{encode(b't' * 16)}") == (
        "the token is malformed"
    )


def _make_odd_tokens() -> list[str]:
    good = forge(make_claims())
    head, body, signature = good.split(".")
    return [
        "", ".", "..", "a.b.c", "\x00", "\ud800", "тест.тест.тест", f" {good}", f"{good}\n", f"{good} ",
        f"{good}=", f"{head}=.{body}.{signature}", f"{head}.{body} .{signature}", f"{good}.{signature}",
        f"{head}.{body}", f"{head}..{signature}", f"{head}.{body}A{'A' * (4 - len(body) % 4)}+/.{signature}",
        good.replace(".", "%2e"), f"Bearer {good}", f"{good},{good}",
    ]  # fmt: skip


@pytest.mark.parametrize("token", _make_odd_tokens(), ids=range(20))
async def test_text_that_is_not_a_token_is_refused(token: str) -> None:
    assert await refuse(token) == "the token is malformed"


HEADER = json.dumps(HS256).encode()


@pytest.mark.parametrize(
    "header",
    [
        b"[]", b'"HS256"', b"1", b"null", b"{", b"\xff\xfe", b'{"alg": "HS256", "alg": "HS256"}',
        b'{"alg": "none", "alg": "HS256"}', b'{"alg": "HS256", "x": NaN}', b"[" * 4000, b'{"alg":' * 700,
        b'\xef\xbb\xbf{"alg": "HS256"}',
    ],
)  # fmt: skip
async def test_a_malformed_header_is_refused(header: bytes) -> None:
    assert await refuse(forge(make_claims(), header)) == "the token is malformed"


GOOD = json.dumps(make_claims())[1:-1]


@pytest.mark.parametrize(
    "payload",
    [
        b"[]", b'"ada"', b"null", b"{", b"\xff", b"[" * 4000, b"{" + GOOD.encode() + b', "x": Infinity}',
        ("{" + GOOD + ', "roles": ["tenant_admin"]}').encode(), ("{" + GOOD + ', "sub": "bob"}').encode(),
        ("{" + GOOD + ', "x": {"y": 1, "y": 2}}').encode(), b"{" + GOOD.encode() + b', "x": NaN}',
        b"{" + GOOD.encode() + b', "x": ' + b"9" * 4400 + b"}", encode(make_claims()).encode(),
    ],
)  # fmt: skip
async def test_a_malformed_payload_is_refused_even_if_signed(payload: bytes) -> None:
    assert await refuse(forge(payload)) == "the token is malformed"


@pytest.mark.parametrize("secret", ["", "x", "x" * 31, "ä" * 15])
def test_a_short_secret_is_refused(secret: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^JWT_SECRET: must be at least 32 bytes"):
        TokenVerifier(secret=secret)
    with pytest.raises(ConfigurationError, match=r"^JWT_SECRET: "):
        issue_token(secret, tenant_id=UUID(TENANT), roles=[Role.READER], subject="a", ttl=1)


def test_a_public_key_is_refused_as_a_secret() -> None:
    public = rsa.generate_private_key(65537, 2048).public_key()
    for text in (
        public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH),
    ):
        with pytest.raises(ConfigurationError, match="not a public key"):
            TokenVerifier(secret=text.decode())


OLD, NEW, FOREIGN = "o" * 32, "n" * 32, "f" * 32


def sign(secret: str, **header: object) -> str:
    return forge(make_claims(), {**HS256, **header}, key=secret.encode())


async def test_each_of_two_named_secrets_verifies_the_tokens_that_name_it() -> None:
    verifier = TokenVerifier(named={"new": NEW, "old": OLD}, clock=lambda: NOW)
    for token in (sign(NEW, kid="new"), sign(OLD, kid="old"), sign(NEW), sign(OLD), sign(OLD, kid=None)):
        assert (await verifier.verify(token)).subject == "ada"
    for token in (sign(OLD, kid="new"), sign(NEW, kid="old"), sign(FOREIGN), sign(FOREIGN, kid="new")):
        assert await refuse(token, verifier) == "the token's signature is not valid"
    for kid in ("other", "", 1, ["new"], {"new": 1}, "new\x00"):
        assert await refuse(sign(NEW, kid=kid), verifier) == "the token's signing key is not known"


async def test_an_unnamed_secret_remains_valid_with_named_ones() -> None:
    verifier = TokenVerifier(secret=OLD, named={"new": NEW}, clock=lambda: NOW)
    for token in (sign(OLD), sign(OLD, kid="any"), sign(NEW, kid="new"), sign(NEW)):
        assert (await verifier.verify(token)).subject == "ada"
    for token in (sign(OLD, kid="new"), sign(NEW, kid="any"), sign(FOREIGN)):
        assert await refuse(token, verifier) == "the token's signature is not valid"


def test_a_verifier_needs_exactly_one_source_of_keys() -> None:
    with pytest.raises(ConfigurationError):
        TokenVerifier()


async def test_an_issued_token_is_accepted_by_its_verifier() -> None:
    token = issue_token(
        SECRET, tenant_id=UUID(TENANT), roles={Role.CREATOR}, subject="cli", ttl=60, audience="kb", issuer="me"
    )
    principal = await TokenVerifier(secret=SECRET, audience="kb", issuer="me").verify(token)
    assert principal.token_id is not None
    assert UUID(principal.token_id)
    assert principal == Principal("cli", UUID(TENANT), frozenset({Role.CREATOR}))
    again = issue_token(SECRET, tenant_id=None, roles=[Role.PLATFORM_ADMIN], subject="root", ttl=60)
    assert (await TokenVerifier(secret=SECRET).verify(again)).has(Role.PLATFORM_ADMIN)


@pytest.mark.parametrize(
    "changes",
    [
        {"ttl": 0}, {"ttl": -5}, {"ttl": 10**12}, {"roles": []}, {"subject": ""}, {"subject": "a\x00"},
        {"tenant_id": None},
    ],
)  # fmt: skip
def test_a_token_that_would_be_refused_is_not_issued(changes: dict[str, Any]) -> None:
    wanted = {"tenant_id": UUID(TENANT), "roles": [Role.READER], "subject": "ada", "ttl": 60, **changes}
    with pytest.raises(InvalidInput):
        issue_token(SECRET, **wanted)


@pytest.mark.parametrize("header", ["Bearer abc", "bearer abc", "BEARER  abc "])
def test_the_token_is_read_from_the_authorization_header(header: str) -> None:
    assert bearer_token(header) == "abc"


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer ", "Basic abc", "abc", "Bearerabc"])
def test_a_header_without_a_bearer_token_is_refused(header: str | None) -> None:
    with pytest.raises(Unauthenticated):
        bearer_token(header)


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
def clock() -> FakeClock:
    return FakeClock(float(NOW))


@pytest.fixture
def verifier(clock: FakeClock) -> TokenVerifier:
    return TokenVerifier(secret=SECRET, clock=clock)


@pytest.fixture
def signatures(monkeypatch: pytest.MonkeyPatch) -> Signatures:
    return Signatures(monkeypatch)


async def test_a_signature_is_verified_once_in_a_few_seconds(
    verifier: TokenVerifier, clock: FakeClock, signatures: Signatures
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
    verifier: TokenVerifier, clock: FakeClock, signatures: Signatures
) -> None:
    token = forge(make_claims(exp=NOW - 29))
    await verifier.verify(token)
    clock.now += 1.5
    with pytest.raises(Unauthenticated, match="expired"):
        await verifier.verify(token)
    assert signatures.verified == 1


async def test_a_token_is_not_valid_early_although_its_signature_was_verified(
    verifier: TokenVerifier, clock: FakeClock
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
