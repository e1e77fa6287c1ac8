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
    Passage,
    SearchMetadata,
    SearchResult,
)

TITLE_LENGTH = 90
HEADINGS = " > "
"""Between the headings in the title of a chunk."""

_ROWS = re.compile(r"\|\s+\||\|\s*:?-{2,}")
"""The border of two rows of a table, or the line below its head."""
_CELL = re.compile(r"\s*\|(?:\s*(?:\||:?-{2,}:?))*\s*")

LEG_WORDS = {"semantic": "meaning", "keyword": "words"}
"""What each leg compares, as shown to people."""


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
        way: the headings above that section, with the document's own title.
        passages: of the document, the best first, in a search grouped by document.
        address: the page of the entry, or the passage in its document.
    """

    number: int
    hit: Hit
    title: Sequence[Piece]
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
        """What found it, as text."""
        return " and ".join(LEG_WORDS[leg] for leg in self.hit.sources)

    @property
    def address(self) -> str:
        """The page that a reader of the hit wants."""
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
        passages = list(_show_passages(hit, mark))
        if passages:
            way, title = [], hit.asset_name or title
        shown.append(
            ShownHit(
                number, hit, mark.split(title), way, mark.split(show_cells(hit.snippet)), passages, score
            )
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


def _show_passages(hit: Hit, mark: Highlighter) -> Iterator[ShownPassage]:
    """The passages of a document that a search grouped by document shows, the best first."""
    if hit.group is None or hit.asset_id is None:
        return
    best = Passage(hit.id, hit.score, hit.chunk_index, hit.metadata.get("page"), hit.title, hit.snippet)
    for passage in (best, *hit.group.further):
        name = (
            passage.title.split(HEADINGS)[-1]
            if passage.title
            else f"Passage {(passage.chunk_index or 0) + 1}"
        )
        yield ShownPassage(
            name,
            passage.page,
            mark.split(show_cells(passage.snippet)),
            _address(hit.asset_id, passage.chunk_index),
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
