"""The search page, and what it shows of single entries: why one is missing, and what is related to one."""

from __future__ import annotations

from itertools import groupby
from uuid import UUID

from fastapi import Request, Response
from pydantic import ValidationError

from app.api.dependencies import Caller, CurrentCaller, CurrentServices, CurrentSettings
from app.api.models.search import SearchRequest
from app.api.problems import invalid_input
from app.api.search import make_query, run_search
from app.auth.principal import Role
from app.console.hits import Answer, show_answer
from app.console.rendering import render
from app.console.search_form import SearchForm, errors_by_field
from app.console.session import HOME, console_router
from app.console.sides import compare_with, comparison_address
from app.errors import InvalidInput
from app.knowledge.query import SearchQuery
from app.settings import Settings

router = console_router(Role.READER)

RELATED = 10
"""Related entries that are shown."""

RELATIONSHIPS = {
    "parent": "Parent",
    "sibling": "Siblings",
    "source": "Made from",
    "derived": "Made from it",
    "tag_overlap": "Sharing tags",
}

STAGES = {
    "entry": "No such entry",
    "filter": "Filter",
    "cut": "Below the page's end",
    "semantic": "Meaning",
    "keyword": "Words",
}
"""Where an entry can be lost, as people call it."""


@router.get("")
async def show_search(
    request: Request, caller: CurrentCaller, services: CurrentServices, settings: CurrentSettings
) -> Response:
    """The search form, filled in as the address says, and the hits; a search can be shared as this page's address."""
    form = SearchForm.read(request.query_params)
    answer: Answer | None = None
    errors: dict[str, str] = {}
    if "query" in request.query_params:
        try:
            query = read_query(form, caller, settings, explain=True)
            answer = show_answer(form, await run_search(query, caller, services))
        except InvalidInput as error:
            errors = errors_by_field(error)
    response = render(
        request,
        "search.html",
        status=422 if errors else 200,
        form=form,
        answer=answer,
        errors=errors,
        maximum=settings.search.max_limit,
        compare_address=comparison_address(form, compare_with(form)),
    )
    # What is left empty in the form would only make the address longer.
    response.headers["HX-Push-Url"] = form.address()
    return response


@router.get("/why-not")
async def show_why_not(
    request: Request, caller: CurrentCaller, services: CurrentServices, settings: CurrentSettings
) -> Response:
    """Which filter, leg, threshold or cut lost an entry, for the search that the address describes."""
    form = SearchForm.read(request.query_params)
    wanted = request.query_params.get("entry_id", "").strip()
    verdict, refusal = None, ""
    try:
        entry_id = UUID(wanted)
    except ValueError:
        refusal = "must be the id of an entry, such as 0198c5a2-7d1e-7cc3-9f6a-2b1d4e5f6a7b"
    else:
        try:
            query = read_query(form, caller, settings)
            verdict = await services.search.why_not(caller.tenant.tenant_id, entry_id, query)
        except InvalidInput as error:
            refusal = str(error)
    status = 422 if refusal else 200
    return render(
        request,
        "why_not.html",
        status=status,
        form=form,
        verdict=verdict,
        refusal=refusal,
        wanted=wanted,
        back=form.address(),
        stages=STAGES,
    )


@router.get("/related/{entry_id}")
async def show_related(
    request: Request, entry_id: UUID, caller: CurrentCaller, services: CurrentServices
) -> Response:
    """The entries around an entry, by relationship. An unknown id has none."""
    found = await services.related.related(caller.tenant.tenant_id, entry_id, limit=RELATED)
    groups = [
        (RELATIONSHIPS[relationship], list(items))
        for relationship, items in groupby(found, key=lambda item: item.relationship)
    ]
    return render(request, "related.html", groups=groups, home=HOME)


def read_query(form: SearchForm, caller: Caller, settings: Settings, *, explain: bool = False) -> SearchQuery:
    """The search that a form asks for, checked as the API checks it. Raises InvalidInput.

    With `explain` the answer tells how it came about, whether or not the form asks for it.
    """
    request = form.request() | ({"explain": True} if explain else {})
    try:
        return make_query(SearchRequest.model_validate(request), caller, settings)
    except ValidationError as error:
        raise invalid_input(error) from None
