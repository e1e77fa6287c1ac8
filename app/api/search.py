"""Searches, their receipts, and feedback on hits."""

from dataclasses import fields
from typing import Annotated, Any
from uuid import UUID

import orjson
from fastapi import Query, Response

from app.auth.principal import Role
from app.contract.fields import MAX_SUBJECT_CHARACTERS, Page
from app.contract.receipts import (
    Feedback,
    FeedbackReport,
    NewFeedback,
    Replay,
    ReplayRequest,
    SearchLine,
    SearchReceipt,
)
from app.contract.results import SearchBatchResponse, SearchResult
from app.contract.search import SearchBatch, SearchQuery, WhyNot, WhyNotQuery, read_entry_key
from app.contract.validation import validate
from app.errors import KnowledgeError
from app.web.access import CurrentCaller, CurrentServices, secured_router
from app.web.problems import problem_of, problems
from app.web.rendering import PAGE_SIZE, PageCursor, PageSize, json_response, page_response

router = secured_router(Role.READER, "/knowledge", "search")


@router.post("/search", response_model=SearchResult, responses=problems(410, 413, 415), summary="Search")
async def search(query: SearchQuery, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Find the tenant's best entries for a query with semantic and keyword search.

    When the embedding provider is down, the search falls back to keywords and `fallback_mode` is true. If nothing is
    found, the list is empty and `suggestions` has queries to try, and `relaxations` names the filters that
    exclude every match.
    """
    return json_response(await services.search.search(caller.tenant_id, query, subject=caller.subject))


@router.post(
    "/search/batch",
    response_model=SearchBatchResponse,
    responses=problems(413, 415),
    summary="Run several searches in one request",
)
async def search_batch(body: SearchBatch, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Run 1 to 32 searches in one request. One call embeds all queries, and each search has its own outcome.

    If one search is refused or fails, the others still run. When the results reach 8 MiB together, the other searches
    have status 429 and the limit `answer_bytes`: send them again. Each search counts as one request for the limit per
    minute.
    """
    services.admission.charge(caller.tenant, len(body.searches) - 1)
    outcomes: dict[int, bytes | KnowledgeError] = {}
    queries: dict[int, SearchQuery] = {}
    for index, item in enumerate(body.searches):
        try:
            queries[index] = validate(SearchQuery, item)
        except KnowledgeError as error:
            outcomes[index] = error
    async with services.admission.reading(caller.tenant):
        found = await services.search.search_for_json(caller.tenant_id, list(queries.values()), subject=caller.subject)
        outcomes |= dict(zip(queries, found, strict=True))
        return json_response({"results": [_show(index, outcomes[index]) for index in range(len(outcomes))]})


@router.post(
    "/search/why-not",
    response_model=WhyNot,
    responses=problems(404, 413, 415),
    summary="Explain why an entry is not among the results",
)
async def why_not(body: WhyNotQuery, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Find the filter, leg, threshold or cut that excluded an entry from a search."""
    entry = read_entry_key(body.entry_id)
    return json_response(await services.search.why_not(caller.tenant_id, entry, body.request))


def _show(index: int, outcome: bytes | KnowledgeError) -> dict[str, Any]:
    if isinstance(outcome, bytes):
        return {"index": index, "status": 200, "result": orjson.Fragment(outcome), "error": None}
    problem = problem_of(outcome)
    return {"index": index, "status": problem["status"], "result": None, "error": problem}


receipts_router = secured_router(Role.TENANT_ADMIN, "/admin/searches", "administration")


@receipts_router.get("", response_model=Page[SearchLine])
async def list_searches(
    caller: CurrentCaller,
    services: CurrentServices,
    limit: PageSize = PAGE_SIZE,
    cursor: PageCursor | None = None,
    subject: Annotated[str | None, Query(max_length=MAX_SUBJECT_CHARACTERS, description="Only of this `sub`.")] = None,
    without_results: Annotated[bool, Query(description="Whether to list only searches that found nothing.")] = False,
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


@receipts_router.get("/{search_id}", response_model=SearchReceipt, responses=problems(404))
async def get_search_receipt(search_id: UUID, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Get the receipt of a search of the last 24 hours: its settings, its model, and the ranks of every candidate."""
    shown = (await services.administration.receipt(caller.tenant_id, search_id, reader=caller.subject)).receipt
    given = {f.name: getattr(shown, f.name) for f in fields(shown)}
    if shown.query is None:
        del given["query"]  # absent where the tenant does not keep it
    return json_response(given)


@receipts_router.post("/{search_id}/replay", response_model=Replay, responses=problems(404, 413, 415))
async def replay_search(
    search_id: UUID, wanted: ReplayRequest, caller: CurrentCaller, services: CurrentServices
) -> Response:
    """Run a search of the last 24 hours again, as of its time and with its settings, and compare both rankings. With
    nothing changed since, they are the same. What the search has found since its time is only known if the tenant keeps
    versions (`keep_versions_days`); otherwise the replay runs on what is valid now."""
    replay = await services.replays.replay(
        caller.tenant_id, search_id, query=wanted.query, query_embedding=wanted.query_embedding, reader=caller.subject
    )
    return json_response(replay)


feedback_router = secured_router(Role.READER, "/knowledge/feedback", "search")
feedback_report_router = secured_router(Role.TENANT_ADMIN, "/admin/feedback", "administration")


@feedback_router.post("", response_model=Feedback, responses=problems(404, 413, 415))
async def give_feedback(body: NewFeedback, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Rate a hit of one of the caller's searches of the last 24 hours. New feedback on the same hit replaces the old.

    404 if the search is not the caller's, 422 if the search did not find the entry.
    """
    given = await services.feedback.give(caller.tenant_id, caller.subject, body.search_id, body.entry_id, body.relevant)
    return json_response(given)


@feedback_report_router.get("", response_model=FeedbackReport)
async def report_feedback(caller: CurrentCaller, services: CurrentServices) -> Response:
    """List searches without results and disliked hits of the last 30 days."""
    return json_response(await services.feedback.report(caller.tenant_id, reader=caller.subject))
