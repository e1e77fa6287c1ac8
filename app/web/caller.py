"""Who calls: a verified principal with a role in a tenant, and the rights of its transactions."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from app.auth.principal import Principal, Role
from app.db.principals import SERVICE, Rights, act_as, principals_of
from app.knowledge.tenants.context import TenantContext

RIGHTS = {Role.READER: Rights.READ, Role.CREATOR: Rights.WRITE, Role.TENANT_ADMIN: Rights.ADMINISTER}
"""The rights of a path in the database, by the role that it requires: a path for readers cannot write knowledge."""


@dataclass(frozen=True, slots=True)
class Caller:
    """A verified caller with a role in an existing tenant.

    `sees_all`: an admin of the tenant has asked for what it may not read otherwise.
    """

    principal: Principal
    tenant: TenantContext
    sees_all: bool = False

    def act(self, role: Role) -> None:
        """From here on, transactions are of this caller, with the rights of a path for `role`."""
        principals = SERVICE if self.sees_all else principals_of(self.subject, self.principal.groups)
        act_as(principals, RIGHTS[role])

    @property
    def tenant_id(self) -> UUID:
        """The tenant that the caller works in."""
        return self.tenant.tenant_id

    @property
    def subject(self) -> str:
        """The token's `sub`, for audit and receipts."""
        return self.principal.subject

    @property
    def sees_quarantined(self) -> bool:
        """Whether the caller may read what is in quarantine over HTTP and in the console: those who can correct it.

        The tools of MCP do not ask: agents get no quarantined text, whatever their role.
        """
        return self.principal.has(Role.CREATOR)
