"""Read the entries of a page of candidates."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from operator import attrgetter

from app.db.queries.search import hits as db
from app.db.queries.search.hits import HydratedEntry, StoredEntry
from app.db.queries.search.search import EntryFilter
from app.db.session import TenantSession
from app.embeddings.provider import Vector
from app.knowledge.paging import PAGE_BYTES
from app.knowledge.search.answer.snippet import SnippetMaker
from app.knowledge.search.ranking.fusion import Candidate
from app.knowledge.search.results import Hit
from app.knowledge.tenants.directory import TenantContext

HITS_AT_A_TIME = 5
"""Hits to make before other tasks get a turn; each takes about half a millisecond."""

MARKDOWN_TYPES = frozenset((None, "text/markdown", "text/plain"))
"""Media types whose text may be Markdown; None is that of an entry without an asset. Others have been read to text."""

stored_values = attrgetter(*StoredEntry.__dataclass_fields__)
"""Returns the stored fields of a hit in the order of its constructor."""


async def hydrate(
    session: TenantSession,
    tenant: TenantContext,
    entry_filter: EntryFilter,
    words: str,
    page: Sequence[Candidate],
    vector: Vector | None,
) -> tuple[list[Hit], int]:
    """Make the hits of a page in its order; entries that were deleted or hidden since the ranking are omitted.

    Returns the number of candidates on the page, too: those up to the hit with which it has PAGE_BYTES.
    `words` are the words for snippets: the query with the corrections of its misspelt words.
    """
    if not page:
        return [], 0
    ids = [c.entry_id for c in page]
    entries = await db.hydrate(session, tenant.space, ids, words, vector, entry_filter, PAGE_BYTES)
    by_id = {c.entry_id: c for c in page}
    snippets = SnippetMaker(words)
    hits: list[Hit] = []
    for entry in entries:
        if len(hits) % HITS_AT_A_TIME == HITS_AT_A_TIME - 1:
            await asyncio.sleep(0)
        hits.append(_make_hit(entry, by_id[entry.id], snippets))
    if entries and len(entries) < entries[0].passing:
        return hits, ids.index(entries[-1].id) + 1
    return hits, len(page)


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
        *stored_values(entry),
        score=candidate.score,
        similarity=candidate.similarity,
        keyword_score=candidate.keyword_score,
        sources=candidate.sources,
        snippet=snippet.text,
        snippet_start=snippet.start,
        snippet_end=snippet.end,
        matched_terms=snippet.matched_terms,
    )
