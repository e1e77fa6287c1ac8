"""Tokens built by hand, honest and malicious, without the library under test."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

SECRET = "correct horse battery staple 0123456789"
NOW = 1_800_000_000
TENANT = "6f2c1c36-6b1c-4a55-9d3d-0a8d3c1b2a10"

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


def make_claims(**changes: Any) -> dict[str, Any]:
    """Claims that are accepted at `NOW`, with `changes`; a change to `...` leaves the claim out."""
    claims = {"sub": "ada", "tenant_id": TENANT, "roles": ["reader"], "exp": NOW + 600, **changes}
    return {name: value for name, value in claims.items() if value is not ...}


def encode(data: bytes | dict[str, Any]) -> str:
    """base64url without padding, of the bytes or of the object's JSON."""
    raw = json.dumps(data).encode() if isinstance(data, dict) else data
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def forge(
    claims: bytes | dict[str, Any],
    header: bytes | dict[str, Any] | None = None,
    *,
    key: bytes = SECRET.encode(),
    digest: str = "sha256",
) -> str:
    """A token with an HMAC signature over exactly these bytes."""
    signed = f"{encode({'alg': 'HS256', 'typ': 'JWT'} if header is None else header)}.{encode(claims)}"
    signature = hmac.new(key, signed.encode(), getattr(hashlib, digest)).digest()
    return f"{signed}.{encode(signature)}"


def forge_asymmetric(claims: dict[str, Any], key: PrivateKey, header: dict[str, Any]) -> str:
    """A token signed with SHA-256 by `key`, whatever `header` claims."""
    signed = f"{encode(header)}.{encode(claims)}"
    if isinstance(key, rsa.RSAPrivateKey):
        signature = key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
    else:
        size = (key.curve.key_size + 7) // 8
        r, s = decode_dss_signature(key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        signature = r.to_bytes(size, "big") + s.to_bytes(size, "big")
    return f"{signed}.{encode(signature)}"


def to_jwk(key: PrivateKey, **fields: Any) -> dict[str, Any]:
    """The public half as an entry of a key set."""
    numbers = key.public_key().public_numbers()
    if isinstance(numbers, rsa.RSAPublicNumbers):
        public = {"kty": "RSA", "n": _number(numbers.n), "e": _number(numbers.e)}
    else:
        curve = {256: "P-256", 384: "P-384", 521: "P-521"}[numbers.curve.key_size]
        size = (numbers.curve.key_size + 7) // 8
        public = {"kty": "EC", "crv": curve, "x": _number(numbers.x, size), "y": _number(numbers.y, size)}
    return {**public, **fields}


def _number(value: int, size: int | None = None) -> str:
    return encode(value.to_bytes(size or (value.bit_length() + 7) // 8, "big"))
