"""Saved searches of the caller, and subscriptions on them."""

from typing import Annotated
from uuid import UUID

from fastapi import Query, Response

from app.auth.principal import Role
from app.contract.fields import Page
from app.contract.results import SearchResult
from app.contract.saved_searches import (
    NewSavedSearch,
    NewSubscription,
    OwnedSubscription,
    SavedSearch,
    Subscription,
    SubscriptionWithSecret,
)
from app.contract.vocabulary import SavedSearchSort
from app.knowledge.paging import NEWEST_FIRST
from app.web.access import CurrentCaller, CurrentServices, secured_router
from app.web.problems import problems
from app.web.rendering import LOCATION, PAGE_SIZE, SORT_TEXT, PageCursor, PageSize, json_response, page_response

router = secured_router(Role.READER, "/knowledge/saved-searches", "saved searches")
admin_router = secured_router(Role.TENANT_ADMIN, "/admin/subscriptions", "administration")


@router.post(
    "",
    status_code=201,
    response_model=SavedSearch,
    responses=problems(
        409,
        413,
        415,
        others={
            200: {"model": SavedSearch, "description": "It replaced the saved search of this name"},
            201: {"headers": LOCATION},
        },
    ),
)
async def save_search(body: NewSavedSearch, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Save a search under a name. It belongs to the caller, and the name is unique among the caller's saved searches:
    saving with the same name again replaces the request, keeps the id and the subscription, and answers 200. A search
    that could not run gets 422."""
    saved, new = await services.saved_searches.save(caller.tenant_id, caller.subject, body)
    headers = {"Location": f"/knowledge/saved-searches/{saved.id}"} if new else {}
    return json_response(saved, 201 if new else 200, headers)


@router.get("", response_model=Page[SavedSearch])
async def list_saved_searches(
    caller: CurrentCaller,
    services: CurrentServices,
    limit: PageSize = PAGE_SIZE,
    cursor: PageCursor | None = None,
    sort: Annotated[SavedSearchSort, Query(description=SORT_TEXT.format("Names"))] = NEWEST_FIRST,
) -> Response:
    """List the caller's saved searches, by default newest first."""
    return page_response(
        await services.saved_searches.list_saved(
            caller.tenant_id, caller.subject, limit=limit, cursor=cursor, sort=sort
        )
    )


@router.get("/{saved_search_id}", response_model=SavedSearch, responses=problems(404))
async def get_saved_search(saved_search_id: UUID, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Get one of the caller's saved searches."""
    return json_response(await services.saved_searches.get(caller.tenant_id, caller.subject, saved_search_id))


@router.delete("/{saved_search_id}", status_code=204, responses=problems(404))
async def delete_saved_search(saved_search_id: UUID, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Delete a saved search and its subscription."""
    await services.saved_searches.delete(caller.tenant_id, caller.subject, saved_search_id)
    return Response(status_code=204)


@router.post("/{saved_search_id}/run", response_model=SearchResult, responses=problems(404))
async def run_saved_search(saved_search_id: UUID, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Run a saved search like POST /knowledge/search; continue there with `next_cursor`. 422 if the request has become
    invalid because the tenant's limits changed."""
    return json_response(await services.saved_searches.run(caller.tenant_id, caller.subject, saved_search_id))


@router.post(
    "/{saved_search_id}/subscription",
    status_code=201,
    response_model=SubscriptionWithSecret,
    responses=problems(
        404,
        409,
        413,
        415,
        others={200: {"model": SubscriptionWithSecret, "description": "It replaced the earlier subscription"}},
    ),
)
async def subscribe(
    saved_search_id: UUID, body: NewSubscription, caller: CurrentCaller, services: CurrentServices
) -> Response:
    """Send each new or changed entry that matches the saved search to a webhook, at least once.

    An entry matches if it passes the filters and one leg of the search finds it by itself: a word in common, or a
    similarity above the threshold.

    First the endpoint has to agree: the service posts a message with `type` `subscription.challenge`, signed like all
    others, and the endpoint answers within 10 seconds with status 2xx and `data.challenge` as text or as
    `{"challenge": "…"}`. Until then `confirmation` is `pending` and matches wait; after five challenges within 13
    minutes it is `refused`. A new URL is asked again.

    Messages are signed according to
    [Standard Webhooks](https://www.standardwebhooks.com); a message has one `webhook-id` however often it is sent. An
    entry is sent again when it has another content, title, type, scope or confidence, other tags, roles or metadata,
    or is verified, also when it returns to what was sent before; a passage of a document is sent once for each
    content. Without a 2xx response, delivery is retried for two days. Only this response contains the secret.
    """
    made, new = await services.subscriptions.subscribe(
        caller.tenant_id, caller.subject, saved_search_id, body.url, body.secret
    )
    return json_response(made, 201 if new else 200)


@router.get("/{saved_search_id}/subscription", response_model=Subscription, responses=problems(404))
async def get_subscription(saved_search_id: UUID, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Get the subscription of one of the caller's saved searches, and the state of its deliveries."""
    found = await services.subscriptions.get(caller.tenant_id, caller.subject, saved_search_id)
    return json_response(found)


@router.post(
    "/{saved_search_id}/subscription/confirmation",
    status_code=202,
    response_model=Subscription,
    responses=problems(404),
)
async def confirm_subscription(saved_search_id: UUID, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Send the endpoint another challenge, for example after it has refused; at the earliest a minute after the last
    one. A confirmed subscription is unchanged."""
    found = await services.subscriptions.ask_again(caller.tenant_id, caller.subject, saved_search_id)
    return json_response(found, 202)


@router.delete("/{saved_search_id}/subscription", status_code=204, responses=problems(404))
async def unsubscribe(saved_search_id: UUID, caller: CurrentCaller, services: CurrentServices) -> Response:
    """End the subscription and discard its pending deliveries."""
    await services.subscriptions.delete(caller.tenant_id, saved_search_id, actor=caller.subject, owner=caller.subject)
    return Response(status_code=204)


@admin_router.get("", response_model=Page[OwnedSubscription])
async def list_subscriptions(
    caller: CurrentCaller, services: CurrentServices, limit: PageSize = PAGE_SIZE, cursor: PageCursor | None = None
) -> Response:
    """List all subscriptions of the tenant, newest first, with only the hosts of their URLs."""
    return page_response(
        await services.subscriptions.list_subscriptions(
            caller.tenant_id, limit=limit, cursor=cursor, reader=caller.subject
        )
    )


@admin_router.delete("/{saved_search_id}", status_code=204, responses=problems(404))
async def delete_subscription(saved_search_id: UUID, caller: CurrentCaller, services: CurrentServices) -> Response:
    """End any subscription of the tenant."""
    await services.subscriptions.delete(caller.tenant_id, saved_search_id, actor=caller.subject)
    return Response(status_code=204)
