"""Entries: browse, read, write, change, delete, and their former versions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby
from typing import Annotated, Any, cast, get_args
from uuid import UUID

from fastapi import Query, Response
from fastapi.responses import RedirectResponse

from app.auth.principal import Role
from app.console.forms import Form, errors_at, list_facts, read_texts, read_version, show_form
from app.console.rendering import PAGE_SIZE, CurrentVisit, Visit, page_links
from app.console.session import console_router
from app.console.words import RELATIONSHIPS
from app.contract.entries import DEFAULTS, Entry, EntryDraft, NewEntry, RelatedEntry
from app.contract.erasures import Release
from app.contract.validation import validate
from app.contract.vocabulary import EntryType, Source
from app.db.queries.entries import Connection
from app.errors import Conflict, InvalidInput, KnowledgeError, PreconditionFailed
from app.knowledge.entries.entry import PLACE, embedding_text
from app.knowledge.words import detect
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
OF_DOCUMENT = ("content", "title", "entry_type", "external_id", "readers", "writers")
"""Fields that a chunk has from its document; its form omits them."""
SHOWN_ELSEWHERE = (
    "content", "title", "tags", "entry_type", "roles", "readers", "writers", "confidence", "is_verified", "parent_id",
    "source_ids", "superseded_by_id", "metadata", "expires_at",
)  # fmt: skip
"""Fields that the page of an entry does not show in the list of the others."""
BLANK = show_form(NewEntry, DEFAULTS)


@readers.get("/entries")
async def show_entries(
    visit: CurrentVisit,
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
    page = await visit.services.entries.list_entries(
        visit.tenant_id,
        limit=PAGE_SIZE,
        cursor=cursor or None,
        entry_type=_one_of("entry_type", entry_type, get_args(EntryType)),
        tag=_storable(tag),
        source=cast(Source, _one_of("source", shown_source, tuple(SOURCES))) if shown_source != "any" else None,
        asset_id=_id("asset_id", asset_id),
        include_expired=include_expired == "true",
        include_quarantined=include_quarantined == "true" and visit.caller.sees_quarantined,
    )
    filters = {"entry_type": entry_type, "tag": tag, "source": source, "asset_id": asset_id}
    filters["include_expired"] = "true" if include_expired == "true" else ""
    filters["include_quarantined"] = "true" if include_quarantined == "true" else ""
    given = {name: value for name, value in filters.items() if value}
    return visit.render(
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
async def show_new_entry(visit: CurrentVisit, parent_id: str = "", title: str = "") -> Response:
    """Show the form for a new entry, optionally with a `parent_id` and a `title`."""
    form = replace(BLANK, values={**BLANK.values, "parent_id": [parent_id], "title": [title]})
    return _show_form(visit, form, None, {})


@writers.post("/entries")
async def create_entry(visit: CurrentVisit) -> Response:
    """Store an entry, or show an error at each invalid field."""
    form = BLANK.fill(await read_texts(visit.request))
    try:
        # Only what differs from the defaults: an existing entry with this text keeps its other fields.
        draft = validate(NewEntry, form.changes(BLANK))
        entry, new = await visit.services.entries.create(visit.tenant_id, draft, actor=visit.subject)
    except InvalidInput as error:
        return _show_form(visit, form, None, errors_at(error.errors, form), status=422)
    return _lead_to(entry.id, "created" if new else "exists")


@writers.get("/entries/{entry_id}/edit")
async def show_entry_form(visit: CurrentVisit, entry_id: UUID) -> Response:
    """Show the form with the stored entry."""
    entry = await visit.services.entries.get(visit.tenant_id, entry_id)
    return _show_form(visit, _form_of(entry), entry, {})


@writers.post("/entries/{entry_id}/edit")
async def change_entry(visit: CurrentVisit, entry_id: UUID) -> Response:
    """Store the changes, unless the entry has changed since the form was shown."""
    sent = await read_texts(visit.request)
    version = read_version(sent.get("version"), PAGE)
    stored = await visit.services.entries.get(visit.tenant_id, entry_id)
    form = _form_of(stored).fill(sent)
    try:
        await visit.services.entries.change(
            visit.tenant_id, entry_id, _read_changes(form, stored), if_version=version, actor=visit.subject
        )
    except InvalidInput as error:
        return _show_form(visit, form, stored, errors_at(error.errors, form), status=422, version=version)
    except PreconditionFailed:
        stored = await visit.services.entries.get(visit.tenant_id, entry_id)
        return _show_form(visit, form, stored, {}, status=412, is_stale=True)
    except Conflict as error:
        return _show_form(visit, form, stored, {}, status=409, version=version, refusal=error)
    return _lead_to(entry_id, "changed")


@writers.get("/entries/{entry_id}/delete")
async def ask_before_deletion(visit: CurrentVisit, entry_id: UUID) -> Response:
    """Ask for confirmation before an entry is deleted, and show the consequences."""
    return await _show_question(visit, entry_id)


@writers.post("/entries/{entry_id}/delete")
async def delete_entry(visit: CurrentVisit, entry_id: UUID) -> Response:
    """Delete the entry, unless it has changed since the confirmation page."""
    version = read_version((await read_texts(visit.request)).get("version"), PAGE)
    try:
        await visit.services.entries.delete(visit.tenant_id, entry_id, if_version=version, actor=visit.subject)
    except (PreconditionFailed, Conflict) as error:
        status = 412 if isinstance(error, PreconditionFailed) else 409
        return await _show_question(visit, entry_id, status=status, refusal=str(error))
    return RedirectResponse(f"{LIST}?done=deleted", 303)


@admins.post("/entries/{entry_id}/release")
async def release_entry(visit: CurrentVisit, entry_id: UUID) -> Response:
    """Release the entry from quarantine."""
    await visit.services.entries.get(visit.tenant_id, entry_id)
    await visit.services.quarantine.release(visit.tenant_id, Release(entry_ids=[entry_id]), actor=visit.subject)
    return _lead_to(entry_id, "released")


@readers.get("/entries/{entry_id}")
async def show_entry(visit: CurrentVisit, entry_id: UUID, done: str = "") -> Response:
    """Show all data of an entry."""
    tenant_id = visit.tenant_id
    sees_quarantined = visit.caller.sees_quarantined
    entry = await visit.services.entries.read(tenant_id, entry_id, include_quarantined=sees_quarantined)
    details = await visit.services.reading.entry(tenant_id, entry_id, include_quarantined=sees_quarantined)
    related = await visit.services.reading.related(tenant_id, entry_id, 10, include_quarantined=sees_quarantined)
    response = visit.render(
        "pages/entry.html",
        entry=entry,
        details=details,
        neighbours=group_neighbours(details.connections, related.results),
        embedded_text=embedding_text(entry.title, entry.content),
        facts_of=list_facts(NewEntry, entry, SHOWN_ELSEWHERE),
        expired=entry.expires_at is not None and entry.expires_at <= datetime.now(UTC),
        done=DONE.get(done),
    )
    response.headers["etag"] = f'"{entry.version}"'
    return response


@dataclass(frozen=True, slots=True)
class Neighbour:
    """An entry next to another one; `overlap` is the number of tags that they share, if that is why."""

    id: UUID
    title: str | None
    text: str
    entry_type: str
    overlap: int | None = None


def group_neighbours(
    connections: Iterable[Connection], related: Iterable[RelatedEntry]
) -> list[tuple[str, Sequence[Neighbour]]]:
    """The entries by relationship, in the order of RELATIONSHIPS; an entry with several is under the first."""
    found = [(c.relation, Neighbour(c.id, c.title, c.excerpt, c.entry_type)) for c in connections]
    found += [(r.relationship, Neighbour(r.id, r.title, r.content, r.entry_type, r.overlap_count)) for r in related]
    order = list(RELATIONSHIPS)
    found.sort(key=lambda pair: order.index(pair[0]))
    first: dict[UUID, tuple[str, Neighbour]] = {}
    for relation, neighbour in found:
        first.setdefault(neighbour.id, (relation, neighbour))
    groups = [(name, [n for r, n in first.values() if r == relation]) for relation, name in RELATIONSHIPS.items()]
    return [(name, group) for name, group in groups if group]


def _form_of(entry: Entry) -> Form:
    place = _place(entry)
    return show_form(NewEntry, replace(entry, metadata={n: v for n, v in entry.metadata.items() if n not in place}))


def _place(entry: Entry) -> dict[str, Any]:
    """The position of a chunk in its document: metadata that callers cannot write."""
    return {n: v for n, v in entry.metadata.items() if entry.asset_id is not None and n in PLACE}


def _read_changes(form: Form, stored: Entry) -> EntryDraft:
    """The changes to an entry. Raises InvalidInput.

    A changed text has its language detected again, unless the stored language differs from the detected one.
    """
    given = form.changes(_form_of(stored))
    if given.keys() & {"title", "content"} and stored.language != detect(stored.title, stored.content):
        given.setdefault("language", stored.language)
    if isinstance(given.get("metadata"), dict):
        given["metadata"] |= _place(stored)
    return validate(EntryDraft, given)


def _show_form(
    visit: Visit,
    form: Form,
    entry: Entry | None,
    errors: dict[str, str],
    *,
    status: int = 200,
    version: int | None = None,
    is_stale: bool = False,
    refusal: KnowledgeError | None = None,
) -> Response:
    return visit.render(
        "pages/entry_form.html",
        status=status,
        form=form,
        entry=entry,
        errors=errors,
        version=version or (entry.version if entry else 0),
        is_stale=is_stale,
        refusal=str(refusal) if refusal else None,
        of_document=OF_DOCUMENT,
    )


async def _show_question(visit: Visit, entry_id: UUID, *, status: int = 200, refusal: str | None = None) -> Response:
    entry = await visit.services.entries.get(visit.tenant_id, entry_id)
    details = await visit.services.reading.entry(visit.tenant_id, entry_id, include_quarantined=True)
    return visit.render("pages/entry_deletion.html", status=status, entry=entry, details=details, refusal=refusal)


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


@readers.get("/entries/{entry_id}/versions")
async def show_entry_versions(visit: CurrentVisit, entry_id: UUID, cursor: PageCursor = "") -> Response:
    """Show the former versions of an entry, which may be deleted, the latest first."""
    return await _show_versions(visit, "entry", entry_id, cursor)


@readers.get("/assets/{asset_id}/versions")
async def show_asset_versions(visit: CurrentVisit, asset_id: UUID, cursor: PageCursor = "") -> Response:
    """Show the former passages of a document, which may be deleted; those of one version are together."""
    return await _show_versions(visit, "asset", asset_id, cursor)


async def _show_versions(visit: Visit, kind: Source, key: UUID, cursor: str) -> Response:
    page = await visit.services.versions.list_versions(
        visit.tenant_id,
        key,
        kind,
        limit=PAGE_SIZE,
        cursor=cursor or None,
        include_quarantined=visit.caller.sees_quarantined,
    )
    address = f"{LIST}/{key}" if kind == "entry" else f"/console/assets/{key}"
    settings = (await visit.services.tenants.context(visit.tenant_id)).settings
    ended = [(at, list(found)) for at, found in groupby(page.items, key=lambda version: version.valid_until)]
    return visit.render(
        "pages/versions.html",
        ended=[(at, sorted(found, key=lambda version: version.chunk_index or 0)) for at, found in ended],
        address=address,
        of_document=kind == "asset",
        kept_days=settings.keep_versions_days,
        links=page_links(f"{address}/versions", page, cursor, {}),
    )
