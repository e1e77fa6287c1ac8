"""Show who may read what, change the readers of many items, and switch to see everything."""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import Form as Sent
from fastapi import Query, Response
from fastapi.responses import RedirectResponse
from pydantic import Field

from app.auth.principal import Role
from app.console.forms import Form, errors_at, read_texts, show_form
from app.console.installation import HOME
from app.console.rendering import PAGE_SIZE, CurrentVisit, Visit, page_links
from app.console.session import COOKIE, console_router, is_https, local_page
from app.console.visitor import begin_everything, end_everything
from app.console.words import name_document, name_reason, read_list
from app.contract.access import AccessPatch, ChangedAccess, ListedKind, Refused, SubjectAccess
from app.contract.entries import MAX_TAG, Principals
from app.contract.fields import Page, Principal
from app.contract.results import Hit
from app.contract.search import SearchQuery
from app.contract.sources import SOURCE_NAME
from app.contract.validation import request, validate
from app.errors import InvalidInput, NotFound
from app.knowledge.permissions import MOST_CALLERS, MOST_COUNTED, PLURALS
from app.knowledge.sources.manifest import check_source_name
from app.web.rendering import PageCursor

router = console_router(Role.TENANT_ADMIN)

PAGE = "/console/access"
MOST_FOUND = 10
"""People, and entries and documents, that a search lists."""
MOST_GROUP_CHARACTERS = 4_000
"""Of the groups in an address, as a person writes them."""


@router.get("/access")
async def show_access(visit: CurrentVisit, item: str = "") -> Response:
    """Show forms for both questions; with an item, lead to the page of its readers, or list what a search finds."""
    errors: dict[str, str] = {}
    people: Sequence[str] = ()
    hits: Sequence[Hit] = ()
    names: dict[UUID, str] = {}
    if item.strip():
        try:
            if address := await _find_page(visit, item):
                return RedirectResponse(address, 303)
            query = validate(SearchQuery, {"query": item.strip(), "limit": MOST_FOUND, "group_by": "asset"})
            found = await visit.services.search.search(visit.tenant_id, query, subject=visit.subject, recorded=False)
            hits = found.results
            documents = await visit.services.assets.find(
                visit.tenant_id, [hit.asset_id for hit in hits if hit.asset_id]
            )
            names = {document.id: name_document(document) for document in documents}
            people = await visit.services.access.find_people(
                visit.tenant_id, item.strip(), MOST_FOUND, reader=visit.subject
            )
        except InvalidInput as error:
            errors = {"item": next(iter(errors_at(error.errors).values()))}
    return visit.render(
        "pages/admin/access.html",
        status=422 if errors else 200,
        item=item,
        people=people,
        hits=hits,
        names=names,
        errors=errors,
        restricted=visit.caller.tenant.restricted or visit.caller.sees_all,
    )


@router.get("/access/entries/{entry_id}")
async def show_entry_readers(visit: CurrentVisit, entry_id: UUID) -> Response:
    """Show who may read and change an entry."""
    return await _show(visit, "entry", entry_id)


@router.get("/access/assets/{asset_id}")
async def show_asset_readers(visit: CurrentVisit, asset_id: UUID) -> Response:
    """Show who may read and change a document."""
    return await _show(visit, "asset", asset_id)


@router.get("/access/sources/{name}")
async def show_source_readers(visit: CurrentVisit, name: str) -> Response:
    """Show who may see and keep a source."""
    check_source_name(name)
    return await _show(visit, "source", name)


@router.get("/access/subject")
async def show_subject(
    visit: CurrentVisit,
    subject: str = "",
    group: Annotated[str, Query(max_length=MOST_GROUP_CHARACTERS)] = "",
    cursor: PageCursor = "",
) -> Response:
    """Show what a person may read: numbers, and the items that not all readers may read."""
    subject = subject.strip()
    errors: dict[str, str] = {}
    found: SubjectAccess | None = None
    try:
        found = await visit.services.access.what(
            visit.tenant_id,
            subject,
            read_list(group) or None,
            limit=PAGE_SIZE,
            cursor=cursor or None,
            reader=visit.subject,
        )
    except InvalidInput as error:
        errors = errors_at(error.errors)
    page = Page(found.items, found.next_cursor) if found else Page([], None)
    given = {"subject": subject} | ({"group": group} if group else {})
    return visit.render(
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


async def _find_page(visit: Visit, text: str) -> str | None:
    """The page of the readers of the item with this id, address or name; None for other texts. Raises InvalidInput."""
    named = read_item(text)
    if named is None:
        return None
    kind, key = named
    kinds: tuple[ListedKind, ...] = ("entry", "asset") if kind is None else (kind,)
    for each in kinds:
        with suppress(NotFound):
            await visit.services.access.who(visit.tenant_id, each, key)
            return f"{PAGE}/{PLURALS[each]}/{key}"
    if key == text.strip() and kind == "source":
        return None
    raise InvalidInput.of("item", "does not exist")


async def _show(visit: Visit, kind: ListedKind, key: UUID | str) -> Response:
    return visit.render(
        "pages/admin/item_access.html",
        item=await visit.services.access.who(visit.tenant_id, kind, key, reader=visit.subject),
        places=PLURALS,
        most=MOST_CALLERS,
    )


MOST_REHEARSED = 10_000
"""Items after which a preview ends."""
MOST_CHANGED = 1_000
"""Items after which a request leaves the others to the next one; each takes about 5 ms."""
MOST_REFUSED = 10
"""Refused items that a page names."""


@request
class AccessChange:
    """A change of a list of many items, as its form has it."""

    tag: Annotated[str, Field(max_length=MAX_TAG)] | None = None
    principal: Principal | None = None
    list: Literal["readers", "writers"] = "readers"
    action: Literal["grant", "revoke", "set"] = "grant"
    principals: Principals | None = None


BLANK = show_form(AccessChange, {})
VERBS = {"grant": "add", "revoke": "remove", "set": "set"}

_ADDRESS = re.compile(
    r"(?:https?://[^/\s]*)?/console/(?:access/)?(?P<place>entries|assets|sources)/(?P<key>[^/?#\s]+)\S*"
)


def read_item(text: str) -> tuple[ListedKind | None, UUID | str] | None:
    """The kind and the id or name of an item, by its address, its id or the name of a source; None for other texts.

    The kind is None for an id alone. Raises InvalidInput for an address of another page.
    """
    found = _ADDRESS.fullmatch(text.strip())
    key = found["key"] if found else text.strip()
    kind = next((kind for kind, place in PLURALS.items() if found and found["place"] == place), None)
    try:
        if kind != "source":
            return kind, UUID(key)
    except ValueError:
        pass
    if kind in (None, "source") and SOURCE_NAME.fullmatch(key):
        return "source", key
    if found:
        raise InvalidInput.of("item", "is not the address of an entry, a document or a source")
    return None


def _read_patch(form: Form, *, dry_run: bool, cursor: str | None) -> AccessPatch:
    """The change of the next page of items. Raises InvalidInput."""
    change = validate(AccessChange, form.changes(BLANK))
    if change.tag is None and change.principal is None:
        raise InvalidInput.of("tag", "is needed, or a group or user in the lists")
    if change.principals is None and change.action != "set":
        raise InvalidInput.of("principals", "must name groups or users")
    where = {"tags": [change.tag] if change.tag is not None else None, "principal": change.principal}
    named: dict[str, Any] = {change.list: {VERBS[change.action]: change.principals}}
    return validate(AccessPatch, {"where": where, "dry_run": dry_run, "cursor": cursor, **named})


@router.get("/access/change")
async def show_change_form(visit: CurrentVisit) -> Response:
    """Show the form for a change of many items, with the texts that the address has."""
    return _show_change(visit, BLANK.fill(visit.request.query_params))


@router.post("/access/change")
async def change_many(visit: CurrentVisit) -> Response:
    """Count what a change would do, or do it; what one request does not reach is left to the next."""
    sent = await read_texts(visit.request)
    form = BLANK.fill(sent)
    apply = sent.get("apply") == "true"
    most = MOST_CHANGED if apply else MOST_REHEARSED
    place = str(sent.get("cursor") or "") or None
    matched, changed = 0, 0
    refused: list[Refused] = []
    try:
        patch = _read_patch(form, dry_run=not apply, cursor=place)
        while True:
            page = await visit.services.access.change(
                visit.tenant_id, replace(patch, cursor=place), actor=visit.subject
            )
            matched, changed = matched + page.matched, changed + page.changed
            refused += page.refused
            place = page.next_cursor
            if place is None or matched >= most:
                break
    except InvalidInput as error:
        return _show_change(visit, form, errors=errors_at(error.errors, form), status=422)
    return _show_change(visit, form, done=ChangedAccess(matched, changed, refused, place), applied=apply)


def _show_change(
    visit: Visit,
    form: Form,
    *,
    done: ChangedAccess | None = None,
    applied: bool = False,
    errors: dict[str, str] | None = None,
    status: int = 200,
) -> Response:
    return visit.render(
        "pages/admin/access_change.html",
        status=status,
        form=form,
        done=done,
        applied=applied,
        refused=[(each, name_reason(each.reason)) for each in done.refused[:MOST_REFUSED]] if done else [],
        errors=errors or {},
        places=PLURALS,
    )


@router.post("/everything")
async def choose_sight(
    visit: CurrentVisit, on: Annotated[bool, Sent()], next: Annotated[str, Sent()] = HOME
) -> Response:
    """Begin or end to see everything; the audit trail has the beginning, and what is seen."""
    response = RedirectResponse(local_page(next), 303)
    if on:
        await visit.services.trail.note_access(visit.tenant_id, visit.subject)
        begin_everything(response, visit.request.cookies[COOKIE], secure=is_https(visit.request))
    else:
        end_everything(response)
    return response
