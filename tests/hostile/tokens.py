"""Every forged token, by the name of its attack; each is valid except for one fault."""

import base64
from collections.abc import Mapping
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from app.auth.tokens import MAX_TOKEN_CHARACTERS
from tests.fixtures.identity.forgery import encode, forge, forge_asymmetric, make_claims, to_jwk

HS256 = {"alg": "HS256", "typ": "JWT"}
AUDIENCE = "kb"
ISSUER = "https://issuer.example"

RSA = rsa.generate_private_key(65537, 2048)
EC = ec.generate_private_key(ec.SECP256R1())
STRANGER = rsa.generate_private_key(65537, 2048)
PUBLISHED = (to_jwk(RSA, kid="r", alg="RS256", use="sig"), to_jwk(EC, kid="e", use="sig"))


def make_good_claims(now: float, tenant: str, **changes: Any) -> dict[str, Any]:
    """Claims that are accepted now, with `changes`; the value `...` removes a claim."""
    good = {"tenant_id": tenant, "exp": now + 600, "aud": AUDIENCE, "iss": ISSUER}
    return make_claims(**{**good, **changes})


def forge_claims(now: float, tenant: str) -> Mapping[str, dict[str, Any]]:
    """Claims that are refused even with a valid signature."""
    changes: dict[str, dict[str, Any]] = {
        "no exp": {"exp": ...},
        "expired beyond the leeway": {"exp": now - 31},
        "exp as text": {"exp": str(int(now + 600))},
        "exp that is infinite": {"exp": 1e308},
        "nbf in the future": {"nbf": now + 60},
        "iat in the future": {"iat": now + 60},
        "no aud": {"aud": ...},
        "another aud": {"aud": ["other"]},
        "no iss": {"iss": ...},
        "another iss": {"iss": "https://issuer.example.evil.example"},
        "no sub": {"sub": ...},
        "sub with a line break": {"sub": "ada\nroot"},
        "no roles": {"roles": ...},
        "roles as text": {"roles": "tenant_admin"},
        "no tenant": {"tenant_id": ...},
        "tenant null": {"tenant_id": None},
        "tenant that is not a UUID": {"tenant_id": "' or 1=1 --"},
        "tenant in braces": {"tenant_id": f"{{{tenant}}}"},
        "tenants in a list": {"tenant_id": [tenant]},
        "tenant of a platform administrator that is not a UUID": {"tenant_id": "*", "roles": ["platform_admin"]},
    }
    return {name: make_good_claims(now, tenant, **change) for name, change in changes.items()}


def forge_shared(now: float, tenant: str, key: bytes) -> Mapping[str, str]:
    """Tokens for a service that shares the secret `key` with its issuer."""
    good = make_good_claims(now, tenant)
    admin = make_good_claims(now, tenant, roles=["tenant_admin"])
    head, _, signature = forge(good, key=key).split(".")
    unsigned = f"{encode({'alg': 'none'})}.{encode(good)}"
    kids = ("../../../dev/null", "x' union select 'a", "http://127.0.0.1:1/key", "\x00")
    return {
        **{name: forge(claims, key=key) for name, claims in forge_claims(now, tenant).items()},
        "alg none": f"{unsigned}.",
        "alg none with a signature": f"{unsigned}.{signature}",
        "alg in capitals": forge(good, {"alg": "NONE"}, key=key),
        "no alg": forge(good, {"typ": "JWT"}, key=key),
        "alg HS384": forge(good, {"alg": "HS384"}, key=key, digest="sha384"),
        "alg RS256": forge(good, {"alg": "RS256"}, key=key),
        "another secret": forge(good, key=b"x" * 40),
        "an empty secret": forge(good, key=b""),
        "claims changed after signing": f"{head}.{encode(admin)}.{signature}",
        "no signature": f"{head}.{encode(good)}.",
        "crit": forge(good, {**HS256, "crit": ["b64"], "b64": False}, key=key),
        "another kind": forge(good, {"alg": "HS256", "typ": "logout+jwt"}, key=key),
        "repeated claim": forge(
            base64.urlsafe_b64decode(encode(good) + "==")[:-1] + b', "roles": ["tenant_admin"]}', key=key
        ),
        "encrypted": f"{encode({'alg': 'dir', 'enc': 'A256GCM'})}..{encode(b'i' * 12)}.{encode(b'c')}.{encode(b't')}",
        "too long": forge({**good, "padding": "x" * MAX_TOKEN_CHARACTERS}, key=key),
        "five megabytes": forge({**good, "padding": "x" * 5_000_000}, key=key),
        "five megabytes of no token": "a" * 5_000_000,
        **{f"kid {kid!r}": forge(good, {**HS256, "kid": kid}, key=b"") for kid in kids},
        "another key offered": forge(good, {**HS256, "jwk": {"kty": "oct", "k": encode(b"x" * 40)}}, key=b"x" * 40),
    }


def forge_issued(now: float, tenant: str) -> Mapping[str, str]:
    """Tokens for a service whose issuer publishes `PUBLISHED`."""
    good = make_good_claims(now, tenant)
    header = {"alg": "RS256", "kid": "r"}
    public = RSA.public_key()
    forms = {
        "PEM": public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        "PEM of PKCS 1": public.public_bytes(Encoding.PEM, PublicFormat.PKCS1),
        "DER": public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
    }
    kids = ("unheard-of", "../../../dev/null", "' or 1=1 --", "http://127.0.0.1:1/key", "r\x00")
    offers: dict[str, Any] = {
        "jku": "http://127.0.0.1:1/keys",
        "x5u": "http://127.0.0.1:1/certificate",
        "x5c": ["MIIB"],
        "jwk": to_jwk(STRANGER, kid="r"),
    }
    return {
        **{name: forge_asymmetric(claims, RSA, header) for name, claims in forge_claims(now, tenant).items()},
        **{
            f"public key as a secret: {form}": forge(good, {"alg": "HS256", "kid": "r"}, key=key)
            for form, key in forms.items()
        },
        **{
            f"public key as a secret, said to be RS256: {form}": forge(good, header, key=key)
            for form, key in forms.items()
        },
        "alg none": f"{encode({'alg': 'none', 'kid': 'r'})}.{encode(good)}.",
        "another key": forge_asymmetric(good, STRANGER, header),
        "another key without kid": forge_asymmetric(good, STRANGER, {"alg": "RS256"}),
        "key used for another algorithm": forge_asymmetric(good, RSA, {"alg": "RS384", "kid": "r"}),
        "key of another kind": forge_asymmetric(good, EC, {"alg": "RS256", "kid": "e"}),
        "crit": forge_asymmetric(good, RSA, {**header, "crit": ["x"], "x": 1}),
        **{f"kid {kid!r}": forge_asymmetric(good, STRANGER, {"alg": "RS256", "kid": kid}) for kid in kids},
        **{
            f"{name} offered": forge_asymmetric(good, STRANGER, {**header, name: offer})
            for name, offer in offers.items()
        },
        "unheard-of kid of a published key": forge_asymmetric(good, RSA, {"alg": "RS256", "kid": "s"}),
    }
