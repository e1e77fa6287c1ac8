"""The visitor of a page and the functions that it may offer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import Request

from app.auth.principal import Principal, Role
from app.db.principals import name_group, name_user
from app.knowledge.tenants.context import TenantContext
from app.web.access import Caller


@dataclass(frozen=True, slots=True)
class Visitor:
    """The visitor of a page, and the functions that the page may offer."""

    subject: str
    tenant: str | None
    """The tenant's slug; None for a platform administrator."""
    groups: Sequence[str]
    can_write: bool
    is_admin: bool
    is_platform: bool
    sees_all: bool = False
    """Whether an admin sees everything in the tenant, and not only what it may read otherwise."""

    @property
    def principals(self) -> Sequence[str]:
        """What lists of readers and writers can contain of the visitor."""
        return (name_user(self.subject), *map(name_group, self.groups))

    def may_change(self, writers: Sequence[str] | None) -> bool:
        """Whether a page offers to change an item with these writers; the database decides."""
        if not self.can_write or writers is None or self.sees_all:
            return self.can_write
        return not set(writers).isdisjoint(self.principals)


def visitor_of(request: Request) -> Visitor | None:
    """The visitor of the page; None before sign-in."""
    principal: Principal | None = getattr(request.state, "principal", None)
    if principal is None:
        return None
    caller: Caller | None = getattr(request.state, "caller", None)
    tenant: TenantContext | None = getattr(request.state, "tenant", None)
    return Visitor(
        principal.subject,
        tenant.slug if tenant is not None else None,
        principal.groups,
        can_write=principal.has(Role.CREATOR),
        is_admin=principal.has(Role.TENANT_ADMIN),
        is_platform=principal.has(Role.PLATFORM_ADMIN),
        sees_all=caller is not None and caller.sees_all,
    )
