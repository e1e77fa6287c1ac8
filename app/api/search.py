"""POST /knowledge/search and what belongs to it."""

from __future__ import annotations

from typing import Any

import orjson
from fastapi import Response

from app.auth.principal import Role
from app.contract.results import SearchBatchResponse, SearchResult
from app.contract.search import SearchBatch, SearchQuery, WhyNot, WhyNotQuery, read_entry_key
from app.contract.validation import validate
from app.errors import KnowledgeError
from app.web.access import CurrentCaller, CurrentServices, secured_router
from app.web.problems import problem_of, problems
from app.web.rendering import json_response

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
        found = await services.search.search_for_json(
            caller.tenant_id, list(queries.values()), subject=caller.subject
        )
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
