"""The quarantine, with the release of its entries, and the receipts of erasures."""

from typing import Annotated
from uuid import UUID

from fastapi import Form, Response
from fastapi.responses import RedirectResponse

from app.auth.principal import Role
from app.console.rendering import PAGE_SIZE, CurrentVisit, page_links
from app.console.session import console_router
from app.contract.erasures import Release
from app.web.rendering import PageCursor

router = console_router(Role.TENANT_ADMIN)

QUARANTINE = "/console/quarantine"
ERASURES = "/console/erasures"


@router.get("/quarantine")
async def show_quarantine(visit: CurrentVisit, cursor: PageCursor = "", done: str = "") -> Response:
    """Show the entries and passages that searches skip, newest first."""
    page = await visit.services.quarantine.list_quarantined(
        visit.tenant_id, limit=PAGE_SIZE, cursor=cursor or None, reader=visit.subject
    )
    return visit.render(
        "pages/admin/quarantine.html",
        page=page,
        is_released=done == "released",
        links=page_links(QUARANTINE, page, cursor, {}),
    )


@router.post("/quarantine/release")
async def release(visit: CurrentVisit, entry_id: Annotated[UUID, Form()]) -> Response:
    """Release an entry or a passage."""
    await visit.services.quarantine.release(visit.tenant_id, Release(entry_ids=[entry_id]), actor=visit.subject)
    return RedirectResponse(f"{QUARANTINE}?done=released", 303)


@router.get("/erasures")
async def show_erasures(visit: CurrentVisit, cursor: PageCursor = "") -> Response:
    """Show the receipts of erasures, newest first."""
    page = await visit.services.erasures.list_erasures(
        visit.tenant_id, limit=PAGE_SIZE, cursor=cursor or None, reader=visit.subject
    )
    return visit.render("pages/admin/erasures.html", page=page, links=page_links(ERASURES, page, cursor, {}))


@router.get("/erasures/{erasure_id}")
async def show_erasure(visit: CurrentVisit, erasure_id: UUID) -> Response:
    """Show a receipt: what was removed from each place, what was found there later, and what remains."""
    erasure = await visit.services.erasures.get(visit.tenant_id, erasure_id, reader=visit.subject)
    return visit.render("pages/admin/erasure.html", erasure=erasure)
