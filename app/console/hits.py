"""A search result as the page shows it: hits, the explanation of their scores, ranks and facets."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from uuid import UUID

from app.console.search_form import INPUTS, SearchForm
from app.contract.results import (
    Explanation,
    Hit,
    HitExplanation,
    KeywordExplanation,
    Passage,
    SearchMetadata,
    SearchResult,
)
from app.contract.results import Facet as Counted
from app.contract.vocabulary import Leg
from app.knowledge.presentation import Highlighter, Piece, describe_degradation
from app.knowledge.search.journal import PageStart
from app.knowledge.search.legs.keyword import COVERAGE_EXPONENT

MOST_VALUES = 12
"""Maximum number of values per facet, most frequent first."""


@dataclass(frozen=True, slots=True)
class FacetValue:
    """A value: its number of matches, whether it is an active filter, and the address of its link."""

    value: str
    label: str
    count: str
    active: bool
    address: str


@dataclass(frozen=True, slots=True)
class Facet:
    """One property of entries and its values."""

    heading: str
    values: Sequence[FacetValue]


FACETS: Mapping[str, tuple[str, bool]] = {
    "entry_type": ("Type", True),
    "tags": ("Tags", True),
    "source": ("Source", False),
    "scope": ("Scope", False),
    "asset_id": ("Document", True),
}
"""Facets by filter parameter: heading, and whether it accepts several values."""


def show_facets(form: SearchForm, counted: Mapping[str, Counted] | None, names: Mapping[str, str]) -> list[Facet]:
    """The facets of a search; active filters are shown even without matches, and alone on later pages.

    `names` are those of documents by id.
    """
    facets: list[Facet] = []
    for parameter, (heading, several) in FACETS.items():
        found = counted.get(parameter) if counted is not None else None
        counts = {str(value.value): value.count for value in found.values} if found is not None else {}
        least = "" if found is None or found.exact else "at least "
        chosen = form.chosen(parameter)
        frequent = [value for value in counts if value not in chosen][:MOST_VALUES]
        if chosen or len(counts) > 1 or (parameter == "tags" and counts):
            values = [
                FacetValue(
                    value,
                    names.get(value) or INPUTS[parameter].say([value]),
                    f"{least}{counts.get(value, 0)}",
                    value in chosen,
                    form.lead_to(form.toggle(parameter, value, several=several)),
                )
                for value in (*chosen, *frequent)
            ]
            facets.append(Facet(heading, values))
    return facets


LEGS: tuple[Leg, ...] = ("semantic", "keyword")

BOOSTS = {
    "type": "for its type",
    "access": "for being read often",
    "verified": "for being verified",
    "recent": "for its last change",
    "identifier": "for matching the identifier exactly",
}


@dataclass(frozen=True, slots=True)
class Term:
    """The term of one leg in a score; `share` is its fraction of the sum, 0 to 1."""

    leg: str
    found: str
    sum: str
    value: float
    share: float


@dataclass(frozen=True, slots=True)
class ScoreWords:
    """The parts of a score: a term for each leg, then the factors, then the score."""

    terms: Sequence[Term]
    total: float
    factors: Sequence[tuple[str, float]]
    score: float
    remark: str


def tell_score(debug: Explanation, hit: HitExplanation) -> ScoreWords:
    """Explain the score of a hit of a search's first page."""
    total = hit.term_of("semantic") + hit.term_of("keyword")
    terms = [_term(debug, hit, leg, total) for leg in LEGS]
    factors = [(BOOSTS.get(name, name), factor) for name, factor in (hit.boosts or {}).items()]
    remarks: list[str] = []
    if hit.rerank_rank is not None:
        remarks.append(f"The reranker then ranked it {hit.rerank_rank} with {hit.rerank_score:.4g}.")
    if debug.diversity:
        remarks.append("Diversity then reorders the hits; their scores do not change.")
    return ScoreWords(terms, total, factors, hit.score, " ".join(remarks))


def _term(debug: Explanation, hit: HitExplanation, leg: Leg, total: float) -> Term:
    value, rank = hit.term_of(leg), hit.rank_in(leg)
    name, raw = ("similarity", hit.similarity) if leg == "semantic" else ("BM25", hit.keyword_score)
    if (debug.legs.semantic if leg == "semantic" else debug.legs.keyword) is None:
        found = "did not run"
    elif rank is None:
        found = "did not find it"
    else:
        found = f"rank {rank}, {name} {raw:.4f}"
    return Term(leg, found, _sum(debug, hit, leg), value, value / total if total else 0.0)


def _sum(debug: Explanation, hit: HitExplanation, leg: Leg) -> str:
    weight = debug.weights.semantic if leg == "semantic" else debug.weights.keyword
    if debug.fusion == "rrf":
        rank = hit.rank_in(leg)
        return "adds nothing" if rank is None else f"{weight:g} / ({debug.rrf_k} + {rank})"
    if leg == "semantic":
        cosine, stretch = hit.cosine, debug.cosine_stretch or 1.0
        if cosine is None:
            return "adds nothing"
        if stretch == 1.0:
            return f"{weight:g} × {max(cosine, 0.0):.4f}"
        return f"{weight:g} × (1 − {stretch:.4g} × {1 - cosine:.4f})"
    score, scale = hit.keyword_score, debug.keyword_scale
    if score is None or not scale:
        return "adds nothing"
    return f"{weight:g} × ({score:.4f} / {scale:.4f})^{COVERAGE_EXPONENT:g}"


WIDTH = 360
ROW = 28
HEAD = 34
MARGIN = 84
"""Space for the labels next to the outer columns."""

RADIUS = 9.0


@dataclass(frozen=True, slots=True)
class Place:
    """The position of an entry in a ranking: its rank, from 1, and its label."""

    rank: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class Ranking:
    """One column: the positions of its entries."""

    heading: str
    places: Mapping[UUID, Place]


@dataclass(frozen=True, slots=True)
class Stop:
    """A lane's point in one column, in the chart's units; without a place if the column lacks the entry."""

    x: float
    y: float
    place: Place | None


@dataclass(frozen=True, slots=True)
class Lane:
    """One hit's path through the columns: a stop in each, and lines between those that have it."""

    id: UUID
    title: str
    stops: Sequence[Stop]
    paths: Sequence[str]

    @property
    def everywhere(self) -> bool:
        """Whether each column has the hit."""
        return all(stop.place for stop in self.stops)


@dataclass(frozen=True, slots=True)
class RankChart:
    """The data of the chart and of its table."""

    width: int
    height: int
    headings: Sequence[tuple[float, str]]
    lanes: Sequence[Lane]


def draw_ranks(titles: Mapping[UUID, str], rankings: Sequence[Ranking]) -> RankChart:
    """Lay the chart out.

    Within a column, the entries of `titles` are in the order of their ranks, without gaps: a low rank is shown as a
    number, so that the chart stays small.
    """
    step = (WIDTH - 2 * MARGIN) / (len(rankings) - 1)
    columns = [MARGIN + step * index for index in range(len(rankings))]
    heights = [_stack(titles, ranking) for ranking in rankings]
    lanes = []
    for entry_id, title in titles.items():
        stops = [
            Stop(x, ys.get(entry_id, 0.0), ranking.places.get(entry_id))
            for x, ys, ranking in zip(columns, heights, rankings, strict=True)
        ]
        present = [stop for stop in stops if stop.place]
        paths = [_curve(a, b) for a, b in pairwise(present)]
        lanes.append(Lane(entry_id, title, stops, paths))
    rows = max((len(ys) for ys in heights), default=0)
    headings = [(x, ranking.heading) for x, ranking in zip(columns, rankings, strict=True)]
    return RankChart(WIDTH, HEAD + ROW * rows, headings, lanes)


def _stack(titles: Mapping[UUID, str], ranking: Ranking) -> dict[UUID, float]:
    places = {entry_id: ranking.places[entry_id] for entry_id in titles if entry_id in ranking.places}
    ordered = sorted(places, key=lambda entry_id: places[entry_id].rank)
    return {entry_id: HEAD + ROW * (row + 0.5) for row, entry_id in enumerate(ordered)}


def _curve(start: Stop, end: Stop) -> str:
    left, right = start.x + RADIUS, end.x - RADIUS
    middle = (left + right) / 2
    return f"M{left:g} {start.y:g}C{middle:g} {start.y:g} {middle:g} {end.y:g} {right:g} {end.y:g}"


TITLE_LENGTH = 90
HEADINGS = " > "
"""Between the headings in the title of a chunk."""

_ROWS = re.compile(r"\|\s+\||\|\s*:?-{2,}")
"""The border of two rows of a table, or the line below its head."""
_CELL = re.compile(r"\s*\|(?:\s*(?:\||:?-{2,}:?))*\s*")

LEG_WORDS = {"semantic": "meaning", "keyword": "words"}
"""The word for each leg, as shown to people."""


@dataclass(frozen=True, slots=True)
class ShownPassage:
    """A passage of a document in a search grouped by document; its `name` is its heading, or its place."""

    name: str
    page: int | None
    snippet: Sequence[Piece]
    address: str


@dataclass(frozen=True, slots=True)
class ShownHit:
    """A hit with its number in the whole ranking, its marked words, and its score explained if possible.

    Attributes:
        title: the heading of a chunk's section, or the title of the entry; in a search grouped by document, its name.
        document: what the document of a chunk is called.
        way: the headings above that section, without the document's own title.
        passages: of the document, the best first, in a search grouped by document.
        address: the page of the entry, or the passage in its document.
    """

    number: int
    hit: Hit
    title: Sequence[Piece]
    document: str
    way: Sequence[str]
    snippet: Sequence[Piece]
    passages: Sequence[ShownPassage]
    score: ScoreWords | None

    @property
    def left_out(self) -> int:
        """Passages of the document that are not shown."""
        return self.hit.group.total - len(self.passages) if self.hit.group and self.passages else 0

    @property
    def found_by(self) -> str:
        """The legs that found the hit, as text."""
        return " and ".join(LEG_WORDS[leg] for leg in self.hit.sources)

    @property
    def address(self) -> str:
        """The page that opens the hit."""
        hit = self.hit
        if hit.asset_id is None:
            return f"/console/entries/{hit.id}"
        return _address(hit.asset_id, hit.chunk_index)


@dataclass(frozen=True, slots=True)
class ShownResult:
    """All that the page shows of a search; times in milliseconds.

    Later pages have no chart and no explained scores: only the search of the first page runs the legs. `rateable`:
    the hits take feedback, which needs a record of the search.
    """

    hits: Sequence[ShownHit]
    metadata: SearchMetadata
    debug: Explanation | None
    chart: RankChart | None
    facets: Sequence[Facet]
    facets_counted: bool
    notices: Sequence[str]
    replacements: Sequence[tuple[str, str]]
    next_address: str | None
    rateable: bool

    @property
    def summary(self) -> str:
        """The number of hits, in one sentence."""
        found = len(self.hits)
        if not found:
            return "Nothing found."
        first, total = self.hits[0].number, self.metadata.total
        results = f"{total:,} result{'s' if total > 1 else ''}"
        if found == total:
            return results
        return f"{first:,} to {first + found - 1:,} of {results}" if found > 1 else f"{first:,} of {results}"

    @property
    def times(self) -> Sequence[tuple[str, int]]:
        """The time spent in each part of the search."""
        m = self.metadata
        return (
            ("waiting", m.waiting_ms),
            ("embedding", m.embedding_ms),
            ("semantic", m.semantic_ms),
            ("keyword", m.keyword_ms),
            ("fusion", m.fusion_ms),
            ("reranker", m.reranking_ms),
        )


def show_answer(
    form: SearchForm, result: SearchResult, names: Mapping[str, str], *, rateable: bool = True
) -> ShownResult:
    """Convert a search result to the form that the page shows; `names` are the names of documents by id."""
    before = PageStart.from_cursor(form.text("cursor")).offset if form.text("cursor") else 0
    debug = None if form.text("cursor") else result.debug_info
    told = {hit.id: hit for hit in debug.hits} if debug else {}
    words = debug.legs.keyword if debug else None
    shown = []
    for number, hit in enumerate(result.results, before + 1):
        mark = Highlighter(hit.title, hit.content, hit.matched_terms)
        score = tell_score(debug, told[hit.id]) if debug and hit.id in told else None
        *way, title = [title_of(hit)] if hit.asset_id is None else title_of(hit).split(HEADINGS)
        passages = list(_show_passages(hit, mark))
        document = names.get(str(hit.asset_id)) or hit.asset_name or ""
        if passages:
            way, title = [], document or title
        elif way[:1] == [document]:
            way = way[1:]
        snippet = mark.split(show_cells(hit.snippet))
        shown.append(ShownHit(number, hit, mark.split(title), document, way, snippet, passages, score))
    metadata = result.metadata
    following = metadata.next_cursor
    return ShownResult(
        hits=shown,
        metadata=metadata,
        debug=debug,
        chart=chart_legs(result.results, debug) if debug and shown else None,
        facets=show_facets(form, result.facets, names),
        facets_counted=result.facets is not None and bool(shown),
        notices=describe_degradation(metadata.degraded, metadata.pending),
        replacements=list(_list_replacements(words)) if isinstance(words, KeywordExplanation) else [],
        next_address=form.lead_to(form.put("cursor", following)) if following else None,
        rateable=rateable,
    )


def _show_passages(hit: Hit, mark: Highlighter) -> Iterator[ShownPassage]:
    """The passages of a document that a search grouped by document shows, the best first."""
    if hit.group is None or hit.asset_id is None:
        return
    best = Passage(hit.id, hit.score, hit.chunk_index, hit.metadata.get("page"), hit.title, hit.snippet)
    for passage in (best, *hit.group.further):
        name = passage.title.split(HEADINGS)[-1] if passage.title else f"Passage {(passage.chunk_index or 0) + 1}"
        yield ShownPassage(
            name, passage.page, mark.split(show_cells(passage.snippet)), _address(hit.asset_id, passage.chunk_index)
        )


def _address(asset_id: UUID, chunk_index: int | None) -> str:
    return f"/console/assets/{asset_id}?chunk={chunk_index}#passage"


def show_cells(snippet: str) -> str:
    """The snippet with dots between the cells of a table, which is told from a pipeline by the border of two rows."""
    return _CELL.sub(" · ", snippet).strip(" ·") if _ROWS.search(snippet) else snippet


def _list_replacements(words: KeywordExplanation) -> Iterator[tuple[str, str]]:
    """Words of the query, each with what was searched for in its place."""
    yield from words.corrections.items()
    for asked, completed in words.completions.items():
        yield f"{asked}…", ", ".join(completed)
    for asked, compound in words.compounds.items():
        yield asked, " ".join(compound)
    for term, synonyms in words.synonyms.items():
        yield term, ", ".join(synonyms)


def title_of(hit: Hit) -> str:
    """A hit's title, or the beginning of its text if it has none."""
    if hit.title:
        return hit.title
    text = " ".join(hit.content[: 4 * TITLE_LENGTH].split())
    return text if len(text) <= TITLE_LENGTH else text[:TITLE_LENGTH].rsplit(" ", 1)[0] + "…"


def chart_legs(hits: Sequence[Hit], debug: Explanation) -> RankChart:
    """The semantic, fused and keyword rankings side by side."""

    def places(column: Callable[[HitExplanation], tuple[int | None, float | None]], digits: int) -> dict[UUID, Place]:
        found = ((hit.id, *column(hit)) for hit in debug.hits)
        return {id: Place(rank, f"{value:.{digits}f}") for id, rank, value in found if rank is not None}

    return draw_ranks(
        {hit.id: title_of(hit) for hit in hits},
        [
            Ranking("Semantic", places(lambda hit: (hit.semantic_rank, hit.similarity), 2)),
            Ranking("Combined", places(lambda hit: (hit.rank, hit.score), 4)),
            Ranking("Keyword", places(lambda hit: (hit.keyword_rank, hit.keyword_score), 1)),
        ],
    )
