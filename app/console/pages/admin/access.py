"""Who may read an item, and what a person may read, for a tenant's admins."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated
from uuid import UUID

from fastapi import Query, Request, Response
from fastapi.responses import RedirectResponse

from app.auth.principal import Role
from app.composition.services import Services
from app.console.parts.admin.access_forms import read_item
from app.console.parts.entry_form import errors_at
from app.console.parts.pager import PAGE_SIZE, page_links
from app.console.parts.search.form import read_list
from app.console.rendering import render
from app.console.session import console_router
from app.db.queries.knowledge.access import ListedKind
from app.errors import InvalidInput, NotFound
from app.knowledge.paging import Page
from app.knowledge.permissions.overview import MOST_CALLERS, MOST_COUNTED, PLURALS, SubjectAccess
from app.knowledge.sources.manifest import check_source_name
from app.web.access import Caller, CurrentCaller, CurrentServices
from app.web.rendering import PageCursor

router = console_router(Role.TENANT_ADMIN)

PAGE = "/console/access"
MOST_GROUP_CHARACTERS = 4_000
"""Of the groups in an address, as a person writes them."""


@router.get("/access")
async def show_access(
    request: Request, caller: CurrentCaller, services: CurrentServices, item: str = ""
) -> Response:
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


async def _show(
    request: Request, caller: Caller, services: Services, kind: ListedKind, key: UUID | str
) -> Response:
    return render(
        request,
        "pages/admin/item_access.html",
        item=await services.access.overview.who(caller.tenant_id, kind, key, reader=caller.subject),
        places=PLURALS,
        most=MOST_CALLERS,
    )
