"""The quarantine: entries that searches do not find because of their flags, until an admin releases them."""

from __future__ import annotations

from uuid import UUID

from fastapi import Response

from app.auth.principal import Role
from app.contract.entries import Entry
from app.contract.paging import Page
from app.contract.quarantine import Release, Released
from app.web.access import CurrentCaller, CurrentServices, secured_router
from app.web.problems import problems
from app.web.rendering import PAGE_SIZE, PageCursor, PageSize, json_response, page_response

router = secured_router(Role.TENANT_ADMIN, "/admin/quarantine", "administration")


@router.get("", response_model=Page[Entry])
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
        await services.entries.quarantine.list_quarantined(
            caller.tenant_id, limit=limit, cursor=cursor, asset_id=asset_id, reader=caller.subject
        )
    )


@router.post("/release", response_model=Released, responses=problems(413, 415))
async def release(body: Release, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Release entries, or all chunks of assets, from quarantine. Searches find them at once, with their flags.

    A release holds for each flagged field as it is now: the same text, title, tag or metadata is not quarantined again
    for the same flags, wherever it is written or ingested; new text that is flagged is. Other entries with the same
    content and nothing else that is flagged are released too. Ids that are not in quarantine are skipped.
    """
    released = await services.entries.quarantine.release(caller.tenant_id, body, actor=caller.subject)
    return json_response(Released(released))
