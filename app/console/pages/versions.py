"""The former versions of an entry, and of the passages of a document."""

from __future__ import annotations

from itertools import groupby
from uuid import UUID

from fastapi import Request, Response

from app.auth.principal import Role
from app.composition.services import Services
from app.console.parts.pager import PAGE_SIZE, page_links
from app.console.rendering import render
from app.console.session import console_router
from app.db.queries.knowledge.versions import FormerVersion
from app.knowledge.paging import Page
from app.web.access import Caller, CurrentCaller, CurrentServices
from app.web.rendering import PageCursor

router = console_router(Role.READER)


@router.get("/entries/{entry_id}/versions")
async def show_entry_versions(
    request: Request,
    entry_id: UUID,
    caller: CurrentCaller,
    services: CurrentServices,
    cursor: PageCursor = "",
) -> Response:
    """Show the former versions of an entry, which may be deleted, the latest first."""
    page = await services.versions.list_versions(
        caller.tenant_id,
        entry_id,
        limit=PAGE_SIZE,
        cursor=cursor or None,
        include_quarantined=caller.sees_quarantined,
    )
    return await _show(request, caller, services, page, f"/console/entries/{entry_id}", cursor)


@router.get("/assets/{asset_id}/versions")
async def show_asset_versions(
    request: Request,
    asset_id: UUID,
    caller: CurrentCaller,
    services: CurrentServices,
    cursor: PageCursor = "",
) -> Response:
    """Show the former passages of a document, which may be deleted; those of one version are together."""
    page = await services.versions.list_of_asset(
        caller.tenant_id,
        asset_id,
        limit=PAGE_SIZE,
        cursor=cursor or None,
        include_quarantined=caller.sees_quarantined,
    )
    return await _show(request, caller, services, page, f"/console/assets/{asset_id}", cursor)


async def _show(
    request: Request,
    caller: Caller,
    services: Services,
    page: Page[FormerVersion],
    address: str,
    cursor: str,
) -> Response:
    settings = (await services.tenants.context(caller.tenant_id)).settings
    ended = [(at, list(found)) for at, found in groupby(page.items, key=lambda version: version.valid_until)]
    return render(
        request,
        "pages/versions.html",
        ended=[(at, sorted(found, key=lambda version: version.chunk_index or 0)) for at, found in ended],
        address=address,
        of_document=address.startswith("/console/assets/"),
        kept_days=settings.keep_versions_days,
        links=page_links(f"{address}/versions", page, cursor, {}),
    )
