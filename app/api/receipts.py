"""Receipts of searches: list them, read one, run a search again."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated
from uuid import UUID

from fastapi import Query, Response

from app.auth.principal import Role
from app.contract.paging import Page
from app.contract.principals import MAX_SUBJECT_CHARACTERS
from app.contract.receipts import Replay, ReplayRequest, SearchLine, SearchReceipt
from app.web.access import CurrentCaller, CurrentServices, secured_router
from app.web.problems import problems
from app.web.rendering import (
    PAGE_SIZE,
    PageCursor,
    PageSize,
    json_response,
    page_response,
)

router = secured_router(Role.TENANT_ADMIN, "/admin/searches", "administration")


@router.get("", response_model=Page[SearchLine])
async def list_searches(
    caller: CurrentCaller,
    services: CurrentServices,
    limit: PageSize = PAGE_SIZE,
    cursor: PageCursor | None = None,
    subject: Annotated[
        str | None, Query(max_length=MAX_SUBJECT_CHARACTERS, description="Only of this `sub`.")
    ] = None,
    without_results: Annotated[
        bool, Query(description="Whether to list only searches that found nothing.")
    ] = False,
) -> Response:
    """List the searches of the last 24 hours, newest first. Send the same filters with a cursor."""
    return page_response(
        await services.administration.searches(
            caller.tenant_id,
            subject=subject,
            without_results=without_results,
            limit=limit,
            cursor=cursor,
            reader=caller.subject,
        )
    )


@router.get("/{search_id}", response_model=SearchReceipt, responses=problems(404))
async def get_search_receipt(search_id: UUID, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Get the receipt of a search of the last 24 hours: its settings, its model, and the ranks of every candidate."""
    kept = await services.administration.receipt(caller.tenant_id, search_id, reader=caller.subject)
    shown = kept.show()
    given = {f.name: getattr(shown, f.name) for f in fields(shown)}
    if shown.query is None:
        del given["query"]  # absent where the tenant does not keep it
    return json_response(given)


@router.post("/{search_id}/replay", response_model=Replay, responses=problems(404, 413, 415))
async def replay_search(
    search_id: UUID, wanted: ReplayRequest, caller: CurrentCaller, services: CurrentServices
) -> Response:
    """Run a search of the last 24 hours again, as of its time and with its settings, and compare both rankings. With
    nothing changed since, they are the same. What the search has found since its time is only known if the tenant keeps
    versions (`keep_versions_days`); otherwise the replay runs on what is valid now."""
    replay = await services.replays.replay(
        caller.tenant_id,
        search_id,
        query=wanted.query,
        query_embedding=wanted.query_embedding,
        reader=caller.subject,
    )
    return json_response(replay)
