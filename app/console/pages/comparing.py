"""Comparison of two settings on the same query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from fastapi import Request, Response

from app.auth.principal import Role
from app.concurrency.stopwatch import Stopwatch, run_stopwatch
from app.console.pages.searching import lead_to_address, read_parameters, read_query
from app.console.parts.search.form import LONGEST_ADDRESS, SearchForm, errors_by_field
from app.console.parts.search.hits import title_of
from app.console.parts.search.rank_chart import Place, RankChart, Ranking, draw_ranks
from app.console.parts.search.sides import (
    ADDRESS,
    SETTINGS,
    SHARED,
    SIDES,
    compare_with,
    comparison_address,
)
from app.console.rendering import render
from app.console.session import console_router
from app.errors import InvalidInput
from app.knowledge.search.results import Hit, SearchResult
from app.web.access import CurrentCaller, CurrentServices

router = console_router(Role.READER)


@dataclass(frozen=True, slots=True)
class Row:
    """A hit of one or both sides: its ranks, and its rank change from the first side to the second."""

    id: UUID
    title: str
    hit: Hit
    ranks: Sequence[int | None]
    scores: Sequence[float | None]

    @property
    def movement(self) -> str:
        """The rank change as text."""
        before, after = self.ranks
        if before is None:
            return "only in B"
        if after is None:
            return "only in A"
        if before == after:
            return "same"
        return f"▲ {before - after}" if before > after else f"▼ {after - before}"


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Both results as one table and one chart."""

    rows: Sequence[Row]
    chart: RankChart
    results: Sequence[SearchResult]

    @property
    def summary(self) -> str:
        """A summary of the differences."""
        both = sum(None not in row.ranks for row in self.rows)
        moved = sum(None not in row.ranks and row.ranks[0] != row.ranks[1] for row in self.rows)
        a, b = (len(result.results) for result in self.results)
        return (
            f"{both} hits on both sides, {moved} of them moved; {a - both} only in A, {b - both} only in B."
        )


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
    comparison = compare(results) if len(results) == len(SIDES) else None
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
    response.headers["HX-Push-Url"] = ADDRESS if is_long else address
    return response


def compare(results: Sequence[SearchResult]) -> SideBySide:
    """Combine two results into one table: the order of the first, then the hits only the second has."""
    hits: dict[UUID, Hit] = {}
    for result in results:
        for hit in result.results:
            hits.setdefault(hit.id, hit)
    places = [
        {hit.id: Place(rank, f"{hit.score:.4f}") for rank, hit in enumerate(result.results, 1)}
        for result in results
    ]
    scores = [{hit.id: hit.score for hit in result.results} for result in results]
    rows = [
        Row(
            id,
            title_of(hit),
            hit,
            [side[id].rank if id in side else None for side in places],
            [side.get(id) for side in scores],
        )
        for id, hit in hits.items()
    ]
    titles = {row.id: row.title for row in rows}
    chart = draw_ranks(titles, [Ranking(side.upper(), p) for side, p in zip(SIDES, places, strict=True)])
    return SideBySide(rows, chart, results)
