"""Receipts of the searches of the last day: list them, open one, run a search again."""

from typing import Annotated
from uuid import UUID

from fastapi import Form, Query, Response

from app.auth.principal import Role
from app.console.rendering import PAGE_SIZE, CurrentVisit, Visit, page_links
from app.console.search_form import SearchForm
from app.console.session import console_router
from app.contract.fields import MAX_SUBJECT_CHARACTERS
from app.contract.receipts import Receipt, Replay
from app.errors import InvalidInput
from app.knowledge.presentation import describe_degradation
from app.knowledge.search.journal import OWN_VECTOR
from app.web.rendering import PageCursor

router = console_router(Role.TENANT_ADMIN)

LIST = "/console/receipts"
SHOWN = 50
"""Candidates of a ranking that its page shows; a receipt can have hundreds."""


@router.get("/receipts")
async def show_receipts(
    visit: CurrentVisit,
    subject: Annotated[str, Query(max_length=MAX_SUBJECT_CHARACTERS)] = "",
    without_results: str = "",
    cursor: PageCursor = "",
) -> Response:
    """Show the searches of the last 24 hours, optionally of one caller, or those that found nothing."""
    subject = subject.strip()
    only_empty = without_results == "true"
    page = await visit.services.administration.searches(
        visit.tenant_id,
        subject=subject or None,
        without_results=only_empty,
        limit=PAGE_SIZE,
        cursor=cursor or None,
        reader=visit.subject,
    )
    given = {"subject": subject} if subject else {}
    if only_empty:
        given["without_results"] = "true"
    settings = (await visit.services.tenants.context(visit.tenant_id)).settings
    return visit.render(
        "pages/admin/receipts.html",
        page=page,
        subject=subject,
        only_empty=only_empty,
        given=given,
        links=page_links(LIST, page, cursor, given),
        queries_kept=settings.keep_query_text,
    )


@router.get("/receipts/{search_id}")
async def show_receipt(visit: CurrentVisit, search_id: UUID) -> Response:
    """Show the receipt of a search: its settings, and the ranks of its candidates."""
    return await _show(visit, search_id)


@router.post("/receipts/{search_id}/replay")
async def replay_search(visit: CurrentVisit, search_id: UUID, query: Annotated[str, Form()] = "") -> Response:
    """Run the search again as of its time, and show what differs."""
    try:
        replay = await visit.services.replays.replay(
            visit.tenant_id, search_id, query=query.strip() or None, reader=visit.subject
        )
    except InvalidInput as error:
        return await _show(visit, search_id, refusal=str(error), status=422)
    return await _show(visit, search_id, replay=replay)


async def _show(
    visit: Visit, search_id: UUID, *, replay: Replay | None = None, refusal: str = "", status: int = 200
) -> Response:
    receipt = (await visit.services.administration.receipt(visit.tenant_id, search_id, reader=visit.subject)).receipt
    shown = receipt.ranking[:SHOWN]
    differences = replay.differences[:SHOWN] if replay is not None else ()
    ids = {found.id for found in shown} | {found.id for found in differences}
    return visit.render(
        "pages/admin/receipt.html",
        status=status,
        receipt=receipt,
        ranking=shown,
        names=await visit.services.reading.name_entries(visit.tenant_id, list(ids)),
        again=_address(receipt),
        degraded=describe_degradation(receipt.degraded, receipt.pending),
        replay=replay,
        differences=differences,
        refusal=refusal,
    )


def _address(receipt: Receipt) -> str | None:
    """The page of the same search now; None if its query or its vector is not kept, or it is too long for a URL."""
    if receipt.query is None or OWN_VECTOR in receipt.options:
        return None
    form = SearchForm.of_request({"query": receipt.query, "mode": receipt.mode, **receipt.options})
    return None if form.is_long else form.address()
