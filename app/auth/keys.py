"""An issuer's public keys, read from a JSON Web Key Set (RFC 7517)."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, rsa

PublicKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey

_RSA_ALGORITHMS = frozenset({"RS256", "RS384", "RS512"})
_CURVES: dict[str, tuple[str, ec.EllipticCurve]] = {
    "P-256": ("ES256", ec.SECP256R1()),
    "P-384": ("ES384", ec.SECP384R1()),
    "P-521": ("ES512", ec.SECP521R1()),
}
ALGORITHMS = _RSA_ALGORITHMS | {algorithm for algorithm, _ in _CURVES.values()}
"""Signatures accepted from an issuer: all asymmetric ones that jose has (no PS256, no EdDSA)."""

MAX_KEYS = 100
_RSA_BITS = range(2048, 8193)
_BASE64URL = re.compile(r"[A-Za-z0-9_-]{1,2048}", re.ASCII)


class UnusableKeySet(Exception):
    """The issuer's document is not a key set."""


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A public key, its id, and the algorithms that it may verify."""

    kid: str | None
    algorithms: frozenset[str]
    public_key: PublicKey


def parse_key_set(document: bytes) -> tuple[SigningKey, ...]:
    """Read the usable keys of a key set; keys for other purposes or of other types are skipped.

    Raises UnusableKeySet if the document is not a key set.
    """
    try:
        value = json.loads(document)
    except (ValueError, RecursionError):
        raise UnusableKeySet("not JSON") from None
    keys = value.get("keys") if isinstance(value, dict) else None
    if not isinstance(keys, list):
        raise UnusableKeySet("not a list of keys")
    if len(keys) > MAX_KEYS:
        raise UnusableKeySet(f"more than {MAX_KEYS} keys")
    parsed = (_parse_key(key) for key in keys if isinstance(key, dict))
    return tuple(key for key in parsed if key is not None)


def find_key(keys: Sequence[SigningKey], kid: str | None, algorithm: str) -> PublicKey | None:
    """The one key with this id for this algorithm; without an id, the only key for it. Otherwise None."""
    found = [k for k in keys if algorithm in k.algorithms and (kid is None or k.kid == kid)]
    return found[0].public_key if len(found) == 1 else None


def _parse_key(key: Mapping[str, object]) -> SigningKey | None:
    kid, operations = key.get("kid"), key.get("key_ops", ["verify"])
    if key.get("use", "sig") != "sig" or not isinstance(operations, list) or "verify" not in operations:
        return None
    if kid is not None and not isinstance(kid, str):
        return None
    try:
        if key.get("kty") == "RSA":
            public_key, algorithms = _parse_rsa(key), _RSA_ALGORITHMS
        elif key.get("kty") == "EC":
            public_key, algorithms = _parse_ec(key)
        else:
            return None
    except (ValueError, UnsupportedAlgorithm):
        return None
    if "alg" in key:
        algorithms = algorithms & {key["alg"]} if isinstance(key["alg"], str) else frozenset()
    return SigningKey(kid, algorithms, public_key) if algorithms else None


def _parse_rsa(key: Mapping[str, object]) -> PublicKey:
    modulus, exponent = _integer(key.get("n")), _integer(key.get("e"))
    if modulus.bit_length() not in _RSA_BITS or exponent.bit_length() > 32:
        raise ValueError("the size of the RSA key is not accepted")
    return rsa.RSAPublicNumbers(exponent, modulus).public_key()


def _parse_ec(key: Mapping[str, object]) -> tuple[PublicKey, frozenset[str]]:
    name = key.get("crv")
    if not isinstance(name, str) or name not in _CURVES:
        raise ValueError("the curve is not accepted")
    algorithm, curve = _CURVES[name]
    numbers = ec.EllipticCurvePublicNumbers(_integer(key.get("x")), _integer(key.get("y")), curve)
    return numbers.public_key(), frozenset({algorithm})


def _integer(value: object) -> int:
    if not isinstance(value, str) or not _BASE64URL.fullmatch(value):
        raise ValueError("not a base64url number")
    return int.from_bytes(base64.urlsafe_b64decode(value + "=" * (-len(value) % 4)), "big")
