"""An admin begins, or ends, to see everything in the tenant."""

from __future__ import annotations

from typing import Annotated

from fastapi import Form, Request, Response
from fastapi.responses import RedirectResponse

from app.auth.principal import Role
from app.console.everything import begin_everything, end_everything
from app.console.session import COOKIE, HOME, console_router, is_https, local_page
from app.web.access import CurrentCaller, CurrentServices

router = console_router(Role.TENANT_ADMIN)


@router.post("/everything")
async def choose_sight(
    request: Request,
    caller: CurrentCaller,
    services: CurrentServices,
    on: Annotated[bool, Form()],
    next: Annotated[str, Form()] = HOME,
) -> Response:
    """Begin or end to see everything; the audit trail has the beginning, and what is seen."""
    response = RedirectResponse(local_page(next), 303)
    if on:
        await services.trail.note_access(caller.tenant_id, caller.subject)
        begin_everything(response, request.cookies[COOKIE], secure=is_https(request))
    else:
        end_everything(response)
    return response
