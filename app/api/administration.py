"""Administration of a tenant, its erasures and its quarantine, and of the platform's tenants."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import Query, Response

from app.auth.principal import Role
from app.contract.administration import (
    AuditAction,
    AuditFilter,
    AuditOutcome,
    AuditRecord,
    CallerList,
    DayUsage,
    NewRevocation,
    NewTenant,
    RevokedToken,
    Stats,
    Tenant,
    Usage,
)
from app.contract.entries import Entry
from app.contract.erasures import Erasure, NewErasure, Release, Released
from app.contract.fields import MAX_SUBJECT_CHARACTERS, Day, Moment, Page
from app.contract.keys import ApiKey, ApiKeyWithSecret, NewKey
from app.contract.models import ModelChange, NewModelChange
from app.contract.settings import SettingsPatch, TenantLimits, TenantPatch, TenantSettings
from app.knowledge.tenants.directory import version_of
from app.web.access import (
    CurrentCaller,
    CurrentPrincipal,
    CurrentReader,
    CurrentServices,
    require_overview,
    secured_router,
)
from app.web.problems import problems
from app.web.rendering import (
    ETAG,
    LOCATION,
    PAGE_SIZE,
    USAGE_COLUMNS,
    IfMatch,
    PageCursor,
    PageSize,
    etag,
    json_response,
    page_response,
    read_versions,
    usage_table,
)

tenant_admins = secured_router(Role.TENANT_ADMIN, "/admin", "administration")
platform_admins = secured_router(Role.PLATFORM_ADMIN, "/admin/tenants", "tenants")
platform_revocations = secured_router(Role.PLATFORM_ADMIN, "/admin/platform/revoked-tokens", "tenants")


@tenant_admins.get("/stats", response_model=Stats)
async def get_stats(caller: CurrentCaller, reader: CurrentReader, services: CurrentServices) -> Response:
    """Get counts of entries and assets, the backlog, the model, and the searches of the last day."""
    return json_response(await services.administration.stats(caller.tenant_id, reader=reader))


UsageFrom = Annotated[Day | None, Query(alias="from", description="The first day (UTC). Default: 29 days before `to`.")]
UsageTo = Annotated[Day | None, Query(alias="to", description="The last day. Default: today.")]
UsageFormat = Annotated[Literal["json", "csv"], Query(description="CSV has the same columns, with a header.")]
USAGE: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/csv": {"schema": {"type": "string"}, "example": ",".join(USAGE_COLUMNS)}}}
}


@tenant_admins.get("/usage", response_model=Usage, responses=problems(others=USAGE))
async def get_usage(
    caller: CurrentCaller,
    services: CurrentServices,
    first: UsageFrom = None,
    last: UsageTo = None,
    format: UsageFormat = "json",
) -> Response:
    """Get what the tenant used by day: searches, writes and embedded tokens, and the entries, files and bytes that it
    stores. Days are kept for 400 days."""
    days = await services.administration.usage(caller.tenant_id, first, last, reader=caller.subject)
    return _show_usage(days, format)


@tenant_admins.get("/callers", response_model=CallerList)
async def list_callers(caller: CurrentCaller, services: CurrentServices) -> Response:
    """List the callers of the last 24 hours with their searches and changes, the most active first."""
    found = await services.administration.callers(caller.tenant_id, reader=caller.subject)
    return json_response(CallerList(found))


@tenant_admins.get("/settings", response_model=TenantSettings, responses=problems(others={200: {"headers": ETAG}}))
async def get_settings(caller: CurrentCaller, reader: CurrentReader, services: CurrentServices) -> Response:
    """Get the tenant's settings."""
    return _show_settings(await services.tenants.read_settings(caller.tenant_id, reader=reader))


@tenant_admins.patch(
    "/settings", response_model=TenantSettings, responses=problems(412, 413, 415, others={200: {"headers": ETAG}})
)
async def change_settings(
    patch: SettingsPatch, caller: CurrentCaller, services: CurrentServices, if_match: IfMatch = None
) -> Response:
    """Change some settings. Null restores the service's default. Limits must not exceed the platform's."""
    settings = await services.tenants.change_settings(
        caller.tenant_id, patch, if_version=read_versions(if_match), actor=caller.subject
    )
    return _show_settings(settings)


@tenant_admins.get("/audit", response_model=Page[AuditRecord])
async def list_audit(
    caller: CurrentCaller,
    services: CurrentServices,
    limit: PageSize = PAGE_SIZE,
    cursor: PageCursor | None = None,
    actor: Annotated[str | None, Query(max_length=MAX_SUBJECT_CHARACTERS, description="Only of this `sub`.")] = None,
    action: Annotated[AuditAction | None, Query(description="Only of this action.")] = None,
    outcome: Annotated[AuditOutcome | None, Query(description="Only with this outcome.")] = None,
    after: Annotated[Moment | None, Query(description="Only at this time or later; with a time zone.")] = None,
    before: Annotated[Moment | None, Query(description="Only before this time.")] = None,
) -> Response:
    """List the audit trail, newest first; metadata only. Send the same filters with a cursor."""
    wanted = AuditFilter(actor, action, outcome, after, before)
    return page_response(
        await services.administration.audit(caller.tenant_id, wanted, limit=limit, cursor=cursor, reader=caller.subject)
    )


@tenant_admins.post("/reembed", status_code=202, response_model=ModelChange, responses=problems(409, 413, 415))
async def start_model_change(wanted: NewModelChange, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Move to another embedding model, or rebuild the vectors of the model in use by naming it. The service creates
    the vectors in the background; searches stay complete.

    Once all vectors exist, the service compares both models. It switches by itself if the evidence is good enough;
    otherwise it waits for POST /admin/reembed/switch. `decision` has the reason. Calling this again for the same
    model changes the terms that are given.
    """
    change = await services.reembedding.start(caller.tenant_id, wanted, actor=caller.subject)
    return json_response(change, 202)


@tenant_admins.get("/reembed", response_model=ModelChange, responses=problems(404))
async def get_model_change(caller: CurrentCaller, reader: CurrentReader, services: CurrentServices) -> Response:
    """Get the progress of the model change; 404 if there is none. A complete rebuild is shown until the next change
    begins or DELETE."""
    return json_response(await services.reembedding.status(caller.tenant_id, reader=reader))


@tenant_admins.post("/reembed/switch", response_model=ModelChange, responses=problems(404, 409))
async def switch_model(caller: CurrentCaller, services: CurrentServices) -> Response:
    """Use the new model for searches from now on."""
    return json_response(await services.reembedding.switch(caller.tenant_id, actor=caller.subject))


@tenant_admins.post("/reembed/switch-back", response_model=ModelChange, responses=problems(404, 409))
async def switch_model_back(caller: CurrentCaller, services: CurrentServices) -> Response:
    """Use the old model for searches again. This is possible until the change is ended."""
    return json_response(await services.reembedding.switch(caller.tenant_id, back=True, actor=caller.subject))


@tenant_admins.delete("/reembed", status_code=204, responses=problems(404))
async def end_model_change(caller: CurrentCaller, services: CurrentServices) -> Response:
    """End the change: keep the model in use, and remove the vectors of the other model in the background."""
    await services.reembedding.end(caller.tenant_id, actor=caller.subject)
    return Response(status_code=204)


@tenant_admins.post("/revoked-tokens", response_model=RevokedToken, responses=problems(409, 413, 415))
async def revoke_token(revocation: NewRevocation, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Refuse a token of the tenant before it expires. Every process refuses it within two seconds."""
    return json_response(await services.tenants.revoke(caller.tenant_id, revocation, actor=caller.subject))


@tenant_admins.get("/revoked-tokens", response_model=Page[RevokedToken])
async def list_revoked_tokens(
    caller: CurrentCaller, services: CurrentServices, limit: PageSize = PAGE_SIZE, cursor: PageCursor | None = None
) -> Response:
    """List the revoked tokens of the tenant that have not expired, newest first."""
    return page_response(
        await services.tenants.list_revoked(caller.tenant_id, limit=limit, cursor=cursor, reader=caller.subject)
    )


@tenant_admins.post("/keys", status_code=201, response_model=ApiKeyWithSecret, responses=problems(409, 413, 415))
async def create_key(new: NewKey, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Create an API key, a bearer token for a program. Only this answer has the key: the service stores a hash. Where
    not all readers may read everything, send X-KB-Access: all, since the key reads what its groups may."""
    await require_overview(caller.tenant, services.tenants, sees_all=caller.sees_all)
    return json_response(await services.keys.create(caller.tenant_id, new, actor=caller.subject), 201)


@tenant_admins.get("/keys", response_model=Page[ApiKey])
async def list_keys(
    caller: CurrentCaller,
    reader: CurrentReader,
    services: CurrentServices,
    limit: PageSize = PAGE_SIZE,
    cursor: PageCursor | None = None,
) -> Response:
    """List the API keys of the tenant, newest first, with their last use. Expired keys are listed until they are
    revoked."""
    return page_response(await services.keys.list_keys(caller.tenant_id, limit=limit, cursor=cursor, reader=reader))


@tenant_admins.delete("/keys/{key_id}", status_code=204, responses=problems(404))
async def revoke_key(key_id: UUID, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Revoke an API key. Every process of the service refuses it at once."""
    await services.keys.revoke(caller.tenant_id, key_id, actor=caller.subject)
    return Response(status_code=204)


@platform_revocations.post("", response_model=RevokedToken, responses=problems(409, 413, 415))
async def revoke_platform_token(
    revocation: NewRevocation, principal: CurrentPrincipal, services: CurrentServices
) -> Response:
    """Refuse a platform admin's token before it expires. Every process refuses it within two seconds. A tenant's tokens
    are revoked by its own admin."""
    return json_response(await services.platform_revocations.revoke(revocation, actor=principal.subject))


@platform_revocations.get("", response_model=Page[RevokedToken])
async def list_revoked_platform_tokens(
    principal: CurrentPrincipal,
    services: CurrentServices,
    limit: PageSize = PAGE_SIZE,
    cursor: PageCursor | None = None,
) -> Response:
    """List the revoked tokens of platform admins that have not expired, newest first."""
    return page_response(
        await services.platform_revocations.list_revoked(limit=limit, cursor=cursor, reader=principal.subject)
    )


def _show_usage(days: Sequence[DayUsage], form: str) -> Response:
    return json_response(Usage(days)) if form == "json" else usage_table(days)


def _show_settings(settings: TenantSettings) -> Response:
    return json_response(settings, headers={"ETag": etag(version_of(settings))})


@platform_admins.get("", response_model=Page[Tenant])
async def list_tenants(
    reader: CurrentReader, services: CurrentServices, limit: PageSize = PAGE_SIZE, cursor: PageCursor | None = None
) -> Response:
    """List the tenants, oldest first."""
    return page_response(await services.platform.list_tenants(limit=limit, cursor=cursor, reader=reader))


@platform_admins.post(
    "", status_code=201, response_model=Tenant, responses=problems(409, 413, 415, others={201: {"headers": LOCATION}})
)
async def create_tenant(tenant: NewTenant, principal: CurrentPrincipal, services: CurrentServices) -> Response:
    """Create a tenant."""
    created = await services.tenants.create(tenant, actor=principal.subject)
    return json_response(created, 201, {"Location": f"/admin/tenants/{created.id}"})


@platform_admins.patch("/{tenant_id}", response_model=TenantLimits, responses=problems(404, 413, 415))
async def change_tenant(
    tenant_id: UUID, patch: TenantPatch, principal: CurrentPrincipal, services: CurrentServices
) -> Response:
    """Set the limits of a tenant. The tenant's own admin can only lower them."""
    limits = await services.tenants.change_limits(tenant_id, patch.limits, actor=principal.subject)
    return json_response(TenantLimits(tenant_id, limits))


@platform_admins.get("/{tenant_id}/usage", response_model=Usage, responses=problems(404, others=USAGE))
async def get_usage_of_tenant(
    tenant_id: UUID,
    principal: CurrentPrincipal,
    services: CurrentServices,
    first: UsageFrom = None,
    last: UsageTo = None,
    format: UsageFormat = "json",
) -> Response:
    """Get what a tenant used by day, as GET /admin/usage shows its own admin."""
    return _show_usage(await services.platform.usage(tenant_id, first, last, reader=principal.subject), format)


@platform_admins.delete("/{tenant_id}", status_code=204, responses=problems(404))
async def delete_tenant(tenant_id: UUID, principal: CurrentPrincipal, services: CurrentServices) -> Response:
    """Delete a tenant and all its data."""
    await services.tenants.delete(tenant_id, actor=principal.subject)
    return Response(status_code=204)


erasures_router = secured_router(Role.TENANT_ADMIN, "/admin/erasures", "administration")


@erasures_router.post(
    "",
    status_code=201,
    response_model=Erasure,
    responses=problems(404, 409, 413, 415, others={201: {"headers": LOCATION}}),
)
async def erase(wanted: NewErasure, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Erase an asset, an entry, or everything of a subject, in every place where the service keeps it, and look again.

    The answer is a receipt. A long erasure continues in the background: its `state` is `running`. Items that depend on
    erased ones are named in `derived` and stay. Erasing again is possible, also what was only deleted. 409 for a chunk:
    erase its asset.
    """
    erasure = await services.erasures.erase(caller.tenant_id, wanted, actor=caller.subject)
    return json_response(erasure, 201, {"Location": f"/admin/erasures/{erasure.id}"})


@erasures_router.get("", response_model=Page[Erasure])
async def list_erasures(
    caller: CurrentCaller, services: CurrentServices, limit: PageSize = PAGE_SIZE, cursor: PageCursor | None = None
) -> Response:
    """List the receipts of the tenant's erasures, newest first."""
    return page_response(
        await services.erasures.list_erasures(caller.tenant_id, limit=limit, cursor=cursor, reader=caller.subject)
    )


@erasures_router.get("/{erasure_id}", response_model=Erasure, responses=problems(404))
async def get_erasure(erasure_id: UUID, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Get the receipt of an erasure, with what the last look found."""
    return json_response(await services.erasures.get(caller.tenant_id, erasure_id, reader=caller.subject))


quarantine_router = secured_router(Role.TENANT_ADMIN, "/admin/quarantine", "administration")


@quarantine_router.get("", response_model=Page[Entry])
async def list_quarantined(
    caller: CurrentCaller,
    services: CurrentServices,
    limit: PageSize = PAGE_SIZE,
    cursor: PageCursor | None = None,
    asset_id: UUID | None = None,
) -> Response:
    """List the quarantined entries and chunks, newest first, optionally of one asset. `metadata.flags` names what was
    found in each."""
    return page_response(
        await services.quarantine.list_quarantined(
            caller.tenant_id, limit=limit, cursor=cursor, asset_id=asset_id, reader=caller.subject
        )
    )


@quarantine_router.post(
    "/release", summary="Release from quarantine", response_model=Released, responses=problems(413, 415)
)
async def release(body: Release, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Release entries, or all chunks of assets, from quarantine. Searches find them at once, with their flags.

    A release holds for each flagged field as it is now: the same text, title, tag or metadata is not quarantined again
    for the same flags, wherever it is written or ingested; new text that is flagged is. Other entries with the same
    content and nothing else that is flagged are released too. Ids that are not in quarantine are skipped.
    """
    released = await services.quarantine.release(caller.tenant_id, body, actor=caller.subject)
    return json_response(Released(released))
