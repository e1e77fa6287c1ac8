"""What each role may do."""

from __future__ import annotations

from uuid import UUID

import pytest

from app.auth.principal import Principal, Role
from app.errors import Forbidden

TENANT = UUID(int=7)


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
    principal = Principal("ada", TENANT, frozenset(own))
    assert {role for role in Role if principal.has(role)} == granted
    clause = ", in a token without platform_admin" if Role.PLATFORM_ADMIN in own else ""
    for role in Role:
        if role in granted:
            principal.require(role)
        else:
            with pytest.raises(Forbidden, match=f"^this requires the role {role.value}{clause}$"):
                principal.require(role)


def test_a_principal_has_the_roles_included_in_its_own() -> None:
    reader = Principal("ada", TENANT, frozenset({Role.READER}))
    assert reader.require_tenant(Role.READER) == TENANT
    with pytest.raises(Forbidden):
        reader.require_tenant(Role.CREATOR)


def test_require_tenant_gives_the_tenant_only_with_the_role() -> None:
    both = Principal("root", TENANT, frozenset({Role.PLATFORM_ADMIN, Role.READER}))
    with pytest.raises(Forbidden):
        both.require_tenant(Role.READER)
    with pytest.raises(Forbidden, match="a tenant's token"):
        Principal("root", None, frozenset({Role.PLATFORM_ADMIN})).require_tenant(Role.PLATFORM_ADMIN)
