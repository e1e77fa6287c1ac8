"""POST /knowledge/search."""

from __future__ import annotations

from fastapi import Response

from app.api.dependencies import Caller, CurrentCaller, CurrentServices, CurrentSettings, secured_router
from app.api.metrics import SEARCH_LEG_SECONDS, SEARCHES
from app.api.models.search import SearchRequest, SearchResponse, WhyNotRequest, WhyNotResponse
from app.api.problems import problems
from app.api.rendering import json_response
from app.auth.principal import Role
from app.knowledge.query import SearchQuery
from app.settings import Settings

router = secured_router(Role.READER, "/knowledge", "search")


@router.post(
    "/search",
    operation_id="search",
    response_model=SearchResponse,
    responses=problems(410, 413, 415),
    summary="Search",
)
async def search(
    request: SearchRequest, caller: CurrentCaller, services: CurrentServices, settings: CurrentSettings
) -> Response:
    """Find the tenant's best entries for a query, by meaning and by words.

    When the embedding provider is down, the words alone answer and `fallback_mode` is true. Nothing found is an
    empty list, with tags to try in `suggestions`.
    """
    query = _query(request, caller, settings)
    result = await services.search.search(caller.tenant.tenant_id, query, subject=caller.subject)
    metadata = result.metadata
    SEARCHES.labels(query.mode, metadata.fallback_mode).inc()
    for leg in ("embedding", "semantic", "keyword"):
        SEARCH_LEG_SECONDS.labels(leg).observe(getattr(metadata, f"{leg}_ms") / 1000)
    return json_response(result)


@router.post(
    "/search/why-not",
    operation_id="why_not",
    response_model=WhyNotResponse,
    responses=problems(413, 415),
    summary="Why is an entry not among the results?",
)
async def why_not(
    body: WhyNotRequest, caller: CurrentCaller, services: CurrentServices, settings: CurrentSettings
) -> Response:
    """Say which filter, leg, threshold or cut lost an entry."""
    query = _query(body.request, caller, settings)
    return json_response(await services.search.why_not(caller.tenant.tenant_id, body.entry_id, query))


def _query(request: SearchRequest, caller: Caller, settings: Settings) -> SearchQuery:
    """The search with the limits of the service and the tenant. Raises InvalidInput."""
    own = caller.tenant.settings
    default = own.default_limit or settings.search.default_limit
    return request.to_query(min(default, own.max_limit or default), settings.search.max_limit)
