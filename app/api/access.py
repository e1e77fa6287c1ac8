"""Permissions of many items at once, and who may read what."""

from typing import Annotated
from uuid import UUID

from fastapi import Query, Response

from app.api.sources import SourceName
from app.auth.principal import Role
from app.composition.services import Services
from app.contract.access import AccessPatch, ChangedAccess, ItemReaders, ListedKind, SubjectAccess
from app.contract.fields import MAX_GROUP_CHARACTERS, MAX_GROUPS, MAX_SUBJECT_CHARACTERS
from app.web.access import Caller, CurrentCaller, CurrentServices, secured_router
from app.web.problems import problems
from app.web.rendering import PAGE_SIZE, PageCursor, PageSize, json_response

writers = secured_router(Role.CREATOR, "/knowledge/access", "permissions")
tenant_admins = secured_router(Role.TENANT_ADMIN, "/admin/access", "permissions")


@writers.patch("", response_model=ChangedAccess, responses=problems(413, 415))
async def change_access(patch: AccessPatch, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Change who may read and change many entries and assets.

    A request looks at the next 200 items that the caller sees and that pass `where`; send it again with `next_cursor`
    until that is null. Each item is changed by itself, and `refused` lists those that cannot be changed: the caller is
    not one of the writers, it would not see the item again, or the asset has the readers of its source. Of linked
    entries, also of a later page, the one whose change would break the link is changed last. Sending the same requests
    again changes nothing more.
    """
    return json_response(await services.access.change(caller.tenant_id, patch, actor=caller.subject))


@tenant_admins.get("/entries/{entry_id}", response_model=ItemReaders, responses=problems(404))
async def show_entry_readers(entry_id: UUID, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Get who may read and change an entry, or the asset of a chunk: the lists, and the callers that pass them."""
    return await _show(caller, services, "entry", entry_id)


@tenant_admins.get("/assets/{asset_id}", response_model=ItemReaders, responses=problems(404))
async def show_asset_readers(asset_id: UUID, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Get who may read and change an asset: its lists, and the callers that pass them."""
    return await _show(caller, services, "asset", asset_id)


@tenant_admins.get("/sources/{name}", response_model=ItemReaders, responses=problems(404))
async def show_source_readers(name: SourceName, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Get who may see and keep a source: its lists, and the callers that pass them."""
    return await _show(caller, services, "source", name)


async def _show(caller: Caller, services: Services, kind: ListedKind, key: UUID | str) -> Response:
    return json_response(await services.access.who(caller.tenant_id, kind, key, reader=caller.subject))


@tenant_admins.get("/subject", response_model=SubjectAccess)
async def show_subject(
    caller: CurrentCaller,
    services: CurrentServices,
    subject: Annotated[
        str,
        Query(
            min_length=1,
            max_length=MAX_SUBJECT_CHARACTERS,
            description="The `sub` of the person's tokens.",
            examples=["jane"],
        ),
    ],
    group: Annotated[
        list[Annotated[str, Query(min_length=1, max_length=MAX_GROUP_CHARACTERS)]] | None,
        Query(max_length=MAX_GROUPS, description="The person's groups, repeated. Default: those of its last token."),
    ] = None,
    limit: PageSize = PAGE_SIZE,
    cursor: PageCursor | None = None,
) -> Response:
    """Get what a person may read: numbers, and the items that not all readers may read."""
    return json_response(
        await services.access.what(caller.tenant_id, subject, group, limit=limit, cursor=cursor, reader=caller.subject)
    )
