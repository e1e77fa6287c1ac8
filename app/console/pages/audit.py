"""The audit trail of a tenant, for its admins."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, get_args

from fastapi import Query, Response

from app.auth.principal import Role
from app.console.forms import errors_at
from app.console.rendering import PAGE_SIZE, CurrentVisit, page_links
from app.console.session import console_router
from app.console.words import name_value, read_moment
from app.contract.administration import AuditAction, AuditFilter, AuditOutcome, AuditRecord
from app.contract.fields import MAX_SUBJECT_CHARACTERS, Page
from app.contract.validation import validate
from app.errors import InvalidInput
from app.web.rendering import PageCursor

router = console_router(Role.TENANT_ADMIN)

LIST = "/console/audit"
SHOWN_IDS = 3
"""Ids of one row; an action can have a thousand."""

PLACES = {"entry": "/console/entries/", "asset": "/console/assets/"}
"""Where the things of an action are shown, by the first part of its name."""


@router.get("/audit")
async def show_audit(
    visit: CurrentVisit,
    actor: Annotated[str, Query(max_length=MAX_SUBJECT_CHARACTERS)] = "",
    action: str = "",
    outcome: str = "",
    after: str = "",
    before: str = "",
    cursor: PageCursor = "",
) -> Response:
    """Show who did what, newest first, optionally by one actor, action, outcome or period."""
    filters = {"actor": actor.strip(), "action": action, "outcome": outcome, "after": after, "before": before}
    errors: dict[str, str] = {}
    page: Page[AuditRecord] = Page([], None)
    try:
        page = await visit.services.administration.audit(
            visit.tenant_id,
            _read_filter(filters),
            limit=PAGE_SIZE,
            cursor=cursor or None,
            reader=visit.subject,
        )
    except InvalidInput as error:
        errors = errors_at(error.errors)
    given = {name: value for name, value in filters.items() if value}
    return visit.render(
        "pages/admin/audit.html",
        status=422 if errors else 200,
        page=page,
        filters=filters,
        given=given,
        errors=errors,
        actions=sorted(get_args(AuditAction), key=partial(name_value, "action")),
        outcomes=get_args(AuditOutcome),
        links=page_links(LIST, page, cursor, given),
        places=PLACES,
        shown_ids=SHOWN_IDS,
    )


def _read_filter(texts: Mapping[str, str]) -> AuditFilter:
    """The filter of the form. Raises InvalidInput."""
    given = {name: text for name, text in texts.items() if text}
    for name in ("after", "before"):
        if name in given:
            given[name] = read_moment(given[name])
    return validate(AuditFilter, given)
