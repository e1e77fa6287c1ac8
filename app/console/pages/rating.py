"""Feedback on a hit: whether it was useful."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import Form, Request, Response

from app.auth.principal import Role
from app.console.rendering import render
from app.console.session import HOME, console_router, local_page
from app.web.access import CurrentCaller, CurrentServices

router = console_router(Role.READER)


@router.post("/feedback")
async def rate_hit(
    request: Request,
    caller: CurrentCaller,
    services: CurrentServices,
    search_id: Annotated[UUID, Form()],
    entry_id: Annotated[UUID, Form()],
    relevant: Annotated[bool, Form()],
    next: Annotated[str, Form()] = HOME,
) -> Response:
    """Store whether a hit of the visitor's own search was useful; new feedback replaces the old.

    If a part of the page was requested, the response is the two buttons with the new state.
    """
    given = await services.feedback.give(caller.tenant_id, caller.subject, search_id, entry_id, relevant)
    part = bool(request.headers.get("hx-request"))
    template = "parts/rated.html" if part else "pages/rated.html"
    return render(request, template, given=given, next=local_page(next))
