"""Roles, and the claims that name a caller."""

import json
from typing import Any
from uuid import UUID

import pytest

from app.auth.principal import Principal, Role
from app.errors import Forbidden
from tests.auth.verification import make_verifier, refuse
from tests.fixtures.http.expectations import each
from tests.fixtures.identity.forgery import NOW, TENANT, forge, make_claims

TENANT_ID = UUID(int=7)


@pytest.mark.parametrize(
    ("own", "granted"),
    [
        (set(), set()),
        ({Role.READER}, {Role.READER}),
        ({Role.CREATOR}, {Role.READER, Role.CREATOR}),
        ({Role.TENANT_ADMIN}, {Role.READER, Role.CREATOR, Role.TENANT_ADMIN}),
        ({Role.PLATFORM_ADMIN}, {Role.PLATFORM_ADMIN}),
        ({Role.PLATFORM_ADMIN, Role.TENANT_ADMIN}, {Role.PLATFORM_ADMIN}),
        ({Role.READER, Role.CREATOR}, {Role.READER, Role.CREATOR}),
    ],
)
def test_a_principal_has_the_roles_that_its_own_include(own: set[Role], granted: set[Role]) -> None:
    principal = Principal("ada", TENANT_ID, frozenset(own))
    assert {role for role in Role if principal.has(role)} == granted
    clause = ", in a token without platform_admin" if Role.PLATFORM_ADMIN in own else ""
    for role in Role:
        if role in granted:
            principal.require(role)
        else:
            with pytest.raises(Forbidden, match=f"^this requires the role {role.value}{clause}$"):
                principal.require(role)


def test_a_principal_has_the_roles_included_in_its_own() -> None:
    reader = Principal("ada", TENANT_ID, frozenset({Role.READER}))
    assert reader.require_tenant(Role.READER) == TENANT_ID
    with pytest.raises(Forbidden):
        reader.require_tenant(Role.CREATOR)


def test_require_tenant_gives_the_tenant_only_with_the_role() -> None:
    both = Principal("root", TENANT_ID, frozenset({Role.PLATFORM_ADMIN, Role.READER}))
    with pytest.raises(Forbidden):
        both.require_tenant(Role.READER)
    with pytest.raises(Forbidden, match="a tenant's token"):
        Principal("root", None, frozenset({Role.PLATFORM_ADMIN})).require_tenant(Role.PLATFORM_ADMIN)


MOMENTS: tuple[object, ...] = (str(NOW + 600), True, [NOW + 600], {}, -1, 10**12, 10**400, 1e300)
TENANTS = (
    "", "demo", TENANT[:-1], f"{{{TENANT}}}", f"urn:uuid:{TENANT}", TENANT.replace("-", ""), f"{TENANT}\n",
    f" {TENANT}", [TENANT], {"id": TENANT}, 7, True, "٠" * 8 + TENANT[8:], f"{TENANT}\x00",
)  # fmt: skip
ROLES = ("reader", {"reader": 1}, 1, True, [["reader"]], ["reader", 1], [None])
SUBJECTS: tuple[object, ...] = (
    "", " ", " ada", "ada ", "a\tb", "a\nb", "a\x00b", "\ud800", "a\u2028b", "a\x7f", "x" * 256, 1, ["ada"], {}, True,
)  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        *(({name: value}, name) for name in ("sub", "roles", "tenant_id", "exp") for value in (..., None)),
        *(({name: at}, f"the token's {name} must be") for name in ("exp", "nbf", "iat") for at in MOMENTS),
        *(({"exp": at}, "the token has expired") for at in (NOW - 30, NOW - 31, 0)),
        *(({name: NOW + 31}, "the token is not valid yet") for name in ("nbf", "iat")),
        *(({"sub": subject}, "sub must be") for subject in SUBJECTS),
        *(({"tenant_id": tenant}, "tenant_id must be") for tenant in TENANTS),
        *(({"tenant_id": tenant, "roles": ["platform_admin"]}, "tenant_id must be") for tenant in TENANTS),
        *(({"roles": roles}, "roles must be") for roles in ROLES),
        *(({"jti": jti}, "jti") for jti in ("", "x" * 256, 1, ["a"], {"a": 1}, True)),
        *(({"aud": audience}, "aud") for audience in ("kb", [], ["kb"], None, 1)),
    ],
)
async def test_a_claim_that_is_missing_or_malformed_is_named(changes: dict[str, Any], told: str) -> None:
    assert told in await refuse(forge(make_claims(**changes)))


@pytest.mark.parametrize("number", [b"1e999", b"-1e999"])
async def test_an_infinite_expiry_is_refused(number: bytes) -> None:
    payload = json.dumps(make_claims(exp=0)).encode().replace(b'"exp": 0', b'"exp": ' + number)
    assert number in payload
    assert "exp must be" in await refuse(forge(payload))


@pytest.mark.parametrize("roles", [[], ["owner", "READER", "reader ", "\ud800"]])
async def test_unknown_roles_give_no_rights(roles: list[str]) -> None:
    principal = await make_verifier().verify(forge(make_claims(roles=roles)))
    assert not any(principal.has(role) for role in Role)


async def test_only_a_platform_administrator_may_have_no_tenant() -> None:
    for tenant in (None, ...):
        claims = make_claims(tenant_id=tenant, roles=["platform_admin", "tenant_admin"])
        principal = await make_verifier().verify(forge(claims))
        assert principal.tenant_id is None
        assert [role for role in Role if principal.has(role)] == [Role.PLATFORM_ADMIN]
        await refuse(forge(make_claims(tenant_id=tenant, roles=["tenant_admin"])))
        await refuse(forge(make_claims(tenant_id=tenant, roles=["unknown"])))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *each("aud", ..., None, "other", "KB", "", [], ["other"], [["kb"]], {"kb": 1}, ["kb", 1]),
        *each("iss", ..., None, "other", ["https://i.example"], "https://i.example/"),
    ],
)
async def test_the_configured_audience_and_issuer_must_match(name: str, value: object) -> None:
    verifier = make_verifier(audience="kb", issuer="https://i.example")
    claims = {"aud": "kb", "iss": "https://i.example", name: value}
    assert name in await refuse(forge(make_claims(**claims)), verifier)


@pytest.mark.parametrize("audience", ["kb", ["other", "kb"]])
async def test_the_configured_audience_is_accepted(audience: object) -> None:
    principal = await make_verifier(audience="kb").verify(forge(make_claims(aud=audience)))
    assert principal.subject == "ada"
