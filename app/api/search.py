"""POST /knowledge/search."""

from __future__ import annotations

from fastapi import Response

from app.api.dependencies import CurrentCaller, CurrentServices, CurrentSettings, secured_router
from app.api.metrics import SEARCH_LEG_SECONDS, SEARCHES
from app.api.models.search import SearchRequest, SearchResponse
from app.api.problems import problems
from app.api.rendering import json_response
from app.auth.principal import Role

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
    own = caller.tenant.settings
    default = own.default_limit or settings.search.default_limit
    default = min(default, own.max_limit or default)
    query = request.to_query(default, settings.search.max_limit)
    result = await services.search.search(caller.tenant.tenant_id, query, subject=caller.subject)
    metadata = result.metadata
    SEARCHES.labels(query.mode, metadata.fallback_mode).inc()
    for leg in ("embedding", "semantic", "keyword"):
        SEARCH_LEG_SECONDS.labels(leg).observe(getattr(metadata, f"{leg}_ms") / 1000)
    return json_response(result)
