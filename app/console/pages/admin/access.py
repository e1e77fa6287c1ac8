"""Show who may read what, change the readers of many items, and switch to see everything."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Annotated
from uuid import UUID

from fastapi import Form, Query, Request, Response
from fastapi.responses import RedirectResponse

from app.auth.principal import Role
from app.composition.services import Services
from app.console.parts.admin import CHANGES, ChangeForm, read_item
from app.console.parts.entries import PAGE_SIZE, page_links
from app.console.parts.forms import errors_at, read_fields, read_texts
from app.console.parts.words import name_reason, read_list
from app.console.rendering import render
from app.console.session import COOKIE, HOME, console_router, is_https, local_page
from app.console.visitor import begin_everything, end_everything
from app.contract.access import ChangedAccess, ListedKind, Refused, SubjectAccess
from app.contract.fields import Page
from app.errors import InvalidInput, NotFound
from app.knowledge.permissions.overview import MOST_CALLERS, MOST_COUNTED, PLURALS
from app.knowledge.sources.manifest import check_source_name
from app.web.access import Caller, CurrentCaller, CurrentServices
from app.web.rendering import PageCursor

router = console_router(Role.TENANT_ADMIN)

PAGE = "/console/access"
MOST_GROUP_CHARACTERS = 4_000
"""Of the groups in an address, as a person writes them."""


@router.get("/access")
async def show_access(request: Request, caller: CurrentCaller, services: CurrentServices, item: str = "") -> Response:
    """Show forms for both questions; with an item, lead to the page of its readers."""
    errors: dict[str, str] = {}
    if item.strip():
        try:
            return RedirectResponse(await _find_page(caller, services, item), 303)
        except InvalidInput as error:
            errors = errors_at(error.errors)
    return render(
        request,
        "pages/admin/access.html",
        status=422 if errors else 200,
        item=item,
        errors=errors,
        restricted=caller.tenant.restricted or caller.sees_all,
    )


@router.get("/access/entries/{entry_id}")
async def show_entry_readers(
    request: Request, entry_id: UUID, caller: CurrentCaller, services: CurrentServices
) -> Response:
    """Show who may read and change an entry."""
    return await _show(request, caller, services, "entry", entry_id)


@router.get("/access/assets/{asset_id}")
async def show_asset_readers(
    request: Request, asset_id: UUID, caller: CurrentCaller, services: CurrentServices
) -> Response:
    """Show who may read and change a document."""
    return await _show(request, caller, services, "asset", asset_id)


@router.get("/access/sources/{name}")
async def show_source_readers(
    request: Request, name: str, caller: CurrentCaller, services: CurrentServices
) -> Response:
    """Show who may see and keep a source."""
    check_source_name(name)
    return await _show(request, caller, services, "source", name)


@router.get("/access/subject")
async def show_subject(
    request: Request,
    caller: CurrentCaller,
    services: CurrentServices,
    subject: str = "",
    group: Annotated[str, Query(max_length=MOST_GROUP_CHARACTERS)] = "",
    cursor: PageCursor = "",
) -> Response:
    """Show what a person may read: numbers, and the items that not all readers may read."""
    subject = subject.strip()
    errors: dict[str, str] = {}
    found: SubjectAccess | None = None
    try:
        found = await services.access.overview.what(
            caller.tenant_id,
            subject,
            read_list(group) or None,
            limit=PAGE_SIZE,
            cursor=cursor or None,
            reader=caller.subject,
        )
    except InvalidInput as error:
        errors = errors_at(error.errors)
    page = Page(found.items, found.next_cursor) if found else Page([], None)
    given = {"subject": subject} | ({"group": group} if group else {})
    return render(
        request,
        "pages/admin/subject_access.html",
        status=422 if errors else 200,
        found=found,
        subject=subject,
        group=group,
        errors=errors,
        links=page_links(f"{PAGE}/subject", page, cursor, given),
        places=PLURALS,
        most=MOST_COUNTED,
    )


async def _find_page(caller: Caller, services: Services, text: str) -> str:
    """The page of an item's readers. Raises InvalidInput."""
    kind, key = read_item(text)
    kinds: tuple[ListedKind, ...] = ("entry", "asset") if kind is None else (kind,)
    for each in kinds:
        with suppress(NotFound):
            await services.access.overview.who(caller.tenant_id, each, key)
            return f"{PAGE}/{PLURALS[each]}/{key}"
    raise InvalidInput.of("item", "does not exist")


async def _show(request: Request, caller: Caller, services: Services, kind: ListedKind, key: UUID | str) -> Response:
    return render(
        request,
        "pages/admin/item_access.html",
        item=await services.access.overview.who(caller.tenant_id, kind, key, reader=caller.subject),
        places=PLURALS,
        most=MOST_CALLERS,
    )


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
        patch = form.patch(dry_run=not apply, cursor=place)
        while True:
            page = await services.access.change(caller.tenant_id, replace(patch, cursor=place), actor=caller.subject)
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
