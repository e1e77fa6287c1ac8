"""Erasures and their receipts."""

from __future__ import annotations

from uuid import UUID

from fastapi import Response

from app.auth.principal import Role
from app.contract.erasures import Erasure, NewErasure
from app.contract.paging import Page
from app.web.access import CurrentCaller, CurrentServices, secured_router
from app.web.problems import problems
from app.web.rendering import LOCATION, PAGE_SIZE, PageCursor, PageSize, json_response, page_response

router = secured_router(Role.TENANT_ADMIN, "/admin/erasures", "administration")


@router.post(
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


@router.get("", response_model=Page[Erasure])
async def list_erasures(
    caller: CurrentCaller,
    services: CurrentServices,
    limit: PageSize = PAGE_SIZE,
    cursor: PageCursor | None = None,
) -> Response:
    """List the receipts of the tenant's erasures, newest first."""
    return page_response(
        await services.erasures.list_erasures(
            caller.tenant_id, limit=limit, cursor=cursor, reader=caller.subject
        )
    )


@router.get("/{erasure_id}", response_model=Erasure, responses=problems(404))
async def get_erasure(erasure_id: UUID, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Get the receipt of an erasure, with what the last look found."""
    return json_response(await services.erasures.get(caller.tenant_id, erasure_id, reader=caller.subject))
