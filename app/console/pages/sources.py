"""Show whether each source agrees with its origin, failures, and deletions to confirm."""

from typing import cast, get_args

from fastapi import Response

from app.auth.principal import Role
from app.console.rendering import PAGE_SIZE, CurrentVisit, page_links
from app.console.session import console_router
from app.contract.sources import ItemState
from app.errors import InvalidInput
from app.knowledge.sources.manifest import check_source_name
from app.web.rendering import PageCursor

router = console_router(Role.TENANT_ADMIN)

LIST = "/console/sources"
MOST_SOURCES = 100
"""Sources of a tenant, so that one page has them all."""

STATES = {"indexed": "good", "pending": "warning", "missing": "warning", "refused": "bad", "failed": "bad"}
"""The states of items, with the class of the mark that shows them."""


@router.get("/sources")
async def show_sources(visit: CurrentVisit) -> Response:
    """Show all sources by name, with those that wait for a confirmation."""
    page = await visit.services.sources.list_sources(visit.tenant_id, limit=MOST_SOURCES)
    return visit.render(
        "pages/admin/sources.html",
        sources=[await visit.services.sources.get(visit.tenant_id, source.name) for source in page.items],
        held=await visit.services.sources.list_held(visit.tenant_id),
        states=STATES,
    )


@router.get("/sources/{name}")
async def show_source(visit: CurrentVisit, name: str, state: str = "", cursor: PageCursor = "") -> Response:
    """Show a source, and its items, optionally of one state."""
    if state and state not in get_args(ItemState):
        raise InvalidInput.of("state", f"must be one of {', '.join(get_args(ItemState))}")
    check_source_name(name)
    source = await visit.services.sources.get(visit.tenant_id, name)
    page = await visit.services.sources.list_items(
        visit.tenant_id, name, state=cast(ItemState, state) if state else None, limit=PAGE_SIZE, cursor=cursor or None
    )
    given = {"state": state} if state else {}
    return visit.render(
        "pages/admin/source.html",
        source=source,
        held=(await visit.services.sources.list_held(visit.tenant_id)).get(name),
        page=page,
        chosen=state,
        states=STATES,
        links=page_links(f"{LIST}/{name}", page, cursor, given),
    )
