"""The visitor of a page: allowed functions, and an admin's choice to see everything."""

import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from fastapi import Request, Response

from app.auth.principal import Principal, Role
from app.db.principals import name_group, name_user
from app.knowledge.tenants.directory import TenantContext
from app.web.access import Caller

EVERYTHING_COOKIE = "kb_console_everything"
PATH = "/console"
PAGE_STATE, SHOWN = "X-Console-Sees", "shown"
"""The header and the parameter in which a page, and its forms, state for which visitor they were made."""


def asks_for_everything(request: Request, token: str) -> bool:
    """Whether the admin with this token has begun to see everything; another session begins without it."""
    return hmac.compare_digest(request.cookies.get(EVERYTHING_COOKIE, "").encode(), _seal(token).encode())


def begin_everything(response: Response, token: str, *, secure: bool) -> None:
    """See everything from the next request on, until the session ends."""
    response.set_cookie(EVERYTHING_COOKIE, _seal(token), path=PATH, httponly=True, samesite="strict", secure=secure)


def end_everything(response: Response) -> None:
    """See what the token may read, from the next request on."""
    response.delete_cookie(EVERYTHING_COOKIE, path=PATH)


def _seal(token: str) -> str:
    return sha256(b"everything " + token.encode()).hexdigest()


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
    """Whether an admin sees everything in the tenant, beyond its own rights."""

    @property
    def state(self) -> str:
        """What a page states: its tenant, and whether its visitor sees everything there."""
        return f"{self.tenant or ''}:{'all' if self.sees_all else 'own'}"

    @property
    def principals(self) -> Sequence[str]:
        """The visitor's principals in lists of readers and writers."""
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


def is_outdated(request: Request) -> bool:
    """Whether the page that sends a request was made for another visitor: another tab has signed in to another tenant,
    or has begun or ended to see everything."""
    of_form = None if request.method == "GET" else request.query_params.get(SHOWN)
    shown, visitor = request.headers.get(PAGE_STATE, of_form), visitor_of(request)
    return shown is not None and visitor is not None and shown != visitor.state
