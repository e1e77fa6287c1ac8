"""Saved searches of the visitor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any
from uuid import UUID

import orjson
from fastapi import Form, Request, Response
from fastapi.responses import RedirectResponse

from app.auth.principal import Role
from app.console.pages.searching import render_search
from app.console.parts.entries import PAGE_SIZE, page_links
from app.console.parts.search.form import SearchForm
from app.console.rendering import render
from app.console.session import console_router
from app.contract.saved_searches import NewSavedSearch, Subscription
from app.contract.validation import validate
from app.errors import Conflict, FieldError, InvalidInput, SubscriptionNotFound
from app.web.access import CurrentCaller, CurrentServices
from app.web.rendering import PageCursor

router = console_router(Role.READER)

LIST = "/console/saved-searches"
EXAMPLE = '{"query": "how do I order routes", "limit": 5}'
DONE = {
    "saved": "The search has been saved.",
    "replaced": "The saved search of this name has been replaced.",
    "deleted": "The saved search has been deleted.",
    "asked": "The endpoint gets another challenge within a minute.",
}


@router.get("/saved-searches")
async def show_saved_searches(
    request: Request,
    caller: CurrentCaller,
    services: CurrentServices,
    cursor: PageCursor = "",
    done: str = "",
) -> Response:
    """Show the visitor's saved searches, newest first, and a form for a new one."""
    return await _show_list(request, caller, services, cursor=cursor, done=done)


@router.post("/saved-searches")
async def save_search(
    request: Request,
    caller: CurrentCaller,
    services: CurrentServices,
    name: Annotated[str, Form()] = "",
    search: Annotated[str, Form(alias="request")] = "",
) -> Response:
    """Save a search under a name; `request` is the JSON of POST /knowledge/search."""
    try:
        _, new = await services.saved_searches.save(caller.tenant_id, caller.subject, _read(name, search))
    except (InvalidInput, Conflict) as error:
        errors = error.errors if isinstance(error, InvalidInput) else (FieldError("name", str(error)),)
        return await _show_list(
            request,
            caller,
            services,
            texts={"name": name, "request": search},
            errors=_errors_at(errors),
            status=422 if isinstance(error, InvalidInput) else 409,
        )
    return RedirectResponse(f"{LIST}?done={'saved' if new else 'replaced'}", 303)


@router.get("/saved-searches/{saved_search_id}/run")
async def run_saved_search(
    request: Request,
    saved_search_id: UUID,
    caller: CurrentCaller,
    services: CurrentServices,
) -> Response:
    """Redirect to the search page with the saved search; a search that is too long for a URL is shown here."""
    saved = await services.saved_searches.get(caller.tenant_id, caller.subject, saved_search_id)
    form = SearchForm.of_request(saved.request)
    if not form.is_long:
        return RedirectResponse(form.address(), 303)
    return await render_search(request, form, caller, services)


@router.post("/saved-searches/{saved_search_id}/subscription/confirmation")
async def ask_endpoint_again(saved_search_id: UUID, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Send another challenge to the endpoint of a subscription that has not agreed."""
    await services.subscriptions.ask_again(caller.tenant_id, caller.subject, saved_search_id)
    return RedirectResponse(f"{LIST}?done=asked", 303)


@router.get("/saved-searches/{saved_search_id}/delete")
async def ask_before_deletion(
    request: Request, saved_search_id: UUID, caller: CurrentCaller, services: CurrentServices
) -> Response:
    """Ask for confirmation before a saved search is deleted."""
    saved = await services.saved_searches.get(caller.tenant_id, caller.subject, saved_search_id)
    return render(request, "pages/saved_search_deletion.html", saved=saved)


@router.post("/saved-searches/{saved_search_id}/delete")
async def delete_saved_search(saved_search_id: UUID, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Delete a saved search and its subscription."""
    await services.saved_searches.delete(caller.tenant_id, caller.subject, saved_search_id)
    return RedirectResponse(f"{LIST}?done=deleted", 303)


async def _show_list(
    request: Request,
    caller: CurrentCaller,
    services: CurrentServices,
    *,
    cursor: str = "",
    done: str = "",
    texts: Mapping[str, str] | None = None,
    errors: Mapping[str, str] | None = None,
    status: int = 200,
) -> Response:
    tenant_id = caller.tenant_id
    page = await services.saved_searches.list_saved(tenant_id, caller.subject, limit=PAGE_SIZE, cursor=cursor or None)
    subscriptions: dict[UUID, Subscription] = {}
    for saved in page.items:
        if saved.subscribed:
            try:
                subscriptions[saved.id] = await services.subscriptions.get(tenant_id, caller.subject, saved.id)
            except SubscriptionNotFound:  # the subscription has ended in the meantime
                continue
    return render(
        request,
        "pages/saved_searches.html",
        status=status,
        page=page,
        subscriptions=subscriptions,
        links=page_links(LIST, page, cursor, {}),
        texts=texts or {"name": "", "request": ""},
        errors=errors or {},
        example=EXAMPLE,
        done=DONE.get(done),
    )


def _read(name: str, search: str) -> NewSavedSearch:
    try:
        request: Any = orjson.loads(search)
    except orjson.JSONDecodeError:
        raise InvalidInput.of("request", "must be valid JSON") from None
    if not isinstance(request, dict):
        raise InvalidInput.of("request", "must be a JSON object")
    return validate(NewSavedSearch, {"name": name, "request": request})


def _errors_at(errors: tuple[FieldError, ...]) -> dict[str, str]:
    """The errors of the two fields; a field of the request is named in the text."""
    found: dict[str, str] = {}
    for error in errors:
        name, _, inner = error.field.partition(".")
        message = f"{inner}: {error.message}" if inner else error.message
        found[name] = f"{found[name]}; {message}" if name in found else message
    return found
