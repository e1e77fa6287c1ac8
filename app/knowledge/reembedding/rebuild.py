"""New vectors of the model in use, entry by entry.

A search sees the old vectors of an entry or its new ones, so it finds every entry while the rebuild runs. The place of
the rebuild moves in the transaction that stores the vectors: after a crash, the next worker continues there.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from uuid import UUID

from app.db.database import Database
from app.db.queries.knowledge.embeddings import PassageVector, PendingText, replace_vectors
from app.db.queries.tenants import usage
from app.db.queries.work import reembedding as db
from app.embeddings.provider import InputRefused
from app.knowledge.entries.embedding import EntryEmbedder, limit_by_quota
from app.knowledge.tenants.context import TenantContext
from app.knowledge.tenants.quotas import tokens_left

log = logging.getLogger("app.knowledge.reembedding")


class VectorRebuild:
    """Replaces the vectors of a tenant's entries, by id; no transaction is open during a call to the provider."""

    def __init__(self, database: Database, embedder: EntryEmbedder) -> None:
        self._database = database
        self._embedder = embedder

    async def replace_next(self, tenant: TenantContext, limit: int) -> int:
        """Embed the next entries and replace their vectors; return how many, 0 when all entries have been visited.

        An entry whose text the provider refuses keeps its vectors, and is counted. Raises EmbeddingUnavailable.
        """
        async with self._database.tenant_session(tenant.tenant_id) as session:
            texts = await db.list_next_texts(session, limit)
            left = await tokens_left(session, tenant)
        if not texts:
            return 0
        texts = limit_by_quota(tenant, texts, left)
        try:
            vectors, tokens = await self._embedder.make_vectors(tenant, texts)
            refused: list[UUID] = []
        except InputRefused:
            vectors, tokens, refused = await self._embed_one_by_one(tenant, texts)
        async with self._database.tenant_session(tenant.tenant_id) as session:
            await replace_vectors(session, tenant.space.model_id, vectors)
            await usage.add_tokens(session, tokens)
            await db.advance_rebuild(session, texts[-1].entry_id, len(texts), len(refused))
        return len(texts)

    async def _embed_one_by_one(
        self, tenant: TenantContext, texts: Sequence[PendingText]
    ) -> tuple[list[PassageVector], int, list[UUID]]:
        vectors: list[PassageVector] = []
        tokens = 0
        refused: list[UUID] = []
        for text in texts:
            try:
                made, used = await self._embedder.make_vectors(tenant, [text])
            except InputRefused as error:
                log.warning(
                    "the provider refuses an entry's text",
                    extra={
                        "tenant_id": str(tenant.tenant_id),
                        "entry_id": str(text.entry_id),
                        "reason": error.reason,
                    },
                )
                refused.append(text.entry_id)
            else:
                vectors += made
                tokens += used
        return vectors, tokens, refused
