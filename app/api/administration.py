"""What admins do: a tenant's own stats, settings and records, and the platform's tenants."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import Query, Response

from app.api.dependencies import CurrentCaller, CurrentPrincipal, CurrentServices, secured_router
from app.api.models.administration import (
    AuditList,
    NewTenant,
    SettingsModel,
    SettingsPatch,
    Stats,
    TenantList,
    TenantModel,
)
from app.api.problems import problems
from app.api.rendering import json_response, page_response
from app.auth.principal import Role

tenant_admins = secured_router(Role.TENANT_ADMIN, "/admin", "administration")
platform_admins = secured_router(Role.PLATFORM_ADMIN, "/admin/tenants", "tenants")


@tenant_admins.get("/stats", operation_id="get_stats", response_model=Stats)
async def get_stats(caller: CurrentCaller, services: CurrentServices) -> Response:
    """Entries, assets, backlog, model, and the last day's searches."""
    return json_response(await services.administration.stats(caller.tenant.tenant_id))


@tenant_admins.get("/settings", operation_id="get_settings", response_model=SettingsModel)
async def get_settings(caller: CurrentCaller, services: CurrentServices) -> Response:
    """The tenant's settings."""
    return json_response(await services.administration.settings(caller.tenant.tenant_id))


@tenant_admins.patch(
    "/settings", operation_id="change_settings", response_model=SettingsModel, responses=problems(413, 415)
)
async def change_settings(patch: SettingsPatch, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Change some settings; null goes back to the service's default."""
    settings = await services.administration.change_settings(
        caller.tenant.tenant_id, patch.given(), actor=caller.subject
    )
    return json_response(settings)


@tenant_admins.get("/audit", operation_id="list_audit", response_model=AuditList)
async def list_audit(
    caller: CurrentCaller,
    services: CurrentServices,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    cursor: Annotated[str | None, Query(max_length=200)] = None,
) -> Response:
    """Who changed what, newest first; metadata only."""
    return page_response(
        await services.administration.audit(caller.tenant.tenant_id, limit=limit, cursor=cursor)
    )


@tenant_admins.get(
    "/searches/{search_id}",
    operation_id="get_search_receipt",
    response_model=dict[str, Any],
    responses=problems(404),
)
async def get_search_receipt(search_id: UUID, caller: CurrentCaller, services: CurrentServices) -> Response:
    """What a search of the last 24 hours did: its settings, model, and every candidate's ranks."""
    return json_response(await services.administration.receipt(caller.tenant.tenant_id, search_id))


@platform_admins.get("", operation_id="list_tenants", response_model=TenantList)
async def list_tenants(principal: CurrentPrincipal, services: CurrentServices) -> Response:
    """All tenants, oldest first."""
    return json_response({"items": await services.tenants.list_tenants(), "next_cursor": None})


@platform_admins.post(
    "",
    operation_id="create_tenant",
    status_code=201,
    response_model=TenantModel,
    responses=problems(409, 413, 415),
)
async def create_tenant(
    tenant: NewTenant, principal: CurrentPrincipal, services: CurrentServices
) -> Response:
    """Add a tenant."""
    created = await services.tenants.create(tenant.slug, tenant.name, actor=principal.subject)
    return json_response(created, 201, {"Location": f"/admin/tenants/{created.id}"})


@platform_admins.delete(
    "/{tenant_id}", operation_id="delete_tenant", status_code=204, responses=problems(404)
)
async def delete_tenant(tenant_id: UUID, principal: CurrentPrincipal, services: CurrentServices) -> Response:
    """Remove a tenant and everything it has."""
    await services.tenants.delete(tenant_id, actor=principal.subject)
    return Response(status_code=204)
