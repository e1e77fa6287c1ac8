"""The caller and its roles."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from uuid import UUID

from app.errors import Forbidden


class Role(StrEnum):
    """A role of the service, as in a token's `roles`."""

    READER = "reader"
    CREATOR = "creator"
    TENANT_ADMIN = "tenant_admin"
    PLATFORM_ADMIN = "platform_admin"


_INCLUDES: dict[Role, frozenset[Role]] = {
    Role.READER: frozenset({Role.READER}),
    Role.CREATOR: frozenset({Role.CREATOR, Role.READER}),
    Role.TENANT_ADMIN: frozenset({Role.TENANT_ADMIN, Role.CREATOR, Role.READER}),
    Role.PLATFORM_ADMIN: frozenset({Role.PLATFORM_ADMIN}),
}


@dataclass(frozen=True, slots=True)
class Principal:
    """A caller whose token was verified.

    A platform admin manages tenants and cannot read any tenant's knowledge: `platform_admin` together with other
    roles cancels them, so that no token can do both. Only a platform admin's `tenant_id` may be None. `token_id` is the
    token's `jti`, by which it can be revoked, and `groups` are those that the token names.
    """

    subject: str
    tenant_id: UUID | None
    roles: frozenset[Role]
    token_id: str | None = field(default=None, compare=False)
    groups: tuple[str, ...] = ()

    def has(self, role: Role) -> bool:
        """Whether one of the caller's roles is `role` or includes it."""
        if Role.PLATFORM_ADMIN in self.roles:
            return role is Role.PLATFORM_ADMIN
        return any(role in _INCLUDES[own] for own in self.roles)

    def require(self, role: Role) -> None:
        """Raise Forbidden unless the caller has `role`."""
        if not self.has(role):
            # The token may have the role, but platform_admin cancels it.
            platform = Role.PLATFORM_ADMIN in self.roles
            clause = f", in a token without {Role.PLATFORM_ADMIN.value}" if platform else ""
            raise Forbidden(f"this requires the role {role.value}{clause}")

    def require_tenant(self, role: Role) -> UUID:
        """The tenant in which the caller has `role`, one of the tenant roles. Raises Forbidden."""
        self.require(role)
        if self.tenant_id is None:
            raise Forbidden("this requires a tenant's token")
        return self.tenant_id
