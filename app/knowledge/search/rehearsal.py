"""Rehearses a search before the first caller comes: connections, plans, the model, and the code itself."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping

import numpy as np

from app.db.database import Database
from app.db.queries.search import hits, search, vectors
from app.db.queries.search.search import EntryFilter, VectorSpace
from app.db.queries.tenants import tenants
from app.db.session import TenantSession
from app.embeddings.provider import EmbeddingProvider
from app.errors import EmbeddingUnavailable
from app.knowledge.search.answer.snippet import SnippetMaker
from app.knowledge.search.legs.semantic import session_setup

QUERY = "rehearsal"
LOCAL = "local"
"""The provider whose model is in this process; a query to any other would cost money."""


class Rehearsal:
    """Makes the first searches of a process, and of a connection, as fast as the later ones."""

    def __init__(self, database: Database, providers: Mapping[int, EmbeddingProvider]) -> None:
        """`providers` are keyed by the id of their embedding model."""
        self._database = database
        self._providers = providers

    @contextlib.asynccontextmanager
    async def keep_warm(self) -> AsyncIterator[None]:
        """Rehearse, and rehearse on each new connection while the block runs."""
        for language in ("english", "german", "simple"):
            SnippetMaker(QUERY).make(QUERY, f"The *{QUERY}* of {QUERY}s", language, (QUERY,), None)
        for provider in self._providers.values():
            if provider.model.provider == LOCAL:
                with contextlib.suppress(EmbeddingUnavailable):
                    await provider.embed_query(QUERY)
        async with self._database.keep_warm(self._run_statements, setup=session_setup(None)):
            yield

    async def _run_statements(self, session: TenantSession) -> None:
        await tenants.own_tenant(session)
        await search.rehearse(session)
        for model_id, provider in self._providers.items():
            space = VectorSpace(model_id, provider.model.dimensions)
            vector = np.ones(space.dimensions, dtype=np.float32)
            await vectors.rehearse(session, space, vector)
            await hits.hydrate(session, space, [], QUERY, vector, EntryFilter(), 1)
