"""A search's answer as the page shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from app.console.parts.facets import Facet, count_facets
from app.console.parts.rank_chart import Place, RankChart, Ranking, draw_ranks
from app.console.parts.score_words import LEGS, ScoreWords, tell_score
from app.console.parts.search_form import SearchForm
from app.knowledge.search.answer.highlighting import Highlighter, Piece
from app.knowledge.search.journal.journal import read_cursor
from app.knowledge.search.results import Hit, SearchMetadata, SearchResult

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
    debug: Mapping[str, Any] | None
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
    before = read_cursor(form.text("cursor"))[1] if form.text("cursor") else 0
    debug = None if form.text("cursor") else result.debug_info
    told: dict[UUID, Mapping[str, Any]] = {h["id"]: h for h in debug["hits"]} if debug else {}
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
        corrections=((debug["legs"]["keyword"] or {}).get("corrections") or {}) if debug else {},
        next_address=form.lead_to(form.put("cursor", following)) if following else None,
    )


def title_of(hit: Hit) -> str:
    """A hit's title, or where it has none the beginning of its text."""
    if hit.title:
        return hit.title
    text = " ".join(hit.content[: 4 * TITLE_LENGTH].split())
    return text if len(text) <= TITLE_LENGTH else text[:TITLE_LENGTH].rsplit(" ", 1)[0] + "…"


def chart_legs(hits: Sequence[Hit], debug: Mapping[str, Any]) -> RankChart:
    """Meaning, the fused ranking and words side by side."""
    told = debug["hits"]

    def places(rank: str, note: str, digits: int) -> dict[UUID, Place]:
        return {h["id"]: Place(h[rank], f"{h[note]:.{digits}f}") for h in told if h[rank] is not None}

    return draw_ranks(
        {hit.id: title_of(hit) for hit in hits},
        [
            Ranking("Meaning", places("semantic_rank", "similarity", 2)),
            Ranking("Together", places("rank", "score", 4)),
            Ranking("Words", places("keyword_rank", "keyword_score", 1)),
        ],
    )
