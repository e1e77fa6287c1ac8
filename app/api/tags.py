"""The tags of the tenant's entries."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Response

from app.auth.principal import Role
from app.contract.entries import MAX_TAG, TagCount
from app.contract.paging import Page
from app.contract.vocabulary import TagSort
from app.web.access import CurrentCaller, CurrentServices, secured_router
from app.web.rendering import PAGE_SIZE, PageCursor, PageSize, page_response

router = secured_router(Role.READER, "/knowledge/tags", "entries")


@router.get("", response_model=Page[TagCount])
async def list_tags(
    caller: CurrentCaller,
    services: CurrentServices,
    limit: PageSize = PAGE_SIZE,
    cursor: PageCursor | None = None,
    prefix: Annotated[
        str,
        Query(max_length=MAX_TAG, description="Only tags that start with these characters, in this case."),
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
        await services.tags.list_tags(caller.tenant_id, prefix=prefix, limit=limit, cursor=cursor, sort=sort)
    )
