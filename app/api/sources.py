"""Sources: manifests, states of their items, deletion. Files are uploaded as assets of the source."""

from typing import Annotated

from fastapi import Path, Query, Response
from pydantic import AfterValidator

from app.auth.principal import Role
from app.contract.fields import Page
from app.contract.sources import (
    SOURCE_NAME,
    Accepted,
    AssetsFate,
    ItemState,
    Manifest,
    Source,
    SourceItem,
    SourceStatus,
    check_name,
)
from app.web.access import CurrentCaller, CurrentServices, secured_router
from app.web.problems import problems
from app.web.rendering import LOCATION, PAGE_SIZE, PageCursor, PageSize, json_response, page_response

SourceName = Annotated[
    str,
    AfterValidator(check_name),
    Path(
        json_schema_extra={"pattern": f"^{SOURCE_NAME.pattern}$"},
        description="1 to 63 of a-z, 0-9, '.', '_' and '-'; the first is a letter or a digit.",
        examples=["handbook"],
    ),
]

readers = secured_router(Role.READER, "/knowledge/sources", "sources")
writers = secured_router(Role.CREATOR, "/knowledge/sources", "sources")


@writers.put(
    "/{name}",
    response_model=Accepted,
    responses=problems(
        409, 413, 415, others={201: {"model": Accepted, "description": "The source is new", "headers": LOCATION}}
    ),
)
async def put_source(
    name: SourceName, manifest: Manifest, caller: CurrentCaller, services: CurrentServices
) -> Response:
    """Make a source have what a manifest lists, a source being a folder, a repository or a store elsewhere.

    In one transaction, assets whose external_id is no longer listed are deleted, and those that are listed under a new
    external_id with the digest of their bytes keep their id. New and changed files are then `missing`: list them with
    `GET /knowledge/sources/{name}/items?state=missing` and upload each with `POST /knowledge/assets` and the fields
    `source`, `run` and `external_id`. Until then, a changed file is found with its former text. When all items are
    settled, that is indexed, failed or refused, `agreed_at` is the time of this listing.

    A manifest that would delete more than a share of the source's assets (`KB_SOURCE_MAX_DELETIONS`, 0.2), or that is
    empty, changes nothing without a confirmation and gets 409. So does one whose `run` is not the source's.
    """
    accepted, is_new = await services.sources.accept(caller.tenant_id, name, manifest, actor=caller.subject)
    if not is_new:
        return json_response(accepted)
    return json_response(accepted, 201, {"Location": f"/knowledge/sources/{name}"})


@readers.get("", response_model=Page[Source])
async def list_sources(
    caller: CurrentCaller, services: CurrentServices, limit: PageSize = PAGE_SIZE, cursor: PageCursor | None = None
) -> Response:
    """List the sources by name. Each has the time at which it last agreed with its origin."""
    return page_response(await services.sources.list_sources(caller.tenant_id, limit=limit, cursor=cursor))


@readers.get("/{name}", response_model=SourceStatus, responses=problems(404))
async def get_source(name: SourceName, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Get a source with the number of its items in each state."""
    return json_response(await services.sources.get(caller.tenant_id, name))


@readers.get("/{name}/items", response_model=Page[SourceItem], responses=problems(404))
async def list_source_items(
    name: SourceName,
    caller: CurrentCaller,
    services: CurrentServices,
    limit: PageSize = PAGE_SIZE,
    cursor: PageCursor | None = None,
    state: Annotated[ItemState | None, Query(description="Only items in this state.")] = None,
) -> Response:
    """List the items of a source's last manifest by external_id. Those that were refused or failed have a reason."""
    return page_response(
        await services.sources.list_items(caller.tenant_id, name, state=state, limit=limit, cursor=cursor)
    )


@writers.delete("/{name}", status_code=204, responses=problems(404, 409))
async def delete_source(
    name: SourceName,
    caller: CurrentCaller,
    services: CurrentServices,
    assets: Annotated[
        AssetsFate,
        Query(description="`keep` (the default) makes the assets independent of the source; `delete` deletes them."),
    ] = "keep",
) -> Response:
    """Delete a source. By default its assets stay, with their external ids, as assets that were uploaded without a
    source; 409 if another asset has the same external_id."""
    await services.sources.delete(caller.tenant_id, name, assets=assets, actor=caller.subject)
    return Response(status_code=204)
