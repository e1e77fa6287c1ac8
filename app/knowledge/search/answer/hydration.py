"""Read the entries of a page of candidates, and make its hits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from app.db.queries.search import hits as db
from app.db.queries.search.hits import HydratedEntry
from app.db.queries.search.search import EntryFilter
from app.db.session import TenantSession
from app.embeddings.provider import Vector
from app.knowledge.paging import PAGE_BYTES
from app.knowledge.search.answer.snippet import SnippetMaker
from app.knowledge.search.ranking.fusion import Candidate
from app.knowledge.search.results import Hit
from app.knowledge.tenants.directory import TenantContext

CHARACTERS_AT_A_TIME = 10_000
"""Characters of entries that are made hits before other tasks get a turn: one to two milliseconds."""

LONG = 40_000
"""Characters of entries after which other tasks get as much time as these have taken, not just a turn: a search of
another tenant takes many turns, and would wait in each for one entry of this length.
"""

HIT_CHARACTERS = 1_000
"""Added for each hit, however short its entry."""

MARKDOWN_TYPES = frozenset((None, "text/markdown", "text/plain"))
"""Media types whose text may be Markdown; None is that of an entry without an asset. Others have been read to text."""


@dataclass(frozen=True, slots=True)
class Page:
    """The entries of a page of candidates, in its order, as they are in the database.

    `taken` is the number of candidates on the page: those up to the entry with which it has PAGE_BYTES. `words` are the
    words for snippets.
    """

    candidates: Sequence[Candidate]
    entries: Sequence[HydratedEntry]
    taken: int
    words: str


async def fetch_page(
    session: TenantSession,
    tenant: TenantContext,
    entry_filter: EntryFilter,
    words: str,
    candidates: Sequence[Candidate],
    vector: Vector | None,
) -> Page:
    """Read the entries; those that were deleted or hidden since the ranking are omitted.

    `words` are the query with the corrections of its misspelt words.
    """
    if not candidates:
        return Page((), (), 0, words)
    ids = [c.entry_id for c in candidates]
    entries = await db.hydrate(session, tenant.space, ids, words, vector, entry_filter, PAGE_BYTES)
    is_cut = bool(entries) and len(entries) < entries[0].passing
    taken = ids.index(entries[-1].id) + 1 if is_cut else len(ids)
    return Page(candidates, entries, taken, words)


async def make_hits(page: Page) -> list[Hit]:
    """Make the hits of a page. This takes as long as a statement, and needs no connection."""
    by_id = {c.entry_id: c for c in page.candidates}
    snippets = SnippetMaker(page.words)
    hits: list[Hit] = []
    made, began = 0, time.perf_counter()
    for entry in page.entries:
        if made >= CHARACTERS_AT_A_TIME:
            await asyncio.sleep(time.perf_counter() - began if made >= LONG else 0)
            made, began = 0, time.perf_counter()
        made += HIT_CHARACTERS + len(entry.content)
        hits.append(_make_hit(entry, by_id[entry.id], snippets))
    return hits


def _make_hit(entry: HydratedEntry, candidate: Candidate, snippets: SnippetMaker) -> Hit:
    passage = None
    if entry.char_start is not None and entry.char_end is not None and candidate.similarity is not None:
        passage = (entry.char_start, entry.char_end)
    snippet = snippets.make(
        entry.title,
        entry.content,
        entry.language,
        entry.query_lexemes or (),
        passage,
        is_markdown=entry.media_type in MARKDOWN_TYPES,
    )
    return Hit(
        *entry.stored,
        score=candidate.score,
        similarity=candidate.similarity,
        keyword_score=candidate.keyword_score,
        sources=candidate.sources,
        snippet=snippet.text,
        snippet_start=snippet.start,
        snippet_end=snippet.end,
        matched_terms=snippet.matched_terms,
    )
