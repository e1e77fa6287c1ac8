"""Feedback of callers and searches that found nothing, with the step that helps, for the tenant's admins."""

from __future__ import annotations

from fastapi import Request, Response

from app.auth.principal import Role
from app.console.rendering import render
from app.console.session import console_router
from app.web.access import CurrentCaller, CurrentServices

router = console_router(Role.TENANT_ADMIN)


@router.get("/feedback")
async def show_feedback(request: Request, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Show the searches of the last 30 days that found nothing, and the results that callers did not find useful."""
    report = await services.feedback.report(caller.tenant_id, reader=caller.subject)
    return render(request, "pages/admin/feedback.html", report=report)
