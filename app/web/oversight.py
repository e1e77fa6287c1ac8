"""What an admin sees of a tenant whose callers may not all read everything.

An admin may see all of it, but not silently: the request says so, and the audit trail records it.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Header, Request
from pydantic import WithJsonSchema

from app.auth.principal import Principal, Role
from app.errors import Forbidden, InvalidInput
from app.knowledge.tenants.context import TenantContext
from app.knowledge.tenants.directory import TenantDirectory
from app.web.headers import ACCESS

Access = Annotated[
    str | None,
    WithJsonSchema({"type": "string", "enum": ["all"]}),
    Header(
        alias=ACCESS,
        description="`all`: see and change the whole tenant. The audit trail records it.",
    ),
]
NARROW = (
    "/admin/settings",
    "/admin/revoked-tokens",
    "/console/settings",
    "/console/access/change",
    "/console/everything",
)
"""Paths of the administration that show nothing of entries that the admin may not read, and the one of the console at
which it begins to see all."""


class OverviewRefused(Forbidden):
    """Not all readers of the tenant may read everything, and its admin did not ask to see all."""


async def describe_access(_access: Access = None) -> None:
    """Describe the header in the OpenAPI document; `asks_for_all` reads it before the handler runs."""


def asks_for_all(request: Request, principal: Principal) -> bool:
    """Whether the request has the header ACCESS. Raises InvalidInput, and Forbidden for callers without that role."""
    asked = request.headers.get(ACCESS)
    if asked is None:
        return False
    if asked != "all":
        raise InvalidInput.of(ACCESS, "must be all, or absent")
    principal.require(Role.TENANT_ADMIN)
    return True


async def refuse_overview(
    request: Request, role: Role, tenant: TenantContext, tenants: TenantDirectory, *, sees_all: bool
) -> None:
    """Raise OverviewRefused for a path of the administration that shows the whole of a tenant with permissions.

    Its numbers and ids would tell of entries that the admin may not read.
    """
    if role is Role.TENANT_ADMIN and not request.url.path.startswith(NARROW):
        await require_overview(tenant, tenants, sees_all=sees_all)


async def require_overview(tenant: TenantContext, tenants: TenantDirectory, *, sees_all: bool) -> None:
    """Raise OverviewRefused unless the caller sees all, or all its readers do."""
    if sees_all:
        return
    if not tenant.restricted:
        # What is known may be older than the first entry with readers.
        tenants.forget(tenant.tenant_id)
        tenant = await tenants.context(tenant.tenant_id)
    if tenant.restricted:
        raise OverviewRefused(
            f"not all readers of this tenant may read everything: send {ACCESS}: all (KB_ACCESS=all for commands)"
        )
