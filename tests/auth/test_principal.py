"""Roles, and the claims that name a caller."""

from __future__ import annotations

import json
from uuid import UUID

import pytest

from app.auth.principal import Principal, Role
from app.errors import Forbidden
from tests.auth.verification import make_verifier, refuse
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


@pytest.mark.parametrize("name", ["sub", "roles", "tenant_id", "exp"])
async def test_a_missing_claim_is_named(name: str) -> None:
    assert name in await refuse(forge(make_claims(**{name: ...})))
    assert name in await refuse(forge(make_claims(**{name: None})))


@pytest.mark.parametrize("moment", [str(NOW + 600), True, [NOW + 600], {}, -1, 10**12, 10**400, 1e300])
@pytest.mark.parametrize("name", ["exp", "nbf", "iat"])
async def test_a_malformed_time_is_refused(name: str, moment: object) -> None:
    assert f"the token's {name} must be" in await refuse(forge(make_claims(**{name: moment})))


@pytest.mark.parametrize("number", [b"1e999", b"-1e999"])
async def test_an_infinite_expiry_is_refused(number: bytes) -> None:
    payload = json.dumps(make_claims(exp=0)).encode().replace(b'"exp": 0', b'"exp": ' + number)
    assert number in payload
    assert "exp must be" in await refuse(forge(payload))


async def test_an_expired_token_is_refused() -> None:
    for moment in (NOW - 30, NOW - 31, 0):
        assert await refuse(forge(make_claims(exp=moment))) == "the token has expired"


@pytest.mark.parametrize("name", ["nbf", "iat"])
async def test_a_token_from_the_future_is_refused(name: str) -> None:
    assert await refuse(forge(make_claims(**{name: NOW + 31}))) == "the token is not valid yet"


@pytest.mark.parametrize(
    "subject",
    [
        "",
        " ",
        " ada",
        "ada ",
        "a\tb",
        "a\nb",
        "a\x00b",
        "\ud800",
        "a\u2028b",
        "a\x7f",
        "x" * 256,
        1,
        ["ada"],
        {},
        True,
    ],
)
async def test_a_malformed_subject_is_refused(subject: object) -> None:
    assert "sub must be" in await refuse(forge(make_claims(sub=subject)))


@pytest.mark.parametrize(
    "tenant",
    ["", "demo", TENANT[:-1], f"{{{TENANT}}}", f"urn:uuid:{TENANT}", TENANT.replace("-", ""), f"{TENANT}\n",
     f" {TENANT}", [TENANT], {"id": TENANT}, 7, True, "٠" * 8 + TENANT[8:], f"{TENANT}\x00"]
)  # fmt: skip
async def test_a_tenant_that_is_not_a_uuid_is_refused(tenant: object) -> None:
    for roles in (["reader"], ["platform_admin"]):
        assert "tenant_id must be" in await refuse(forge(make_claims(tenant_id=tenant, roles=roles)))


@pytest.mark.parametrize("roles", ["reader", {"reader": 1}, 1, True, [["reader"]], ["reader", 1], [None]])
async def test_roles_other_than_a_list_of_strings_are_refused(roles: object) -> None:
    assert "roles must be" in await refuse(forge(make_claims(roles=roles)))


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


@pytest.mark.parametrize("audience", [..., None, "other", "KB", "", [], ["other"], [["kb"]], {"kb": 1}, ["kb", 1]])
async def test_the_configured_audience_must_be_named(audience: object) -> None:
    assert "aud" in await refuse(forge(make_claims(aud=audience)), make_verifier(audience="kb"))


@pytest.mark.parametrize("audience", ["kb", ["other", "kb"]])
async def test_the_configured_audience_is_accepted(audience: object) -> None:
    principal = await make_verifier(audience="kb").verify(forge(make_claims(aud=audience)))
    assert principal.subject == "ada"


@pytest.mark.parametrize("audience", ["kb", [], ["kb"], None, 1])
async def test_an_audience_is_refused_when_none_is_configured(audience: object) -> None:
    assert "aud" in await refuse(forge(make_claims(aud=audience)))


@pytest.mark.parametrize("issuer", [..., None, "other", ["https://i.example"], "https://i.example/"])
async def test_the_configured_issuer_must_match(issuer: object) -> None:
    assert "iss" in await refuse(forge(make_claims(iss=issuer)), make_verifier(issuer="https://i.example"))
