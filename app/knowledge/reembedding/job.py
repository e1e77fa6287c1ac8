"""The job `reembed`, which carries out a model change or a rebuild of the vectors.

It runs in slices and keeps all its state in the database, so when one worker stops, another can continue.
"""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from app.db.database import Database
from app.db.queries import reembedding as db
from app.db.queries import tenants
from app.db.queries.embeddings import PassageVector, PendingText, drop_strays, replace_vectors
from app.db.queries.reembedding import ChangeRow
from app.embeddings.provider import InputRefused
from app.errors import Conflict, EmbeddingUnavailable
from app.knowledge.entries.embedding import BATCH, EntryEmbedder, find_unknown, limit_by_quota, log_refusal
from app.knowledge.queue import LONGEST_PAUSE_SECONDS, PAUSE_SECONDS
from app.knowledge.reembedding.comparison import ModelComparer
from app.knowledge.reembedding.machine import ChangeMachine, switches_by_itself
from app.knowledge.tenants.directory import NoProvider, TenantContext, TenantDirectory
from app.knowledge.tenants.quotas import tokens_left
from app.knowledge.upkeep import Upkeep

log = logging.getLogger("app.knowledge.reembedding")


ACTOR = "service"
SLICE_SECONDS = 5.0
"""Length of a slice: jobs that make new entries searchable do not wait longer than this for a worker."""
ELSEWHERE_SECONDS = 5.0
AGAIN_SECONDS = 1.0


@dataclass(eq=False)
class ReembeddingJob:
    """Advances a tenant's change as far as it goes without the admin, a slice at a time."""

    database: Database
    tenants: TenantDirectory
    machine: ChangeMachine
    embedder: EntryEmbedder
    upkeep: Upkeep
    comparer: ModelComparer

    async def advance(self, tenant_id: UUID, *, seconds: float = SLICE_SECONDS) -> float | None:
        """Run a slice of the job; return the seconds until the next slice, or None when there is nothing left to do.

        The rate limit is a pause between slices, so no worker sleeps for it. Raises DatabaseUnavailable.
        """
        end = time.monotonic() + seconds
        change = await self.machine.read(tenant_id)
        if change is None:
            return None
        if change.workers > 1:
            return ELSEWHERE_SECONDS
        if change.state == "dropping":
            return await self._drop(tenant_id, change, end)
        try:
            pause = await self._advance_model(tenant_id, change, end)
        except EmbeddingUnavailable as error:
            # The worker must not handle this: it would pause the provider of the model in use.
            pause = min(error.retry_after or PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
            if not isinstance(error, NoProvider):  # another process may have it
                await self.machine.note_failure(tenant_id, str(error))
            log.warning(
                "re-embedding waits for its provider: %s",
                error,
                extra={"tenant_id": str(tenant_id), "seconds": round(pause, 1)},
            )
            return pause
        if change.failure is not None:
            await self.machine.note_failure(tenant_id, None)
        return pause

    async def _advance_model(self, tenant_id: UUID, change: ChangeRow, end: float) -> float | None:
        """Run the steps in their order; return as `advance` does."""
        if change.rebuilds:
            return await self._replace(tenant_id, change, end)
        for step in (self._embed, self._index, self._compare, self._switch):
            pause = await step(tenant_id, change, end)
            if pause is not None:
                return pause
            left = await self.machine.read(tenant_id)
            if left is None or left.state == "dropping":  # ended in the meantime
                return 0.0
            change = left
        return 0.0 if change.vectors.waiting else None

    async def _replace(self, tenant_id: UUID, change: ChangeRow, end: float) -> float | None:
        """Replace the vectors of the model in use, then finish the rebuild."""
        if change.state != "filling":
            return None
        tenant = await self.machine.other_context(tenant_id, change)
        size = batch_size(change)
        while True:
            started = time.monotonic()
            replaced = await self._replace_next(tenant, size)
            if not replaced:
                await self.machine.finish(tenant_id)
                log.info("the vectors have been rebuilt", extra={"tenant_id": str(tenant_id)})
                return None
            if change.rate is not None:
                return max(0.0, replaced * 60 / change.rate - (time.monotonic() - started))
            if time.monotonic() >= end:
                return 0.0

    async def _replace_next(self, tenant: TenantContext, limit: int) -> int:
        """Embed the next entries and replace their vectors; return how many, 0 when all entries have been visited.

        An entry whose text the provider refuses keeps its vectors, and is counted. No transaction is open during a call
        to the provider. A search sees the old vectors of an entry or its new ones, so it finds every entry. One
        transaction stores vectors and the position of the rebuild: after a crash, the next worker continues there.
        Raises EmbeddingUnavailable.
        """
        async with self.database.tenant_session(tenant.tenant_id) as session:
            texts = await db.list_next_texts(session, limit)
            left = await tokens_left(session, tenant)
        if not texts:
            return 0
        texts = limit_by_quota(tenant, texts, left)
        try:
            vectors, tokens = await self.embedder.make_vectors(tenant, texts)
            refused: set[UUID] = set()
        except InputRefused:
            vectors, tokens, refused = await self._embed_one_by_one(tenant, texts)
        async with self.database.tenant_session(tenant.tenant_id) as session:
            embedded = [text for text in texts if text.entry_id not in refused]
            await replace_vectors(session, tenant.space.model_id, vectors, find_unknown(embedded, vectors))
            await tenants.add_usage(session, tokens)
            await db.advance_rebuild(session, texts[-1].entry_id, len(texts), len(refused))
        return len(texts)

    async def _embed_one_by_one(
        self, tenant: TenantContext, texts: Sequence[PendingText]
    ) -> tuple[list[PassageVector], int, set[UUID]]:
        vectors: list[PassageVector] = []
        tokens = 0
        refused: set[UUID] = set()
        for text in texts:
            try:
                made, used = await self.embedder.make_vectors(tenant, [text])
            except InputRefused as error:
                log_refusal(tenant, text, error)
                refused.add(text.entry_id)
            else:
                vectors += made
                tokens += used
        return vectors, tokens, refused

    # Each step returns None when the next step can follow at once, else the seconds until the next slice.

    async def _embed(self, tenant_id: UUID, change: ChangeRow, end: float) -> float | None:
        """Mark every entry as pending for the other model, and embed it."""
        tenant = await self.machine.other_context(tenant_id, change)
        size = batch_size(change)
        while True:
            started = time.monotonic()
            taken = await self.embedder.embed_for(tenant, limit=size)
            if not taken:
                if change.visited_all:
                    return None
                change = await self.machine.visit(tenant_id, change)
            elif change.rate is not None:
                return max(0.0, taken * 60 / change.rate - (time.monotonic() - started))
            if time.monotonic() >= end:
                return 0.0

    async def _index(self, tenant_id: UUID, change: ChangeRow, end: float) -> float | None:
        """Build a large tenant's index of the new vectors."""
        if not self.machine.lacks_index(change):
            return None
        left = max(0.0, end - time.monotonic())
        return await self.upkeep.index_vectors(tenant_id, model_id=change.other, seconds=left)

    async def _compare(self, tenant_id: UUID, change: ChangeRow, _end: float) -> None:
        """Compare the new model with the old one, once per change."""
        if change.state != "filling":
            return
        new = await self.machine.other_context(tenant_id, change)
        old = await self.tenants.context(tenant_id)
        comparison = await self.comparer.compare(old, new)
        await self.machine.complete(tenant_id, change, comparison)
        log.info(
            "the new model's vectors are complete",
            extra={
                "tenant_id": str(tenant_id),
                "queries": comparison.queries,
                "overlap": comparison.overlap,
                "semantic_overlap": comparison.semantic_overlap,
            },
        )

    async def _switch(self, tenant_id: UUID, change: ChangeRow, _end: float) -> float | None:
        """Switch to the new model for the first time, if the evidence allows it."""
        if change.state != "ready" or not switches_by_itself(change):
            return None
        try:
            if await self.machine.switch(tenant_id, actor=ACTOR):
                log.info("switched to the new model", extra={"tenant_id": str(tenant_id)})
                return None
        except Conflict as error:
            log.warning("not switched: %s", error, extra={"tenant_id": str(tenant_id)})
        return AGAIN_SECONDS

    async def _drop(self, tenant_id: UUID, change: ChangeRow, end: float) -> float | None:
        while not await self.machine.drop(tenant_id, change):
            if time.monotonic() >= end:
                return 0.0
        await drop_strays(self.database, tenant_id)
        log.info("the vectors of the former model have been removed", extra={"tenant_id": str(tenant_id)})
        return None


def batch_size(change: ChangeRow) -> int:
    """Number of entries to embed at once: a twelfth of a minute's, at most a full batch."""
    return BATCH if change.rate is None else max(1, min(BATCH, change.rate // 12))
