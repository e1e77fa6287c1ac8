"""Who looks at a page, and what it may offer them."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import Request

from app.auth.principal import Principal, Role
from app.web.access import Caller


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who looks at a page, and what the page may offer."""

    subject: str
    tenant: str | None
    """The tenant's slug; None for a platform administrator."""
    can_write: bool
    is_admin: bool
    is_platform: bool


def visitor_of(request: Request) -> Visitor | None:
    """The page's visitor; None before sign-in."""
    principal: Principal | None = getattr(request.state, "principal", None)
    if principal is None:
        return None
    caller: Caller | None = getattr(request.state, "caller", None)
    return Visitor(
        principal.subject,
        caller.tenant.slug if caller is not None else None,
        can_write=principal.has(Role.CREATOR),
        is_admin=principal.has(Role.TENANT_ADMIN),
        is_platform=principal.has(Role.PLATFORM_ADMIN),
    )
