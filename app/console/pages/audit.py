"""The audit trail of a tenant, for its admins."""

from fastapi import Response

from app.auth.principal import Role
from app.console.forms import errors_at, show_form
from app.console.rendering import PAGE_SIZE, CurrentVisit, page_links
from app.console.session import console_router
from app.contract.administration import AuditFilter, AuditRecord
from app.contract.fields import Page
from app.contract.validation import validate
from app.errors import InvalidInput
from app.web.rendering import PageCursor

router = console_router(Role.TENANT_ADMIN)

LIST = "/console/audit"
SHOWN_IDS = 3
"""Ids of one row; an action can have a thousand."""

PLACES = {"entry": "/console/entries/", "asset": "/console/assets/"}
"""Where the things of an action are shown, by the first part of its name."""


BLANK = show_form(AuditFilter, {})


@router.get("/audit")
async def show_audit(visit: CurrentVisit, cursor: PageCursor = "") -> Response:
    """Show who did what, newest first, optionally by one actor, action, outcome or period."""
    form = BLANK.fill(visit.request.query_params)
    errors: dict[str, str] = {}
    page: Page[AuditRecord] = Page([], None)
    try:
        page = await visit.services.administration.audit(
            visit.tenant_id,
            validate(AuditFilter, form.changes(BLANK)),
            limit=PAGE_SIZE,
            cursor=cursor or None,
            reader=visit.subject,
        )
    except InvalidInput as error:
        errors = errors_at(error.errors, form)
    given = {name: text for name, text in form.pairs() if text}
    return visit.render(
        "pages/admin/audit.html",
        status=422 if errors else 200,
        page=page,
        form=form,
        given=given,
        errors=errors,
        links=page_links(LIST, page, cursor, given),
        places=PLACES,
        shown_ids=SHOWN_IDS,
    )
