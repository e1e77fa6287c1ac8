"""Reading the hits that a ranking chose."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from app.db.queries.search import search as db
from app.db.session import Row, TenantSession
from app.embeddings.provider import Vector
from app.knowledge.search.answer.snippet import SnippetMaker
from app.knowledge.search.query import SearchQuery
from app.knowledge.search.ranking.fusion import Candidate
from app.knowledge.search.results import Hit
from app.knowledge.tenants.directory import TenantContext

HITS_AT_A_TIME = 5
"""A hit takes some half a millisecond: after these, others that wait for the processor come first."""


async def hydrate(
    session: TenantSession,
    tenant: TenantContext,
    query: SearchQuery,
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
    rows = await db.hydrate(session, tenant.space, ids, words, vector, query.entry_filter)
    by_id = {c.entry_id: c for c in page}
    snippets = SnippetMaker(words)
    hits: list[Hit] = []
    for row in rows:
        if len(hits) % HITS_AT_A_TIME == HITS_AT_A_TIME - 1:
            await asyncio.sleep(0)
        hits.append(_hit(row, by_id[row["id"]], snippets))
    return hits


def _hit(row: Row, candidate: Candidate, snippets: SnippetMaker) -> Hit:
    passage = None
    if row["char_start"] is not None and candidate.similarity is not None:
        passage = (row["char_start"], row["char_end"])
    snippet = snippets.make(
        row["title"], row["content"], row["language"], row["query_lexemes"] or (), passage
    )
    return Hit(
        id=row["id"],
        entry_type=row["entry_type"],
        title=row["title"],
        content=row["content"],
        tags=row["tags"],
        roles=row["roles"],
        confidence=row["confidence"],
        scope=row["scope"],
        parent_id=row["parent_id"],
        source_ids=row["source_ids"],
        superseded_by_id=row["superseded_by_id"],
        is_verified=row["is_verified"],
        asset_id=row["asset_id"],
        asset_name=row["asset_name"],
        chunk_index=row["chunk_index"],
        external_id=row["external_id"],
        metadata=row["metadata"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        score=candidate.score,
        similarity=candidate.similarity,
        keyword_score=candidate.keyword_score,
        sources=candidate.sources,
        snippet=snippet.text,
        matched_terms=snippet.matched_terms,
    )
