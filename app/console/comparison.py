"""Compare two results of one query side by side."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode
from uuid import UUID

from app.console.hits import Place, RankChart, Ranking, draw_ranks, title_of
from app.console.search_form import INPUTS, PAGES, RANKING, SearchForm
from app.contract.results import Hit, SearchResult

COMPARE_ADDRESS = "/console/compare"
SIDES = ("a", "b")
SHARED = tuple(name for name in INPUTS if name not in (*RANKING, *PAGES))
"""Parameters of both sides; each side has its own ranking."""


def compare_with(form: SearchForm) -> dict[str, SearchForm]:
    """Sides to begin with: a search's own settings, and the same with the other fusion."""
    own = {name: values for name, values in form.values.items() if name in RANKING}
    fusion = form.text("fusion") or "score"
    other = "rrf" if fusion == "score" else "score"
    return {"a": SearchForm({**own, "fusion": (fusion,)}), "b": SearchForm({**own, "fusion": (other,)})}


def comparison_address(shared: SearchForm, sides: Mapping[str, SearchForm]) -> str:
    """The address of the comparison; without what is shared where that is long and stands in a form."""
    own = () if shared.is_long else shared.pairs()
    pairs = [(name, value) for name, value in own if name in SHARED]
    for side, form in sides.items():
        pairs += form.pairs(prefix=f"{side}.")
    return f"{COMPARE_ADDRESS}?{urlencode(pairs)}"


@dataclass(frozen=True, slots=True)
class Row:
    """A hit of one or both sides: its ranks, from 1, and scores on each side, None where that side lacks it.

    `movement` is its change from the first side to the second, and `tone` the class of the mark that shows it.
    """

    id: UUID
    title: str
    hit: Hit
    ranks: Sequence[int | None]
    scores: Sequence[float | None]
    movement: str
    tone: str

    @property
    def has_moved(self) -> bool:
        """Whether the sides differ about the hit."""
        return self.ranks[0] != self.ranks[1]


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Both results as one table and one chart."""

    names: Sequence[str]
    rows: Sequence[Row]
    chart: RankChart
    results: Sequence[SearchResult]

    @property
    def moved(self) -> int:
        """Number of hits about which the sides differ."""
        return sum(row.has_moved for row in self.rows)

    @property
    def summary(self) -> str:
        """A summary of the differences."""
        both = sum(None not in row.ranks for row in self.rows)
        moved = sum(None not in row.ranks and row.has_moved for row in self.rows)
        alone = [
            f"{len(result.results) - both} only in {name}"
            for name, result in zip(self.names, self.results, strict=True)
        ]
        return f"{both} hits on both sides, {moved} of them moved; {', '.join(alone)}."

    def top(self, most: int) -> Sequence[Row]:
        """The hits that are among the first `most` of either side."""
        return [row for row in self.rows if any(rank is not None and rank <= most for rank in row.ranks)]


def compare(results: Sequence[SearchResult], names: Sequence[str]) -> SideBySide:
    """Combine two results into one table: the order of the first, then the hits only the second has."""
    hits: dict[UUID, Hit] = {}
    for result in results:
        for hit in result.results:
            hits.setdefault(hit.id, hit)
    places = [
        {hit.id: Place(rank, f"{hit.score:.4f}") for rank, hit in enumerate(result.results, 1)} for result in results
    ]
    scores = [{hit.id: hit.score for hit in result.results} for result in results]
    rows = []
    for id, hit in hits.items():
        ranks = [side[id].rank if id in side else None for side in places]
        movement, tone = _describe(ranks, names)
        rows.append(Row(id, title_of(hit), hit, ranks, [side.get(id) for side in scores], movement, tone))
    titles = {row.id: row.title for row in rows}
    chart = draw_ranks(titles, [Ranking(name, found) for name, found in zip(names, places, strict=True)])
    return SideBySide(names, rows, chart, results)


def _describe(ranks: Sequence[int | None], names: Sequence[str]) -> tuple[str, str]:
    before, after = ranks
    if before is None:
        return f"only in {names[1]}", "warning"
    if after is None:
        return f"only in {names[0]}", "warning"
    if before == after:
        return "same", ""
    return (f"▲ {before - after}", "good") if before > after else (f"▼ {after - before}", "bad")
