"""Feedback on hits, and what came of it."""

from __future__ import annotations

from fastapi import Response

from app.auth.principal import Role
from app.web.access import CurrentCaller, CurrentServices, secured_router
from app.web.models.feedback import FeedbackModel, FeedbackReportModel, NewFeedback
from app.web.problems import problems
from app.web.rendering import json_response

router = secured_router(Role.READER, "/knowledge/feedback", "search")
admin_router = secured_router(Role.TENANT_ADMIN, "/admin/feedback", "administration")


@router.post(
    "", operation_id="give_feedback", response_model=FeedbackModel, responses=problems(404, 413, 415)
)
async def give_feedback(body: NewFeedback, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Say whether a hit of one of the caller's searches of the last 24 hours was of use; again, it replaces the first.

    404 for a search that the caller did not make, 422 for an entry that it did not find.
    """
    given = await services.feedback.give(
        caller.tenant_id, caller.subject, body.search_id, body.entry_id, body.relevant
    )
    return json_response(given)


@admin_router.get("", operation_id="report_feedback", response_model=FeedbackReportModel)
async def report_feedback(caller: CurrentCaller, services: CurrentServices) -> Response:
    """Searches without results and hits that were not wanted, of the last 30 days."""
    return json_response(await services.feedback.report(caller.tenant_id, reader=caller.subject))
