"""Entries: create, read, list, change, delete, bulk, related."""

from typing import Annotated
from uuid import UUID

from fastapi import Query, Response

from app.auth.principal import Role
from app.contract.entries import (
    MAX_EXTERNAL_ID,
    MAX_RELATED,
    MAX_TAG,
    BulkRequest,
    BulkResponse,
    Entry,
    EntryDraft,
    FormerVersion,
    NewEntry,
    RelatedResponse,
    TagCount,
)
from app.contract.fields import Page
from app.contract.vocabulary import EntrySort, EntryType, TagSort
from app.errors import InvalidInput
from app.knowledge.paging import NEWEST_FIRST
from app.web.access import CurrentCaller, CurrentServices, secured_router
from app.web.problems import problems
from app.web.rendering import (
    ETAG,
    LOCATION,
    PAGE_SIZE,
    SORT_TEXT,
    IfMatch,
    PageCursor,
    PageSize,
    json_response,
    page_response,
    read_versions,
    versioned_response,
)

readers = secured_router(Role.READER, "/knowledge/entries", "entries")
writers = secured_router(Role.CREATOR, "/knowledge/entries", "entries")


@writers.post(
    "",
    status_code=201,
    response_model=Entry,
    responses=problems(
        409,
        413,
        415,
        others={
            200: {"model": Entry, "description": "The entry existed and was updated", "headers": ETAG},
            201: {"headers": ETAG | LOCATION},
        },
    ),
)
async def create_entry(entry: NewEntry, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Store an entry. If an entry with the same `external_id`, or without one the same content, exists, it is updated
    and returned with 200. An expired entry becomes visible again, unless `expires_at` is given.

    Keyword search finds the entry as soon as this request is answered. Its vector is created immediately, or later if
    the provider is down.
    """
    stored, new = await services.entries.create(caller.tenant_id, entry, actor=caller.subject)
    return _entry_response(stored, 201 if new else 200)


@writers.post("/bulk", response_model=BulkResponse, responses=problems(413, 415))
async def create_entries(body: BulkRequest, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Store 1 to 1,000 entries. If one is refused, the others are still stored."""
    results = await services.entries.create_many(caller.tenant_id, body.entries, actor=caller.subject)
    return json_response(BulkResponse(results))


@readers.get("", response_model=Page[Entry])
async def list_entries(
    caller: CurrentCaller,
    services: CurrentServices,
    limit: PageSize = PAGE_SIZE,
    cursor: PageCursor | None = None,
    entry_type: EntryType | None = None,
    tag: Annotated[str | None, Query(max_length=MAX_TAG)] = None,
    asset_id: UUID | None = None,
    external_id: Annotated[str | None, Query(max_length=MAX_EXTERNAL_ID)] = None,
    include_expired: Annotated[bool, Query(description="Whether to list expired entries, too.")] = False,
    include_quarantined: Annotated[
        bool, Query(description="Whether to list quarantined entries, too; a reader is listed none.")
    ] = False,
    sort: Annotated[EntrySort, Query(description=SORT_TEXT.format("Titles"))] = NEWEST_FIRST,
) -> Response:
    """List entries, by default newest first, optionally of one type, tag, asset or external id. Superseded entries are
    listed, expired and quarantined ones only with `include_expired` and `include_quarantined`. A page has fewer than
    `limit` when its text reaches 2 MiB."""
    for name, value in (("tag", tag), ("external_id", external_id)):
        if value is not None and "\x00" in value:
            raise InvalidInput.of(name, "must not contain NUL characters")
    page = await services.entries.list_entries(
        caller.tenant_id,
        limit=limit,
        cursor=cursor,
        entry_type=entry_type,
        tag=tag,
        asset_id=asset_id,
        external_id=external_id,
        include_expired=include_expired,
        include_quarantined=include_quarantined and caller.sees_quarantined,
        sort=sort,
    )
    return page_response(page)


@readers.get("/{entry_id}", response_model=Entry, responses=problems(404, others={200: {"headers": ETAG}}))
async def get_entry(entry_id: UUID, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Get an entry with its ETag. An entry that searches skip, because it is expired or superseded, can still be read.
    PATCH can make it visible again: see `expires_at` and `superseded_by_id`. A quarantined entry gets a reader a 403
    response; creators and tenant admins read it, and a tenant admin releases it. Each call counts as an access for the
    `access` boost."""
    entry = await services.entries.read(caller.tenant_id, entry_id, include_quarantined=caller.sees_quarantined)
    return _entry_response(entry)


@writers.patch(
    "/{entry_id}", response_model=Entry, responses=problems(404, 409, 412, 413, 415, others={200: {"headers": ETAG}})
)
async def change_entry(
    entry_id: UUID, patch: EntryDraft, caller: CurrentCaller, services: CurrentServices, if_match: IfMatch = None
) -> Response:
    """Change the given fields. A changed text is embedded again."""
    changed = await services.entries.change(
        caller.tenant_id, entry_id, patch, if_version=read_versions(if_match), actor=caller.subject
    )
    return _entry_response(changed)


@writers.delete("/{entry_id}", status_code=204, responses=problems(404, 409, 412))
async def delete_entry(
    entry_id: UUID, caller: CurrentCaller, services: CurrentServices, if_match: IfMatch = None
) -> Response:
    """Delete an entry."""
    await services.entries.delete(caller.tenant_id, entry_id, if_version=read_versions(if_match), actor=caller.subject)
    return Response(status_code=204)


@readers.get("/{entry_id}/related", summary="List related entries", response_model=RelatedResponse)
async def related_entries(
    entry_id: UUID,
    caller: CurrentCaller,
    services: CurrentServices,
    limit: Annotated[int, Query(ge=1, le=MAX_RELATED)] = 5,
) -> Response:
    """List the parent, then siblings (for a chunk its neighbours), then children, its sources, derived entries, and
    entries that share two or more tags. Each entry is listed once, under the first relation that applies. A reader gets
    403 for an entry in quarantine."""
    found = await services.reading.related(
        caller.tenant_id, entry_id, limit, include_quarantined=caller.sees_quarantined
    )
    return json_response(found)


@readers.get("/{entry_id}/versions", response_model=Page[FormerVersion], responses=problems(404))
async def list_versions(
    entry_id: UUID,
    caller: CurrentCaller,
    services: CurrentServices,
    limit: PageSize = PAGE_SIZE,
    cursor: PageCursor | None = None,
) -> Response:
    """List the former versions of an entry, the latest first, with the times between which they were valid. The entry
    may be deleted. There are versions from the time on at which the tenant's setting `keep_versions_days` was set. A
    reader does not see those in quarantine, nor any former version of an entry that is quarantined now. A page has
    fewer than `limit` when its text reaches 2 MiB."""
    page = await services.versions.list_versions(
        caller.tenant_id, entry_id, limit=limit, cursor=cursor, include_quarantined=caller.sees_quarantined
    )
    return page_response(page)


def _entry_response(entry: Entry, status: int = 200) -> Response:
    headers = {"Location": f"/knowledge/entries/{entry.id}"} if status == 201 else {}
    return versioned_response(entry, entry.version, status, headers)


tags_router = secured_router(Role.READER, "/knowledge/tags", "entries")


@tags_router.get("", response_model=Page[TagCount])
async def list_tags(
    caller: CurrentCaller,
    services: CurrentServices,
    limit: PageSize = PAGE_SIZE,
    cursor: PageCursor | None = None,
    prefix: Annotated[
        str, Query(max_length=MAX_TAG, description="Only tags that start with these characters, in this case.")
    ] = "",
    sort: Annotated[
        TagSort,
        Query(
            description="`-count` lists the most used tags first, tags with equal counts by their characters. A tag"
            " whose count changes between two pages can move."
        ),
    ] = "tag",
) -> Response:
    """List the tags with the number of entries of each, by default in the order of their characters. Only visible
    entries count, and tags without one are omitted: the count is the number of entries that a search with this tag
    can find."""
    return page_response(
        await services.reading.list_tags(caller.tenant_id, prefix=prefix, limit=limit, cursor=cursor, sort=sort)
    )
