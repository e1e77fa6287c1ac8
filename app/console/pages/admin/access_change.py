"""A change of the readers or writers of many items: it is counted first, and done in a second step."""

from __future__ import annotations

from fastapi import Request, Response

from app.auth.principal import Role
from app.console.parts.admin.access_forms import CHANGES, ChangeForm
from app.console.parts.entry_form import errors_at, read_fields, read_texts
from app.console.parts.principals import name_reason
from app.console.rendering import render
from app.console.session import console_router
from app.errors import InvalidInput
from app.knowledge.permissions.overview import PLURALS
from app.knowledge.permissions.service import ChangedAccess, Refused
from app.web.access import CurrentCaller, CurrentServices

router = console_router(Role.TENANT_ADMIN)

MOST_REHEARSED = 10_000
"""Items after which a preview ends."""
MOST_CHANGED = 1_000
"""Items after which a request leaves the others to the next one; each takes about 5 ms."""
SHOWN = 10
"""Refused items that a page names."""


@router.get("/access/change")
async def show_change_form(request: Request) -> Response:
    """Show the form for a change of many items, with the texts that the address has."""
    return _show_change(request, ChangeForm.of(request.query_params))


@router.post("/access/change")
async def change_many(request: Request, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Count what a change would do, or do it; what one request does not reach is left to the next."""
    sent = await read_texts(request)
    form = ChangeForm.read(sent)
    apply = sent.get("apply") == "true"
    most = MOST_CHANGED if apply else MOST_REHEARSED
    place = read_fields(sent, ("cursor",))["cursor"] or None
    matched, changed = 0, 0
    refused: list[Refused] = []
    try:
        selection, change = form.selection(), form.change()
        while True:
            page = await services.access.change(
                caller.tenant_id, selection, change, dry_run=not apply, cursor=place, actor=caller.subject
            )
            matched, changed = matched + page.matched, changed + page.changed
            refused += page.refused
            place = page.next_cursor
            if place is None or matched >= most:
                break
    except InvalidInput as error:
        return _show_change(request, form, errors=errors_at(error.errors), status=422)
    return _show_change(request, form, done=ChangedAccess(matched, changed, refused, place), applied=apply)


def _show_change(
    request: Request,
    form: ChangeForm,
    *,
    done: ChangedAccess | None = None,
    applied: bool = False,
    errors: dict[str, str] | None = None,
    status: int = 200,
) -> Response:
    return render(
        request,
        "pages/admin/access_change.html",
        status=status,
        form=form,
        done=done,
        applied=applied,
        refused=[(each, name_reason(each.reason)) for each in done.refused[:SHOWN]] if done else [],
        errors=errors or {},
        actions=CHANGES,
        places=PLURALS,
    )
