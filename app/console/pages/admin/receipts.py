"""Receipts of the searches of the last day: list them, open one, run a search again."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import Form, Query, Request, Response

from app.auth.principal import Role
from app.composition.services import Services
from app.console.parts.entries import PAGE_SIZE, page_links
from app.console.parts.search.form import SearchForm
from app.console.rendering import render
from app.console.session import console_router
from app.contract.fields import MAX_SUBJECT_CHARACTERS
from app.contract.receipts import Receipt, Replay
from app.errors import InvalidInput
from app.knowledge.search.answer.suggestions import describe_degradation
from app.web.access import Caller, CurrentCaller, CurrentServices
from app.web.rendering import PageCursor

router = console_router(Role.TENANT_ADMIN)

LIST = "/console/receipts"
SHOWN = 50
"""Candidates of a ranking that its page shows; a receipt can have hundreds."""

CAUSES = {
    "versions_not_kept": "the tenant keeps no former versions of that time, so the search ran on what is valid now",
    "model_changed": "the tenant uses another embedding model",
    "settings_changed": "settings have changed",
    "service_changed": "the service has another version",
    "degraded_then": "the search was degraded then",
    "degraded_now": "the search is degraded now",
}
REASONS = {
    "deleted": "deleted",
    "changed": "changed, and its former version is not kept",
    "not_found": "not found any more",
    "not_ranked_then": "new",
    "other_score": "another score",
    "other_rank": "another rank",
}


@router.get("/receipts")
async def show_receipts(
    request: Request,
    caller: CurrentCaller,
    services: CurrentServices,
    subject: Annotated[str, Query(max_length=MAX_SUBJECT_CHARACTERS)] = "",
    without_results: str = "",
    cursor: PageCursor = "",
) -> Response:
    """Show the searches of the last 24 hours, optionally of one caller, or those that found nothing."""
    subject = subject.strip()
    only_empty = without_results == "true"
    page = await services.administration.searches(
        caller.tenant_id,
        subject=subject or None,
        without_results=only_empty,
        limit=PAGE_SIZE,
        cursor=cursor or None,
        reader=caller.subject,
    )
    given = {"subject": subject} if subject else {}
    if only_empty:
        given["without_results"] = "true"
    settings = (await services.tenants.context(caller.tenant_id)).settings
    return render(
        request,
        "pages/admin/receipts.html",
        page=page,
        subject=subject,
        only_empty=only_empty,
        given=given,
        links=page_links(LIST, page, cursor, given),
        queries_kept=settings.keep_query_text,
    )


@router.get("/receipts/{search_id}")
async def show_receipt(request: Request, search_id: UUID, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Show the receipt of a search: its settings, and the ranks of its candidates."""
    return await _show(request, caller, services, search_id)


@router.post("/receipts/{search_id}/replay")
async def replay_search(
    request: Request,
    search_id: UUID,
    caller: CurrentCaller,
    services: CurrentServices,
    query: Annotated[str, Form()] = "",
) -> Response:
    """Run the search again as of its time, and show what differs."""
    try:
        replay = await services.replays.replay(
            caller.tenant_id, search_id, query=query.strip() or None, reader=caller.subject
        )
    except InvalidInput as error:
        return await _show(request, caller, services, search_id, refusal=str(error), status=422)
    return await _show(request, caller, services, search_id, replay=replay)


async def _show(
    request: Request,
    caller: Caller,
    services: Services,
    search_id: UUID,
    *,
    replay: Replay | None = None,
    refusal: str = "",
    status: int = 200,
) -> Response:
    receipt = (await services.administration.receipt(caller.tenant_id, search_id, reader=caller.subject)).receipt
    shown = receipt.ranking[:SHOWN]
    differences = replay.differences[:SHOWN] if replay is not None else ()
    ids = {found.id for found in shown} | {found.id for found in differences}
    return render(
        request,
        "pages/admin/receipt.html",
        status=status,
        receipt=receipt,
        ranking=shown,
        names=await services.inspection.name_entries(caller.tenant_id, list(ids)),
        again=_address(receipt),
        degraded=describe_degradation(receipt),
        replay=replay,
        differences=differences,
        refusal=refusal,
        causes=CAUSES,
        reasons=REASONS,
    )


def _address(receipt: Receipt) -> str | None:
    """The page of the same search now; None if its query is not kept, or too long for a URL."""
    if receipt.query is None:
        return None
    form = SearchForm.of_request({"query": receipt.query, "mode": receipt.mode, **receipt.options})
    return None if form.is_long else form.address()
