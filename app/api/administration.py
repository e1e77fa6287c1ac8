"""What admins do: a tenant's own stats, settings and records, and the platform's tenants."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from fastapi import Response

from app.auth.principal import Role
from app.knowledge.reembedding.change import ModelChange
from app.knowledge.tenants.limits import NAMES
from app.web.access import (
    CurrentCaller,
    CurrentPrincipal,
    CurrentServices,
    secured_router,
)
from app.web.models.administration import (
    AuditList,
    ModelChangeModel,
    NewModelChange,
    NewTenant,
    SettingsModel,
    SettingsPatch,
    Stats,
    TenantLimits,
    TenantList,
    TenantModel,
    TenantPatch,
)
from app.web.pages import PAGE_SIZE, PageCursor, PageSize, page_response
from app.web.problems import problems
from app.web.rendering import describe_change, describe_search, json_response

tenant_admins = secured_router(Role.TENANT_ADMIN, "/admin", "administration")
platform_admins = secured_router(Role.PLATFORM_ADMIN, "/admin/tenants", "tenants")


@tenant_admins.get("/stats", operation_id="get_stats", response_model=Stats)
async def get_stats(caller: CurrentCaller, services: CurrentServices) -> Response:
    """Entries, assets, backlog, model, and the last day's searches."""
    return json_response(await services.administration.stats(caller.tenant_id, reader=caller.subject))


@tenant_admins.get("/settings", operation_id="get_settings", response_model=SettingsModel)
async def get_settings(caller: CurrentCaller, services: CurrentServices) -> Response:
    """The tenant's settings."""
    return json_response(await services.administration.settings(caller.tenant_id, reader=caller.subject))


@tenant_admins.patch(
    "/settings", operation_id="change_settings", response_model=SettingsModel, responses=problems(413, 415)
)
async def change_settings(patch: SettingsPatch, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Change some settings; null goes back to the service's default. Limits may be lower than the platform's only."""
    return json_response(
        await services.administration.change_settings(caller.tenant_id, patch.given(), actor=caller.subject)
    )


@tenant_admins.get("/audit", operation_id="list_audit", response_model=AuditList)
async def list_audit(
    caller: CurrentCaller,
    services: CurrentServices,
    limit: PageSize = PAGE_SIZE,
    cursor: PageCursor | None = None,
) -> Response:
    """Who changed what, newest first; metadata only."""
    return page_response(
        await services.administration.audit(
            caller.tenant_id, limit=limit, cursor=cursor, reader=caller.subject
        )
    )


@tenant_admins.get(
    "/searches/{search_id}",
    operation_id="get_search_receipt",
    response_model=dict[str, Any],
    responses=problems(404),
)
async def get_search_receipt(search_id: UUID, caller: CurrentCaller, services: CurrentServices) -> Response:
    """What a search of the last 24 hours did: its settings, model, and every candidate's ranks."""
    kept = await services.administration.receipt(caller.tenant_id, search_id, reader=caller.subject)
    return json_response(describe_search(kept))


@tenant_admins.post(
    "/reembed",
    operation_id="start_model_change",
    status_code=202,
    response_model=ModelChangeModel,
    responses=problems(409, 413, 415),
)
async def start_model_change(
    wanted: NewModelChange, caller: CurrentCaller, services: CurrentServices
) -> Response:
    """Move to another embedding model: its vectors are made in the background, searches use the old ones until then.

    Again for the same model, it sets the pace anew.
    """
    change = await services.reembedding.start(
        caller.tenant_id,
        provider=wanted.provider,
        name=wanted.model,
        dimensions=wanted.dimensions,
        rate=wanted.rate,
        switch_at_overlap=wanted.switch_at_overlap,
        actor=caller.subject,
    )
    return _show_change(change, 202)


@tenant_admins.get(
    "/reembed", operation_id="get_model_change", response_model=ModelChangeModel, responses=problems(404)
)
async def get_model_change(caller: CurrentCaller, services: CurrentServices) -> Response:
    """How far the change of model has come; 404 when there is none."""
    return _show_change(await services.reembedding.status(caller.tenant_id, reader=caller.subject))


@tenant_admins.post(
    "/reembed/switch",
    operation_id="switch_model",
    response_model=ModelChangeModel,
    responses=problems(404, 409),
)
async def switch_model(caller: CurrentCaller, services: CurrentServices) -> Response:
    """Search with the new model from now on."""
    return _show_change(await services.reembedding.switch(caller.tenant_id, actor=caller.subject))


@tenant_admins.post(
    "/reembed/switch-back",
    operation_id="switch_model_back",
    response_model=ModelChangeModel,
    responses=problems(404, 409),
)
async def switch_model_back(caller: CurrentCaller, services: CurrentServices) -> Response:
    """Search with the old model again, which is possible until the change is ended."""
    return _show_change(await services.reembedding.switch(caller.tenant_id, back=True, actor=caller.subject))


@tenant_admins.delete("/reembed", operation_id="end_model_change", status_code=204, responses=problems(404))
async def end_model_change(caller: CurrentCaller, services: CurrentServices) -> Response:
    """End the change: stay with the model in use, and remove the vectors of the other in the background."""
    await services.reembedding.end(caller.tenant_id, actor=caller.subject)
    return Response(status_code=204)


def _show_change(change: ModelChange, status: int = 200) -> Response:
    return json_response(describe_change(change), status)


@platform_admins.get("", operation_id="list_tenants", response_model=TenantList)
async def list_tenants(
    principal: CurrentPrincipal,
    services: CurrentServices,
    limit: PageSize = PAGE_SIZE,
    cursor: PageCursor | None = None,
) -> Response:
    """Tenants, oldest first."""
    return page_response(
        await services.platform.list_tenants(limit=limit, cursor=cursor, reader=principal.subject)
    )


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


@platform_admins.patch(
    "/{tenant_id}",
    operation_id="change_tenant",
    response_model=TenantLimits,
    responses=problems(404, 413, 415),
)
async def change_tenant(
    tenant_id: UUID, patch: TenantPatch, principal: CurrentPrincipal, services: CurrentServices
) -> Response:
    """Set what the platform allows a tenant; its own admin may only set lower limits."""
    limits = await services.tenants.change_limits(
        tenant_id, patch.limits.model_dump(exclude_unset=True), actor=principal.subject
    )
    return json_response({"id": tenant_id, "limits": {**dict.fromkeys(NAMES), **limits}})


@platform_admins.delete(
    "/{tenant_id}", operation_id="delete_tenant", status_code=204, responses=problems(404)
)
async def delete_tenant(tenant_id: UUID, principal: CurrentPrincipal, services: CurrentServices) -> Response:
    """Remove a tenant and everything it has."""
    await services.tenants.delete(tenant_id, actor=principal.subject)
    return Response(status_code=204)
