"""Comparison of two settings on the same query."""

from __future__ import annotations

from fastapi import Request, Response

from app.auth.principal import Role
from app.concurrency.stopwatch import Stopwatch, run_stopwatch
from app.console.pages.searching import lead_to_address, read_parameters, read_query
from app.console.parts.search.form import LONGEST_ADDRESS, SearchForm, errors_by_field
from app.console.parts.search.side_by_side import compare
from app.console.parts.search.sides import (
    COMPARE_ADDRESS,
    SETTINGS,
    SHARED,
    SIDES,
    compare_with,
    comparison_address,
)
from app.console.rendering import render
from app.console.session import console_router
from app.errors import InvalidInput
from app.knowledge.search.results import SearchResult
from app.web.access import CurrentCaller, CurrentServices

router = console_router(Role.READER)


@router.api_route("/compare", methods=["GET", "POST"])
async def show_comparison(request: Request, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Show one query and its filters with two settings, and the rank changes."""
    parameters = await read_parameters(request)
    shared = SearchForm.read(parameters, SHARED)
    sides = {side: SearchForm.read(parameters, SETTINGS, f"{side}.") for side in SIDES}
    if not any(side.values for side in sides.values()):
        sides = compare_with(SearchForm({}))
    address = comparison_address(shared, sides)
    if shared.text("query") and not shared.is_long and (led := lead_to_address(request, address)):
        return led
    errors: dict[str, dict[str, str]] = {}
    results: list[SearchResult] = []
    wholes = {side: SearchForm({**shared.values, **form.values}) for side, form in sides.items()}
    if "query" in parameters:
        for side, whole in wholes.items():
            try:
                query = read_query(whole, services)
                with run_stopwatch(Stopwatch()):  # the time of this side only
                    results.append(
                        await services.search.search(caller.tenant_id, query, subject=caller.subject)
                    )
            except InvalidInput as error:
                errors[side] = errors_by_field(error)
    comparison = compare(results, [side.upper() for side in SIDES]) if len(results) == len(SIDES) else None
    response = render(
        request,
        "pages/compare.html",
        status=422 if errors else 200,
        shared=shared,
        sides=sides,
        errors=errors,
        shared_errors={n: m for found in errors.values() for n, m in found.items() if n in SHARED},
        comparison=comparison,
        maximum=services.search.defaults.max_limit,
        alone={side: shared.lead_to(whole) for side, whole in wholes.items()},
    )
    is_long = shared.is_long or len(address) > LONGEST_ADDRESS
    response.headers["HX-Push-Url"] = COMPARE_ADDRESS if is_long else address
    return response
