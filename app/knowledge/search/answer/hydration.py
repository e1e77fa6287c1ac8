"""Reading the hits that a ranking chose."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from operator import attrgetter

from app.db.queries.search import hits as db
from app.db.queries.search.hits import HydratedEntry, StoredEntry
from app.db.queries.search.search import EntryFilter
from app.db.session import TenantSession
from app.embeddings.provider import Vector
from app.knowledge.search.answer.snippet import SnippetMaker
from app.knowledge.search.ranking.fusion import Candidate
from app.knowledge.search.results import Hit
from app.knowledge.tenants.directory import TenantContext

HITS_AT_A_TIME = 5
"""A hit takes some half a millisecond: after these, others that wait for the processor come first."""

stored_values = attrgetter(*StoredEntry.__dataclass_fields__)
"""The fields that a hit has as they are stored, in the order in which it takes them."""


async def hydrate(
    session: TenantSession,
    tenant: TenantContext,
    entry_filter: EntryFilter,
    words: str,
    page: Sequence[Candidate],
    vector: Vector | None,
) -> list[Hit]:
    """The page's entries in its order; one that went away or was hidden since the ranking is left out.

    `words` are what snippets show: the query, with what misspelt words of it were taken for.
    """
    if not page:
        return []
    ids = [c.entry_id for c in page]
    entries = await db.hydrate(session, tenant.space, ids, words, vector, entry_filter)
    by_id = {c.entry_id: c for c in page}
    snippets = SnippetMaker(words)
    hits: list[Hit] = []
    for entry in entries:
        if len(hits) % HITS_AT_A_TIME == HITS_AT_A_TIME - 1:
            await asyncio.sleep(0)
        hits.append(_make_hit(entry, by_id[entry.id], snippets))
    return hits


def _make_hit(entry: HydratedEntry, candidate: Candidate, snippets: SnippetMaker) -> Hit:
    passage = None
    if entry.char_start is not None and entry.char_end is not None and candidate.similarity is not None:
        passage = (entry.char_start, entry.char_end)
    snippet = snippets.make(entry.title, entry.content, entry.language, entry.query_lexemes or (), passage)
    return Hit(
        *stored_values(entry),
        score=candidate.score,
        similarity=candidate.similarity,
        keyword_score=candidate.keyword_score,
        sources=candidate.sources,
        snippet=snippet.text,
        matched_terms=snippet.matched_terms,
    )
