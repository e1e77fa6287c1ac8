"""Entries: browse, read, write, change, delete, and their former versions."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import groupby
from typing import Annotated, cast, get_args
from uuid import UUID

from fastapi import Query, Request, Response
from fastapi.responses import RedirectResponse

from app.auth.principal import Role
from app.composition.services import Services
from app.console.parts.entries import PAGE_SIZE, group_neighbours, page_links
from app.console.parts.forms import EntryForm, errors_at, read_texts, read_version
from app.console.rendering import render
from app.console.session import console_router
from app.contract.entries import Entry, FormerVersion
from app.contract.erasures import Release
from app.contract.fields import Page
from app.contract.vocabulary import LANGUAGES, Audience, EntryType, Scope, Source, WritableType
from app.errors import Conflict, InvalidInput, KnowledgeError, PreconditionFailed
from app.knowledge.entries.entry import embedding_text
from app.web.access import Caller, CurrentCaller, CurrentServices
from app.web.rendering import PageCursor

readers = console_router(Role.READER)
writers = console_router(Role.CREATOR)
admins = console_router(Role.TENANT_ADMIN)

LIST = "/console/entries"
PAGE = "the entry's page"
SOURCES = {"entry": "written entries", "asset": "passages of documents", "any": "both"}
"""What the list can show, by the value of its filter."""
DONE = {
    "created": "The entry has been stored.",
    "exists": "An entry with this text or external id existed already and has been updated.",
    "changed": "The changes have been saved.",
    "deleted": "The entry has been deleted.",
    "released": "The entry has been released: searches find it.",
}


@readers.get("/entries")
async def show_entries(
    request: Request,
    caller: CurrentCaller,
    services: CurrentServices,
    entry_type: str = "",
    tag: Annotated[str, Query(max_length=100)] = "",
    source: str = "",
    asset_id: str = "",
    include_expired: str = "",
    include_quarantined: str = "",
    cursor: PageCursor = "",
    done: str = "",
) -> Response:
    """Show the newest entries, optionally of one type, tag, source or asset.

    Unless another source is named, these are written ones: a document has hundreds of chunks.
    """
    tag = tag.strip()
    shown_source = source or ("asset" if asset_id or entry_type == "chunk" else "entry")
    page = await services.entries.list_entries(
        caller.tenant_id,
        limit=PAGE_SIZE,
        cursor=cursor or None,
        entry_type=_one_of("entry_type", entry_type, get_args(EntryType)),
        tag=_storable(tag),
        source=cast(Source, _one_of("source", shown_source, tuple(SOURCES))) if shown_source != "any" else None,
        asset_id=_id("asset_id", asset_id),
        include_expired=include_expired == "true",
        include_quarantined=include_quarantined == "true" and caller.sees_quarantined,
    )
    filters = {"entry_type": entry_type, "tag": tag, "source": source, "asset_id": asset_id}
    filters["include_expired"] = "true" if include_expired == "true" else ""
    filters["include_quarantined"] = "true" if include_quarantined == "true" else ""
    given = {name: value for name, value in filters.items() if value}
    return render(
        request,
        "pages/entries.html",
        page=page,
        filters=filters,
        given=given,
        links=page_links(LIST, page, cursor, given),
        types=get_args(EntryType),
        sources=SOURCES,
        shown_source=shown_source,
        done=DONE.get(done),
    )


@writers.get("/entries/new")
async def show_new_entry(request: Request, parent_id: str = "", title: str = "") -> Response:
    """Show the form for a new entry, optionally with a `parent_id` and a `title`."""
    form = EntryForm.empty()
    texts = {**form.texts, "parent_id": parent_id, "title": title}
    form = EntryForm(texts, form.roles, form.is_verified)
    return _show_form(request, form, None, {})


@writers.post("/entries")
async def create_entry(request: Request, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Store an entry, or show an error at each invalid field."""
    form = EntryForm.read(await read_texts(request))
    try:
        entry, new = await services.entries.create(caller.tenant_id, form.new_draft(), actor=caller.subject)
    except InvalidInput as error:
        return _show_form(request, form, None, errors_at(error.errors), status=422)
    return _lead_to(entry.id, "created" if new else "exists")


@writers.get("/entries/{entry_id}/edit")
async def show_entry_form(
    request: Request, entry_id: UUID, caller: CurrentCaller, services: CurrentServices
) -> Response:
    """Show the form with the stored entry."""
    entry = await services.entries.get(caller.tenant_id, entry_id)
    return _show_form(request, EntryForm.of_entry(entry), entry, {})


@writers.post("/entries/{entry_id}/edit")
async def change_entry(request: Request, entry_id: UUID, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Store the changes, unless the entry has changed since the form was shown."""
    sent = await read_texts(request)
    version = read_version(sent.get("version"), PAGE)
    stored = await services.entries.get(caller.tenant_id, entry_id)
    form = EntryForm.read(sent, stored)
    try:
        await services.entries.change(
            caller.tenant_id,
            entry_id,
            form.changes(stored),
            if_version=version,
            actor=caller.subject,
        )
    except InvalidInput as error:
        return _show_form(request, form, stored, errors_at(error.errors), status=422, version=version)
    except PreconditionFailed:
        stored = await services.entries.get(caller.tenant_id, entry_id)
        return _show_form(request, form, stored, {}, status=412, is_stale=True)
    except Conflict as error:
        return _show_form(request, form, stored, {}, status=409, version=version, refusal=error)
    return _lead_to(entry_id, "changed")


@writers.get("/entries/{entry_id}/delete")
async def ask_before_deletion(
    request: Request, entry_id: UUID, caller: CurrentCaller, services: CurrentServices
) -> Response:
    """Ask for confirmation before an entry is deleted, and show the consequences."""
    return await _show_question(request, entry_id, caller, services)


@writers.post("/entries/{entry_id}/delete")
async def delete_entry(request: Request, entry_id: UUID, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Delete the entry, unless it has changed since the confirmation page."""
    version = read_version((await read_texts(request)).get("version"), PAGE)
    try:
        await services.entries.delete(caller.tenant_id, entry_id, if_version=version, actor=caller.subject)
    except (PreconditionFailed, Conflict) as error:
        status = 412 if isinstance(error, PreconditionFailed) else 409
        return await _show_question(request, entry_id, caller, services, status=status, refusal=str(error))
    return RedirectResponse(f"{LIST}?done=deleted", 303)


@admins.post("/entries/{entry_id}/release")
async def release_entry(entry_id: UUID, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Release the entry from quarantine."""
    await services.entries.get(caller.tenant_id, entry_id)
    await services.entries.quarantine.release(caller.tenant_id, Release(entry_ids=[entry_id]), actor=caller.subject)
    return _lead_to(entry_id, "released")


@readers.get("/entries/{entry_id}")
async def show_entry(
    request: Request, entry_id: UUID, caller: CurrentCaller, services: CurrentServices, done: str = ""
) -> Response:
    """Show all data of an entry."""
    tenant_id = caller.tenant_id
    sees_quarantined = caller.sees_quarantined
    entry = await services.entries.read(tenant_id, entry_id, include_quarantined=sees_quarantined)
    details = await services.inspection.entry(tenant_id, entry_id, include_quarantined=sees_quarantined)
    related = await services.related.related(tenant_id, entry_id, 10, include_quarantined=sees_quarantined)
    response = render(
        request,
        "pages/entry.html",
        entry=entry,
        details=details,
        neighbours=group_neighbours(details.connections, related.results),
        embedded_text=embedding_text(entry.title, entry.content),
        expired=entry.expires_at is not None and entry.expires_at <= datetime.now(UTC),
        done=DONE.get(done),
    )
    response.headers["etag"] = f'"{entry.version}"'
    return response


def _show_form(
    request: Request,
    form: EntryForm,
    entry: Entry | None,
    errors: dict[str, str],
    *,
    status: int = 200,
    version: int | None = None,
    is_stale: bool = False,
    refusal: KnowledgeError | None = None,
) -> Response:
    return render(
        request,
        "pages/entry_form.html",
        status=status,
        form=form,
        entry=entry,
        errors=errors,
        version=version or (entry.version if entry else 0),
        is_stale=is_stale,
        refusal=str(refusal) if refusal else None,
        types=get_args(WritableType),
        languages=LANGUAGES,
        scopes=get_args(Scope),
        all_roles=get_args(Audience),
    )


async def _show_question(
    request: Request,
    entry_id: UUID,
    caller: CurrentCaller,
    services: CurrentServices,
    *,
    status: int = 200,
    refusal: str | None = None,
) -> Response:
    entry = await services.entries.get(caller.tenant_id, entry_id)
    details = await services.inspection.entry(caller.tenant_id, entry_id, include_quarantined=True)
    return render(request, "pages/entry_deletion.html", status=status, entry=entry, details=details, refusal=refusal)


def _lead_to(entry_id: UUID, done: str) -> Response:
    return RedirectResponse(f"{LIST}/{entry_id}?done={done}", 303)


def _one_of(field: str, value: str, allowed: tuple[str, ...]) -> str | None:
    if value and value not in allowed:
        raise InvalidInput.of(field, f"must be one of {', '.join(allowed)}")
    return value or None


def _storable(tag: str) -> str | None:
    if "\x00" in tag:
        raise InvalidInput.of("tag", "must not contain NUL characters")
    return tag or None


def _id(field: str, text: str) -> UUID | None:
    try:
        return UUID(text) if text else None
    except ValueError:
        raise InvalidInput.of(field, "must be an id") from None


router = console_router(Role.READER)


@router.get("/entries/{entry_id}/versions")
async def show_entry_versions(
    request: Request,
    entry_id: UUID,
    caller: CurrentCaller,
    services: CurrentServices,
    cursor: PageCursor = "",
) -> Response:
    """Show the former versions of an entry, which may be deleted, the latest first."""
    page = await services.versions.list_versions(
        caller.tenant_id,
        entry_id,
        limit=PAGE_SIZE,
        cursor=cursor or None,
        include_quarantined=caller.sees_quarantined,
    )
    return await _show(request, caller, services, page, f"/console/entries/{entry_id}", cursor)


@router.get("/assets/{asset_id}/versions")
async def show_asset_versions(
    request: Request,
    asset_id: UUID,
    caller: CurrentCaller,
    services: CurrentServices,
    cursor: PageCursor = "",
) -> Response:
    """Show the former passages of a document, which may be deleted; those of one version are together."""
    page = await services.versions.list_of_asset(
        caller.tenant_id,
        asset_id,
        limit=PAGE_SIZE,
        cursor=cursor or None,
        include_quarantined=caller.sees_quarantined,
    )
    return await _show(request, caller, services, page, f"/console/assets/{asset_id}", cursor)


async def _show(
    request: Request,
    caller: Caller,
    services: Services,
    page: Page[FormerVersion],
    address: str,
    cursor: str,
) -> Response:
    settings = (await services.tenants.context(caller.tenant_id)).settings
    ended = [(at, list(found)) for at, found in groupby(page.items, key=lambda version: version.valid_until)]
    return render(
        request,
        "pages/versions.html",
        ended=[(at, sorted(found, key=lambda version: version.chunk_index or 0)) for at, found in ended],
        address=address,
        of_document=address.startswith("/console/assets/"),
        kept_days=settings.keep_versions_days,
        links=page_links(f"{address}/versions", page, cursor, {}),
    )
