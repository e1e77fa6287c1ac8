"""The visitor of a page and the functions that it may offer."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import Request

from app.auth.principal import Principal, Role
from app.web.caller import Caller


@dataclass(frozen=True, slots=True)
class Visitor:
    """The visitor of a page, and the functions that the page may offer."""

    subject: str
    tenant: str | None
    """The tenant's slug; None for a platform administrator."""
    can_write: bool
    is_admin: bool
    is_platform: bool


def visitor_of(request: Request) -> Visitor | None:
    """The visitor of the page; None before sign-in."""
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
