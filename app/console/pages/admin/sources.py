"""Show whether each source agrees with its origin, failures, and deletions to confirm."""

from __future__ import annotations

from typing import cast, get_args

from fastapi import Request, Response

from app.auth.principal import Role
from app.console.parts.entries import PAGE_SIZE, page_links
from app.console.rendering import render
from app.console.session import console_router
from app.contract.sources import ItemState
from app.errors import InvalidInput
from app.knowledge.sources.manifest import check_source_name
from app.web.access import CurrentCaller, CurrentServices
from app.web.rendering import PageCursor

router = console_router(Role.TENANT_ADMIN)

LIST = "/console/sources"
MOST_SOURCES = 100
"""Sources of a tenant, so that one page has them all."""

STATES = {"indexed": "good", "pending": "warning", "missing": "warning", "refused": "bad", "failed": "bad"}
"""The states of items, with the class of the mark that shows them."""


@router.get("/sources")
async def show_sources(request: Request, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Show all sources by name, with those that wait for a confirmation."""
    page = await services.sources.list_sources(caller.tenant_id, limit=MOST_SOURCES)
    return render(
        request,
        "pages/admin/sources.html",
        sources=[await services.sources.get(caller.tenant_id, source.name) for source in page.items],
        held=await services.sources.list_held(caller.tenant_id),
        states=STATES,
    )


@router.get("/sources/{name}")
async def show_source(
    request: Request,
    name: str,
    caller: CurrentCaller,
    services: CurrentServices,
    state: str = "",
    cursor: PageCursor = "",
) -> Response:
    """Show a source, and its items, optionally of one state."""
    if state and state not in get_args(ItemState):
        raise InvalidInput.of("state", f"must be one of {', '.join(get_args(ItemState))}")
    check_source_name(name)
    source = await services.sources.get(caller.tenant_id, name)
    page = await services.sources.list_items(
        caller.tenant_id,
        name,
        state=cast(ItemState, state) if state else None,
        limit=PAGE_SIZE,
        cursor=cursor or None,
    )
    given = {"state": state} if state else {}
    return render(
        request,
        "pages/admin/source.html",
        source=source,
        held=(await services.sources.list_held(caller.tenant_id)).get(name),
        page=page,
        chosen=state,
        states=STATES,
        links=page_links(f"{LIST}/{name}", page, cursor, given),
    )
