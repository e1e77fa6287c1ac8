"""The search page, its parts about single entries, the comparison of settings, and feedback on hits."""

from itertools import groupby
from typing import Annotated, Any
from uuid import UUID

from fastapi import Form, Response
from fastapi.responses import RedirectResponse
from starlette.datastructures import FormData, ImmutableMultiDict

from app.auth.principal import Role
from app.concurrency.stopwatch import Stopwatch, run_stopwatch
from app.console.comparison import COMPARE_ADDRESS, SHARED, SIDES, compare, compare_with, comparison_address
from app.console.forms import errors_at, read_id, read_texts
from app.console.hits import FACETS, MOST_VALUES, ShownResult, show_answer
from app.console.installation import HOME
from app.console.rendering import CurrentVisit, Visit
from app.console.search_form import ADDRESS, LONGEST_ADDRESS, RANKING, SearchForm
from app.console.session import console_router, local_page
from app.console.start import gather_start
from app.console.words import RELATIONSHIPS, name_document
from app.contract.results import SearchResult
from app.contract.search import SearchQuery
from app.contract.validation import validate
from app.errors import InvalidInput

router = console_router(Role.READER)

TYPING = "query"
"""The field that sends a request while the visitor types."""

RELATED = 10
"""Maximum number of related entries shown."""


@router.api_route("", methods=["GET", "POST"])
async def show_search(visit: CurrentVisit) -> Response:
    """Show the search form and the hits; the URL of this page can be shared.

    The form is sent with POST, because a search may be too long for a URL; otherwise, the response redirects to it.
    """
    parameters = await read_parameters(visit)
    form = SearchForm.read(parameters)
    if form.text("query") and (led := lead_to_address(visit, form.address())):
        return led
    typing = visit.request.headers.get("hx-trigger") == TYPING
    asked = bool(form.text("query")) if typing else "query" in parameters
    return await render_search(visit, form, is_asked=asked, typing=typing)


async def render_search(visit: Visit, form: SearchForm, *, is_asked: bool = True, typing: bool = False) -> Response:
    """Render the search page, with the result if `is_asked`, and what a new visitor needs if not.

    While the visitor is `typing`, searches are not recorded, and leave the address of the page as it is.
    """
    answer: ShownResult | None = None
    errors: dict[str, str] = {}
    if is_asked:
        try:
            query = read_query(form, explain=True)
            result = await visit.services.search.search(
                visit.tenant_id, query, subject=visit.subject, recorded=not typing
            )
            names = await _name_documents(visit, form, result)
            answer = show_answer(form, result, names, rateable=not typing)
        except InvalidInput as error:
            errors = errors_at(error.errors, form)
    response = visit.render(
        "pages/search.html",
        status=422 if errors else 200,
        form=form,
        answer=answer,
        errors=errors,
        maximum=visit.services.search.defaults.max_limit,
        compare_address=comparison_address(form, compare_with(form)),
        start=None if answer or errors else await gather_start(visit),
    )
    if typing:
        return response
    # Empty fields would only make the URL longer.
    response.headers["HX-Push-Url"] = ADDRESS if form.is_long else form.address()
    return response


@router.api_route("/why-not", methods=["GET", "POST"])
async def show_why_not(visit: CurrentVisit) -> Response:
    """Show which filter, leg, threshold or cut excluded an entry from the given search; without one, ask for it."""
    parameters = await read_parameters(visit)
    form = SearchForm.read(parameters)
    wanted = str(parameters.get("entry_id", "")).strip()
    verdict, refusal = None, ""
    if "entry_id" in parameters:
        try:
            query = read_query(form)
            entry_id = await _find_entry(visit, wanted)
            verdict = await visit.services.search.why_not(visit.tenant_id, entry_id, query)
        except InvalidInput as error:
            refusal = str(error)
    status = 422 if refusal else 200
    return visit.render("pages/why_not.html", status=status, form=form, verdict=verdict, refusal=refusal, wanted=wanted)


@router.get("/related/{entry_id}")
async def show_related(visit: CurrentVisit, entry_id: UUID) -> Response:
    """Show the entries related to an entry, by relationship. An unknown id has none."""
    found = await visit.services.reading.related(
        visit.tenant_id, entry_id, RELATED, include_quarantined=visit.caller.sees_quarantined
    )
    groups = [
        (RELATIONSHIPS[relationship], list(items))
        for relationship, items in groupby(found.results, key=lambda item: item.relationship)
    ]
    return visit.render("pages/related.html", groups=groups)


async def _name_documents(visit: Visit, form: SearchForm, result: SearchResult) -> dict[str, str]:
    """The names of the documents that the facets and hits show."""
    counted = (result.facets or {}).get("asset_id")
    values = [str(value.value) for value in counted.values[:MOST_VALUES]] if counted is not None else []
    found_in = [str(hit.asset_id) for hit in result.results if hit.asset_id is not None]
    shown = dict.fromkeys((*form.chosen("asset_id"), *values, *found_in))
    found = await visit.services.assets.find(visit.tenant_id, [UUID(asset_id) for asset_id in shown]) if shown else ()
    return {str(asset.id): name_document(asset) for asset in found}


async def _find_entry(visit: Visit, wanted: str) -> UUID:
    """Find the entry with this id, address or external id. Raises InvalidInput if no entry can have it."""
    try:
        return UUID(read_id(wanted))
    except ValueError:
        if wanted and "\x00" not in wanted:
            page = await visit.services.entries.list_entries(
                visit.tenant_id, limit=1, external_id=wanted, include_expired=True, include_quarantined=True
            )
            if page.items:
                return page.items[0].id
        raise InvalidInput.of("entry_id", "must be the id, the address or the external id of an entry") from None


async def read_parameters(visit: Visit) -> ImmutableMultiDict[str, Any]:
    """The parameters of a search, from the URL or a form; the URL takes precedence."""
    named = visit.request.query_params
    if visit.request.method != "POST":
        return named
    sent = await read_texts(visit.request)
    kept = [(n, v) for n, v in sent.multi_items() if n not in named and isinstance(v, str)]
    return FormData([*kept, *named.multi_items()])


def lead_to_address(visit: Visit, address: str) -> Response | None:
    """Redirect from a submitted form to the URL of the same search; None if it is too long or no form was sent."""
    if visit.request.method != "POST" or visit.wants_part or len(address) > LONGEST_ADDRESS:
        return None
    return RedirectResponse(address, 303)


def read_query(form: SearchForm, *, explain: bool = False) -> SearchQuery:
    """Read the search from a form, validated as in the API. Raises InvalidInput.

    With `explain`, the result is explained and has facets even if the form does not ask for it; a past time has none.
    """
    request = form.request()
    if explain:
        request["explain"] = True
        if "as_of" not in request:
            request.setdefault("facets", list(FACETS))
    return validate(SearchQuery, request)


@router.api_route("/compare", methods=["GET", "POST"])
async def show_comparison(visit: CurrentVisit) -> Response:
    """Show one query and its filters with two settings, and the rank changes."""
    parameters = await read_parameters(visit)
    shared = SearchForm.read(parameters, SHARED)
    sides = {side: SearchForm.read(parameters, RANKING, f"{side}.") for side in SIDES}
    if not any(side.values for side in sides.values()):
        sides = compare_with(SearchForm({}))
    address = comparison_address(shared, sides)
    if shared.text("query") and not shared.is_long and (led := lead_to_address(visit, address)):
        return led
    errors: dict[str, dict[str, str]] = {}
    results: list[SearchResult] = []
    wholes = {side: SearchForm({**shared.values, **form.values}) for side, form in sides.items()}
    if "query" in parameters:
        for side, whole in wholes.items():
            try:
                query = read_query(whole)
                with run_stopwatch(Stopwatch()):  # the time of this side only
                    results.append(await visit.services.search.search(visit.tenant_id, query, subject=visit.subject))
            except InvalidInput as error:
                errors[side] = errors_at(error.errors, whole)
    comparison = compare(results, [side.upper() for side in SIDES]) if len(results) == len(SIDES) else None
    response = visit.render(
        "pages/compare.html",
        status=422 if errors else 200,
        shared=shared,
        sides=sides,
        errors=errors,
        shared_errors={n: m for found in errors.values() for n, m in found.items() if n in SHARED},
        comparison=comparison,
        maximum=visit.services.search.defaults.max_limit,
        alone={side: shared.lead_to(whole) for side, whole in wholes.items()},
    )
    is_long = shared.is_long or len(address) > LONGEST_ADDRESS
    response.headers["HX-Push-Url"] = COMPARE_ADDRESS if is_long else address
    return response


@router.post("/feedback")
async def rate_hit(
    visit: CurrentVisit,
    search_id: Annotated[UUID, Form()],
    entry_id: Annotated[UUID, Form()],
    relevant: Annotated[bool, Form()],
    next: Annotated[str, Form()] = HOME,
) -> Response:
    """Store whether a hit of the visitor's own search was useful; new feedback replaces the old.

    If a part of the page was requested, the response is the two buttons with the new state.
    """
    given = await visit.services.feedback.give(visit.tenant_id, visit.subject, search_id, entry_id, relevant)
    part = visit.wants_part
    template = "parts/rated.html" if part else "pages/rated.html"
    return visit.render(template, given=given, next=local_page(next))
