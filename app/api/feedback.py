"""Feedback on hits, and its report."""

from __future__ import annotations

from fastapi import Response

from app.auth.principal import Role
from app.contract.feedback import Feedback, FeedbackReport, NewFeedback
from app.web.access import CurrentCaller, CurrentServices, secured_router
from app.web.problems import problems
from app.web.rendering import json_response

router = secured_router(Role.READER, "/knowledge/feedback", "search")
admin_router = secured_router(Role.TENANT_ADMIN, "/admin/feedback", "administration")


@router.post("", response_model=Feedback, responses=problems(404, 413, 415))
async def give_feedback(body: NewFeedback, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Rate a hit of one of the caller's searches of the last 24 hours. New feedback on the same hit replaces the old.

    404 if the search is not the caller's, 422 if the search did not find the entry.
    """
    given = await services.feedback.give(
        caller.tenant_id, caller.subject, body.search_id, body.entry_id, body.relevant
    )
    return json_response(given)


@admin_router.get("", response_model=FeedbackReport)
async def report_feedback(caller: CurrentCaller, services: CurrentServices) -> Response:
    """List searches without results and disliked hits of the last 30 days."""
    return json_response(await services.feedback.report(caller.tenant_id, reader=caller.subject))
