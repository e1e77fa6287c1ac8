"""A search's answer as the page shows it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from app.console.parts.facets import Facet, count_facets
from app.console.parts.rank_chart import Place, RankChart, Ranking, draw_ranks
from app.console.parts.score_words import LEGS, ScoreWords, tell_score
from app.console.parts.search_form import SearchForm
from app.knowledge.search.answer.highlighting import Highlighter, Piece
from app.knowledge.search.journal.continuation import PageStart
from app.knowledge.search.results import (
    Explanation,
    Hit,
    HitExplanation,
    KeywordExplanation,
    SearchMetadata,
    SearchResult,
)

DEGRADED = {
    "embedding_unavailable": "The embedding provider is away: words alone answered, without meaning.",
    "embedding_quota": "The day's embedding tokens are used up: words alone answered, without meaning.",
}
TITLE_LENGTH = 90


@dataclass(frozen=True, slots=True)
class ShownHit:
    """A hit with its number in the whole ranking, its words marked, and its score told where that is known."""

    number: int
    hit: Hit
    title: Sequence[Piece]
    snippet: Sequence[Piece]
    score: ScoreWords | None

    @property
    def found_by(self) -> str:
        """The legs that found it, in words."""
        return " and ".join(LEGS[leg] for leg in self.hit.sources)


@dataclass(frozen=True, slots=True)
class ShownResult:
    """All that the page shows of one search; times in milliseconds.

    On later pages of a ranking there is no chart and no score in words: only the first page's search had its legs run.
    """

    hits: Sequence[ShownHit]
    metadata: SearchMetadata
    debug: Explanation | None
    chart: RankChart | None
    facets: Sequence[Facet]
    notices: Sequence[str]
    corrections: Mapping[str, str]
    next_address: str | None

    @property
    def summary(self) -> str:
        """How much was found, in one sentence."""
        found = len(self.hits)
        if not found:
            return "Nothing found."
        first = self.hits[0].number
        span = f"{first} to {first + found - 1}" if found > 1 else f"{first}"
        hits = "hits" if self.metadata.total > 1 else "hit"
        about = self.metadata.estimated_matches
        more = f", about {about} matching entries" if about > self.metadata.total else ""
        return f"{span} of {self.metadata.total} ranked {hits}{more}."

    @property
    def times(self) -> Sequence[tuple[str, int]]:
        """What the search spent its time on."""
        m = self.metadata
        return (
            ("embedding", m.embedding_ms), ("meaning", m.semantic_ms), ("words", m.keyword_ms), ("fusion", m.fusion_ms),
        )  # fmt: skip


def show_answer(form: SearchForm, result: SearchResult) -> ShownResult:
    """Put a search's answer into the form that the page shows."""
    before = PageStart.from_cursor(form.text("cursor")).offset if form.text("cursor") else 0
    debug = None if form.text("cursor") else result.debug_info
    told = {hit.id: hit for hit in debug.hits} if debug else {}
    words = debug.legs.keyword if debug else None
    shown = []
    for number, hit in enumerate(result.results, before + 1):
        mark = Highlighter(hit)
        score = tell_score(debug, told[hit.id]) if debug and hit.id in told else None
        shown.append(ShownHit(number, hit, mark.split(title_of(hit)), mark.split(hit.snippet), score))
    metadata = result.metadata
    following = metadata.next_cursor
    return ShownResult(
        hits=shown,
        metadata=metadata,
        debug=debug,
        chart=chart_legs(result.results, debug) if debug and shown else None,
        facets=count_facets(form, result.results),
        notices=[DEGRADED.get(reason, reason) for reason in metadata.degraded],
        corrections=words.corrections if isinstance(words, KeywordExplanation) else {},
        next_address=form.lead_to(form.put("cursor", following)) if following else None,
    )


def title_of(hit: Hit) -> str:
    """A hit's title, or where it has none the beginning of its text."""
    if hit.title:
        return hit.title
    text = " ".join(hit.content[: 4 * TITLE_LENGTH].split())
    return text if len(text) <= TITLE_LENGTH else text[:TITLE_LENGTH].rsplit(" ", 1)[0] + "…"


def chart_legs(hits: Sequence[Hit], debug: Explanation) -> RankChart:
    """Meaning, the fused ranking and words side by side."""

    def places(
        column: Callable[[HitExplanation], tuple[int | None, float | None]], digits: int
    ) -> dict[UUID, Place]:
        found = ((hit.id, *column(hit)) for hit in debug.hits)
        return {id: Place(rank, f"{value:.{digits}f}") for id, rank, value in found if rank is not None}

    return draw_ranks(
        {hit.id: title_of(hit) for hit in hits},
        [
            Ranking("Meaning", places(lambda hit: (hit.semantic_rank, hit.similarity), 2)),
            Ranking("Together", places(lambda hit: (hit.rank, hit.score), 4)),
            Ranking("Words", places(lambda hit: (hit.keyword_rank, hit.keyword_score), 1)),
        ],
    )
