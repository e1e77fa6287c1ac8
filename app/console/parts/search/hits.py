"""A search result as the page shows it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from app.console.parts.search.facets import Facet, show_facets
from app.console.parts.search.form import SearchForm
from app.console.parts.search.rank_chart import Place, RankChart, Ranking, draw_ranks
from app.console.parts.search.score_words import ScoreWords, tell_score
from app.knowledge.search.answer.highlighting import Highlighter, Piece
from app.knowledge.search.answer.notices import describe_degradation
from app.knowledge.search.journal.continuation import PageStart
from app.knowledge.search.results import (
    Explanation,
    Hit,
    HitExplanation,
    KeywordExplanation,
    SearchMetadata,
    SearchResult,
)

TITLE_LENGTH = 90
HEADINGS = " > "
"""Between the headings in the title of a chunk."""

_ROWS = re.compile(r"\|\s+\||\|\s*:?-{2,}")
"""The border of two rows of a table, or the line below its head."""
_CELL = re.compile(r"\s*\|(?:\s*(?:\||:?-{2,}:?))*\s*")

LEGS = {"semantic": "meaning", "keyword": "words"}
"""What each leg compares, as shown to people."""


@dataclass(frozen=True, slots=True)
class ShownHit:
    """A hit with its number in the whole ranking, its marked words, and its score explained if possible.

    Attributes:
        title: the heading of a chunk's section, or the title of the entry.
        way: the headings above that section, with the document's own title.
        address: the page of the entry, or the passage in its document.
    """

    number: int
    hit: Hit
    title: Sequence[Piece]
    way: Sequence[str]
    snippet: Sequence[Piece]
    score: ScoreWords | None

    @property
    def found_by(self) -> str:
        """What found it, as text."""
        return " and ".join(LEGS[leg] for leg in self.hit.sources)

    @property
    def address(self) -> str:
        """The page that a reader of the hit wants."""
        hit = self.hit
        if hit.asset_id is None:
            return f"/console/entries/{hit.id}"
        return f"/console/assets/{hit.asset_id}?chunk={hit.chunk_index}#passage"


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
        first = self.hits[0].number
        span = f"{first} to {first + found - 1}" if found > 1 else f"{first}"
        return f"{span} of {self.metadata.total} result{'s' if self.metadata.total > 1 else ''}"

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
    """Convert a search result to the form that the page shows; `names` are those of documents by id."""
    before = PageStart.from_cursor(form.text("cursor")).offset if form.text("cursor") else 0
    debug = None if form.text("cursor") else result.debug_info
    told = {hit.id: hit for hit in debug.hits} if debug else {}
    words = debug.legs.keyword if debug else None
    shown = []
    for number, hit in enumerate(result.results, before + 1):
        mark = Highlighter(hit)
        score = tell_score(debug, told[hit.id]) if debug and hit.id in told else None
        *way, title = [title_of(hit)] if hit.asset_id is None else title_of(hit).split(HEADINGS)
        shown.append(
            ShownHit(number, hit, mark.split(title), way, mark.split(show_cells(hit.snippet)), score)
        )
    metadata = result.metadata
    following = metadata.next_cursor
    return ShownResult(
        hits=shown,
        metadata=metadata,
        debug=debug,
        chart=chart_legs(result.results, debug) if debug and shown else None,
        facets=show_facets(form, result.facets, names),
        facets_counted=result.facets is not None and bool(shown),
        notices=describe_degradation(metadata),
        replacements=list(_list_replacements(words)) if isinstance(words, KeywordExplanation) else [],
        next_address=form.lead_to(form.put("cursor", following)) if following else None,
        rateable=rateable,
    )


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


def title_of(hit: Hit) -> str:
    """A hit's title, or the beginning of its text if it has none."""
    if hit.title:
        return hit.title
    text = " ".join(hit.content[: 4 * TITLE_LENGTH].split())
    return text if len(text) <= TITLE_LENGTH else text[:TITLE_LENGTH].rsplit(" ", 1)[0] + "…"


def chart_legs(hits: Sequence[Hit], debug: Explanation) -> RankChart:
    """The semantic, fused and keyword rankings side by side."""

    def places(
        column: Callable[[HitExplanation], tuple[int | None, float | None]], digits: int
    ) -> dict[UUID, Place]:
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
