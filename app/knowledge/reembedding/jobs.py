"""The work of a change of model: vectors for every entry, their index, the comparison, the switch, the cleaning up.

It is done in slices, and all that it must remember is in the database: whoever is stopped, another goes on.
"""

from __future__ import annotations

import logging
import time
from uuid import UUID

from app.db.database import Database
from app.db.queries.search.feedback import list_judgements
from app.db.queries.work import reembedding as db
from app.db.queries.work.reembedding import ChangeRow
from app.errors import Conflict, EmbeddingUnavailable
from app.knowledge.entries.embedding import BATCH, EntryEmbedder
from app.knowledge.feedback.service import judge_queries
from app.knowledge.reembedding.comparison import QUERIES, compare_models
from app.knowledge.reembedding.service import ReembeddingService
from app.knowledge.search.plan import SearchDefaults
from app.knowledge.search.ranking.ranker import Ranker
from app.knowledge.tenants.directory import TenantDirectory
from app.knowledge.upkeep.sweep import Upkeep

log = logging.getLogger("app.knowledge.reembedding")

ACTOR = "service"
VISIT = 500
"""Entries that are given the work of getting their vectors in one statement."""
DROP = 1_000
SLICE_SECONDS = 5.0
"""How long a slice goes on: a tenant's searchable work waits no longer for a worker than that."""
PAUSE_SECONDS = 15.0
LONGEST_PAUSE_SECONDS = 900.0
ELSEWHERE_SECONDS = 5.0
AGAIN_SECONDS = 1.0


class ReembeddingJobs:
    """Does what a tenant's change of model calls for, a slice at a time."""

    def __init__(
        self,
        database: Database,
        tenants: TenantDirectory,
        service: ReembeddingService,
        embedder: EntryEmbedder,
        upkeep: Upkeep,
        ranker: Ranker,
        defaults: SearchDefaults,
    ) -> None:
        self._database = database
        self._tenants = tenants
        self._service = service
        self._embedder = embedder
        self._upkeep = upkeep
        self._ranker = ranker
        self._defaults = defaults

    async def advance(self, tenant_id: UUID, *, seconds: float = SLICE_SECONDS) -> float | None:
        """Do a slice of the work; returns the seconds until the next one, or None when there is nothing left to do.

        The pause is the rate limit: no worker waits for it. Raises DatabaseUnavailable.
        """
        change = await self._read(tenant_id)
        if change is None:
            return None
        async with self._database.tenant_session(tenant_id) as session:
            if await db.count_workers(session) > 1:
                return ELSEWHERE_SECONDS
        if change.state == "dropping":
            return await self._drop(tenant_id, change, time.monotonic() + seconds)
        try:
            return await self._fill(tenant_id, change, time.monotonic() + seconds)
        except EmbeddingUnavailable as error:
            # Not left to the worker: it would take the provider of the model in use to be away.
            pause = min(error.retry_after or PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
            log.warning(
                "re-embedding waits for its provider: %s",
                error,
                extra={"tenant_id": str(tenant_id), "seconds": round(pause, 1)},
            )
            return pause

    async def _fill(self, tenant_id: UUID, change: ChangeRow, end: float) -> float | None:
        context = await self._service.other_context(tenant_id, change)
        size = BATCH if change.rate is None else max(1, min(BATCH, change.rate // 12))
        while True:
            started = time.monotonic()
            taken = await self._embedder.embed_for(context, limit=size)
            if not taken:
                if change.visited_all:
                    break
                change = await self._visit(tenant_id, change)
            elif change.rate is not None:
                return max(0.0, taken * 60 / change.rate - (time.monotonic() - started))
            if time.monotonic() >= end:
                return 0.0
        if not await self._index(tenant_id, end):
            return 0.0
        await self._compare(tenant_id)
        if not await self._switch(tenant_id):
            return AGAIN_SECONDS
        after = await self._read(tenant_id)
        return 0.0 if after is not None and after.waiting else None

    async def _visit(self, tenant_id: UUID, change: ChangeRow) -> ChangeRow:
        async with self._database.tenant_session(tenant_id) as session:
            await db.visit_entries(session, change.other, VISIT)
            return await db.fetch_change(session) or change

    async def _index(self, tenant_id: UUID, end: float) -> bool:
        """Move a large tenant's new vectors into their index; False when time was too short."""
        change = await self._read(tenant_id)
        if change is None or change.index_state == "ready" or change.passages <= self._defaults.exact_limit:
            return True
        left = max(0.0, end - time.monotonic())
        return await self._upkeep.index_vectors(tenant_id, model_id=change.other, seconds=left)

    async def _compare(self, tenant_id: UUID) -> None:
        change = await self._read(tenant_id)
        if change is None or change.state != "filling":
            return
        new = await self._service.other_context(tenant_id, change)
        old = await self._tenants.context(tenant_id)
        async with self._database.tenant_session(tenant_id) as session:
            queries, source = await db.sample_queries(session, QUERIES)
            judged = judge_queries(await list_judgements(session))
        comparison = await compare_models(self._ranker, self._defaults, old, new, queries, source, judged)
        async with self._database.tenant_session(tenant_id) as session:
            await db.declare_ready(session, change.to_model, comparison.as_mapping())
        log.info(
            "the new model's vectors are complete",
            extra={
                "tenant_id": str(tenant_id),
                "queries": comparison.queries,
                "overlap": comparison.overlap,
                "semantic_overlap": comparison.semantic_overlap,
            },
        )

    async def _switch(self, tenant_id: UUID) -> bool:
        """Switch where that was asked for; False when it must be tried again."""
        change = await self._read(tenant_id)
        if change is None or change.state != "ready" or change.comparison is None:
            return True
        wanted = change.switch_at is not None and change.comparison["overlap"] >= change.switch_at
        # Once switched, going back or not is the admin's business; so is giving up what a provider refuses.
        if not wanted or change.switched_at is not None or change.refused:
            return True
        try:
            switched = await self._service.try_switch(tenant_id, back=False, actor=ACTOR)
        except Conflict as error:
            log.warning("not switched: %s", error, extra={"tenant_id": str(tenant_id)})
            return False
        if switched:
            log.info("switched to the new model", extra={"tenant_id": str(tenant_id)})
        return switched

    async def _drop(self, tenant_id: UUID, change: ChangeRow, end: float) -> float | None:
        while True:
            async with self._database.tenant_session(tenant_id) as session:
                if not await db.drop_vectors(session, change.other, DROP):
                    await db.finish_change(session, change.other)
                    break
            if time.monotonic() >= end:
                return 0.0
        log.info("the vectors of the former model are removed", extra={"tenant_id": str(tenant_id)})
        return None

    async def _read(self, tenant_id: UUID) -> ChangeRow | None:
        async with self._database.tenant_session(tenant_id) as session:
            return await db.fetch_change(session)
