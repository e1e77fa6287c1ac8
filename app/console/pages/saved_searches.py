"""Saved searches of the visitor."""

from collections.abc import Mapping
from uuid import UUID

from fastapi import Response
from fastapi.responses import RedirectResponse

from app.auth.principal import Role
from app.console.forms import Form, read_texts, refusal_at, show_form
from app.console.pages.searching import render_search
from app.console.rendering import PAGE_SIZE, CurrentVisit, Visit, page_links
from app.console.search_form import SearchForm
from app.console.session import console_router
from app.contract.saved_searches import NewSavedSearch, Subscription
from app.contract.validation import validate
from app.errors import Conflict, InvalidInput, SubscriptionNotFound
from app.web.rendering import PageCursor

router = console_router(Role.READER)

LIST = "/console/saved-searches"
BLANK = show_form(NewSavedSearch, {})
DONE = {
    "saved": "The search has been saved.",
    "replaced": "The saved search of this name has been replaced.",
    "deleted": "The saved search has been deleted.",
    "asked": "The endpoint gets another challenge within a minute.",
}


@router.get("/saved-searches")
async def show_saved_searches(visit: CurrentVisit, cursor: PageCursor = "", done: str = "") -> Response:
    """Show the visitor's saved searches, newest first, and a form for a new one."""
    return await _show_list(visit, cursor=cursor, done=done)


@router.post("/saved-searches")
async def save_search(visit: CurrentVisit) -> Response:
    """Save a search under a name; `request` is the JSON of POST /knowledge/search."""
    form = BLANK.fill(await read_texts(visit.request))
    try:
        saved = validate(NewSavedSearch, form.changes(BLANK))
        _, new = await visit.services.saved_searches.save(visit.tenant_id, visit.subject, saved)
    except (InvalidInput, Conflict) as error:
        errors, status = refusal_at(error, form, "name")
        return await _show_list(visit, form=form, errors=errors, status=status)
    return RedirectResponse(f"{LIST}?done={'saved' if new else 'replaced'}", 303)


@router.get("/saved-searches/{saved_search_id}/run")
async def run_saved_search(visit: CurrentVisit, saved_search_id: UUID) -> Response:
    """Redirect to the search page with the saved search; a search that is too long for a URL is shown here."""
    saved = await visit.services.saved_searches.get(visit.tenant_id, visit.subject, saved_search_id)
    form = SearchForm.of_request(saved.request)
    if not form.is_long:
        return RedirectResponse(form.address(), 303)
    return await render_search(visit, form)


@router.post("/saved-searches/{saved_search_id}/subscription/confirmation")
async def ask_endpoint_again(visit: CurrentVisit, saved_search_id: UUID) -> Response:
    """Send another challenge to the endpoint of a subscription that has not agreed."""
    await visit.services.subscriptions.ask_again(visit.tenant_id, visit.subject, saved_search_id)
    return RedirectResponse(f"{LIST}?done=asked", 303)


@router.get("/saved-searches/{saved_search_id}/delete")
async def ask_before_deletion(visit: CurrentVisit, saved_search_id: UUID) -> Response:
    """Ask for confirmation before a saved search is deleted."""
    saved = await visit.services.saved_searches.get(visit.tenant_id, visit.subject, saved_search_id)
    return visit.render("pages/saved_search_deletion.html", saved=saved)


@router.post("/saved-searches/{saved_search_id}/delete")
async def delete_saved_search(visit: CurrentVisit, saved_search_id: UUID) -> Response:
    """Delete a saved search and its subscription."""
    await visit.services.saved_searches.delete(visit.tenant_id, visit.subject, saved_search_id)
    return RedirectResponse(f"{LIST}?done=deleted", 303)


async def _show_list(
    visit: Visit,
    *,
    cursor: str = "",
    done: str = "",
    form: Form = BLANK,
    errors: Mapping[str, str] | None = None,
    status: int = 200,
) -> Response:
    tenant_id = visit.tenant_id
    page = await visit.services.saved_searches.list_saved(
        tenant_id, visit.subject, limit=PAGE_SIZE, cursor=cursor or None
    )
    subscriptions: dict[UUID, Subscription] = {}
    for saved in page.items:
        if saved.subscribed:
            try:
                subscriptions[saved.id] = await visit.services.subscriptions.get(tenant_id, visit.subject, saved.id)
            except SubscriptionNotFound:  # the subscription has ended in the meantime
                continue
    return visit.render(
        "pages/saved_searches.html",
        status=status,
        page=page,
        subscriptions=subscriptions,
        links=page_links(LIST, page, cursor, {}),
        form=form,
        errors=errors or {},
        done=DONE.get(done),
    )
