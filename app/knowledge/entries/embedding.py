"""Embed entries."""

import asyncio
import logging
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from app.db.database import Database
from app.db.queries import embeddings as db
from app.db.queries import jobs as queue
from app.db.queries import tenants
from app.db.queries.embeddings import PassageVector, PendingText
from app.documents.chunking import split_text
from app.embeddings.provider import EmbeddingProvider, InputRefused, approximate_tokens
from app.errors import EmbeddingQuotaUsed, EmbeddingUnavailable, KnowledgeError
from app.knowledge.entries.entry import embedding_text
from app.knowledge.parts import list_parts
from app.knowledge.tenants.directory import TenantContext, TenantDirectory, find_provider
from app.knowledge.tenants.quotas import tokens_left

log = logging.getLogger("app.knowledge.entries")

BATCH = 64
CUT_IN_THREAD = 10_000
"""Characters of texts that are counted and cut outside of the event loop: a long one takes up to a second."""


class TextsFail(EmbeddingUnavailable):
    """The provider fails repeatedly on some texts and embeds others."""


@dataclass(eq=False)
class EntryEmbedder:
    """Creates and stores the vectors of pending entries. No transaction is open during a call to a provider."""

    database: Database
    providers: Mapping[int, EmbeddingProvider]
    tenants: TenantDirectory

    async def embed_soon(self, tenant_id: UUID, ids: Sequence[UUID], wait: float) -> None:
        """Try to embed entries within `wait` seconds; after a failure they are left to the queue."""
        try:
            async with asyncio.timeout(wait):
                await self.embed(tenant_id, ids)
        except (TimeoutError, KnowledgeError) as error:
            log.info(
                "embedding is left to the queue",
                extra={"tenant_id": str(tenant_id), "entries": len(ids), "reason": type(error).__name__},
            )

    async def embed(self, tenant_id: UUID, ids: Sequence[UUID] | None = None) -> int:
        """Embed one batch of pending entries, only those in `ids` if given; return the size of the batch.

        Raises EmbeddingUnavailable, TenantNotFound and DatabaseUnavailable.
        """
        return await self.embed_for(await self.tenants.context(tenant_id), ids)

    async def embed_for(
        self,
        tenant: TenantContext,
        ids: Sequence[UUID] | None = None,
        *,
        limit: int = BATCH,
        failing: set[UUID] | None = None,
    ) -> int:
        """Like `embed`, for the model of the context, which need not be the model in use.

        Entries in `failing` are skipped. Entries on which the provider fails, while it embeds others, are added to
        `failing`; without `failing`, such a failure is raised.
        """
        model_id = tenant.space.model_id
        async with self.database.tenant_session(tenant.tenant_id) as session:
            waiting = await db.list_pending(session, model_id, ids, limit, without=failing or ())
            served = await db.copy_known(session, model_id, [text.entry_id for text in waiting])
            taken = len(waiting)
            waiting = [text for text in waiting if text.entry_id not in served]
            left = await tokens_left(session, tenant)
        if not waiting:
            return taken
        waiting = limit_by_quota(tenant, waiting, left)
        try:
            await self._store(tenant, waiting)
        except InputRefused:
            # One refused text must not keep the rest of its batch from being embedded.
            await self._store_one_by_one(tenant, waiting, failing)
        except EmbeddingUnavailable as error:
            if failing is None or not await self._answers_others(tenant, error):
                raise
            await self._store_one_by_one(tenant, waiting, failing)
        return taken

    async def _store(self, tenant: TenantContext, texts: Sequence[PendingText]) -> None:
        vectors, tokens = await self.make_vectors(tenant, texts)
        async with self.database.tenant_session(tenant.tenant_id) as session:
            await db.store_vectors(session, tenant.space.model_id, vectors, find_unknown(texts, vectors))
            await tenants.add_usage(session, tokens)

    async def _store_one_by_one(
        self, tenant: TenantContext, texts: Sequence[PendingText], failing: set[UUID] | None
    ) -> None:
        for text in texts:
            try:
                await self._store(tenant, [text])
            except InputRefused as error:
                log_refusal(tenant, text, error)
                async with self.database.tenant_session(tenant.tenant_id) as session:
                    await db.note_failure(session, tenant.space.model_id, [text.entry_id])
            except EmbeddingUnavailable as error:
                if failing is None or not await self._answers_others(tenant, error):
                    raise
                failing.add(text.entry_id)

    async def _answers_others(self, tenant: TenantContext, error: EmbeddingUnavailable) -> bool:
        """Whether a provider that failed embeds an unrelated text."""
        if error.permanent or error.retry_after is not None or not error.attempts:
            return False  # the provider refused the caller, not the texts
        try:
            await find_provider(self.providers, tenant).embed_documents(["."])
        except EmbeddingUnavailable:
            return False
        return True

    async def embed_all(self, tenant_id: UUID, *, seconds: float = math.inf, gives_up: bool = False) -> bool:
        """Embed until no entry is pending, or for `seconds`; return whether no entry is pending.

        Raises as `embed` does, and TextsFail when the only entries left are those on which the provider fails while
        it embeds others. With `gives_up`, this failure is counted; after a few, the texts count as refused.
        """
        end = time.monotonic() + seconds
        failing: set[UUID] = set()
        while await self.embed_for(tenant := await self.tenants.context(tenant_id), failing=failing):
            if time.monotonic() >= end:
                return False
        if not failing:
            return True
        log.warning(
            "the provider fails on some texts and embeds others",
            extra={"tenant_id": str(tenant_id), "entries": len(failing), "given_up": gives_up},
        )
        if gives_up:
            async with self.database.tenant_session(tenant_id) as session:
                await db.note_failure(session, tenant.space.model_id, sorted(failing))
        raise TextsFail(tenant.model.provider, "it fails on some texts")

    async def is_provider_away(self, tenant_id: UUID) -> bool:
        """Whether queued jobs are paused for the tenant's provider."""
        async with self.database.tenant_session(tenant_id) as session:
            return await queue.is_provider_paused(session)

    async def make_vectors(
        self, tenant: TenantContext, texts: Sequence[PendingText]
    ) -> tuple[list[PassageVector], int]:
        """Embed texts without storing anything; return their vectors and the tokens used.

        Texts of which the model knows no token have no vectors.
        Raises EmbeddingUnavailable, also when the provider refuses one of the texts.
        """
        provider = find_provider(self.providers, tenant)

        def cut() -> list[tuple[UUID, int, bytes, int, int, str]]:
            return [
                (entry.entry_id, number, entry.text_hash, start, end, passage)
                for entry in texts
                for number, (passage, start, end) in enumerate(
                    make_passages(provider, entry.title, entry.content, entry.parts)
                )
            ]

        is_long = sum(len(entry.content) for entry in texts) > CUT_IN_THREAD
        passages = await asyncio.to_thread(cut) if is_long else cut()
        distinct = list(dict.fromkeys(passage for *_, passage in passages))
        made = dict(zip(distinct, await provider.embed_documents(distinct), strict=True))
        vectors = [
            PassageVector(entry_id, number, text_hash, start, end, made[passage])
            for entry_id, number, text_hash, start, end, passage in passages
        ]
        return vectors, approximate_tokens(distinct)


def find_unknown(texts: Sequence[PendingText], vectors: Sequence[PassageVector]) -> list[PendingText]:
    """The texts that were embedded and got no vectors, because the model knows no token of them."""
    known = {vector.entry_id for vector in vectors}
    return [text for text in texts if text.entry_id not in known]


def log_refusal(tenant: TenantContext, text: PendingText, error: InputRefused) -> None:
    """Log that a provider refuses a text."""
    extra = {"tenant_id": str(tenant.tenant_id), "entry_id": str(text.entry_id), "reason": error.reason}
    log.warning("the provider refuses an entry's text", extra=extra)


def limit_by_quota(tenant: TenantContext, texts: list[PendingText], left: int | None) -> list[PendingText]:
    """The first texts up to and including the one that uses up the tokens left; None means unlimited.

    The last one may exceed them; otherwise a text longer than a day's tokens would never be embedded.
    Raises EmbeddingQuotaUsed if there is no token left.
    """
    if left is None:
        return texts
    if left <= 0:
        raise EmbeddingQuotaUsed(tenant.model.provider)
    affordable: list[PendingText] = []
    for text in texts:
        if left <= 0:
            break
        affordable.append(text)
        left -= approximate_tokens((embedding_text(text.title, text.content),))
    return affordable


def make_passages(
    provider: EmbeddingProvider, title: str | None, content: str, parts: object = None
) -> list[tuple[str, int, int]]:
    """Split an entry into texts to embed, with their offsets in its content: several only for a long entry, and for a
    chunk with `parts`, which is embedded as a whole and by its parts: its subjects would be mixed in one vector.

    Each passage carries the title, so that it can be understood without the others. Passages of which the model knows
    no token are left out: all of them would have the same vector.
    """
    passages = _split(provider, title, content)
    if len(passages) == 1:
        spans = [(part["start"], part["end"]) for part in list_parts(parts, len(content))]
        passages += [(embedding_text(title, content[start:end]), start, end) for start, end in spans]
    return [passage for passage in passages if provider.grasp(passage[0]) != "nothing"]


def _split(provider: EmbeddingProvider, title: str | None, content: str) -> list[tuple[str, int, int]]:
    whole = embedding_text(title, content)
    limit = provider.model.max_tokens
    if provider.count_tokens(whole) <= limit:
        return [(whole, 0, len(content))]
    room = limit - (provider.count_tokens(title) if title else 0)
    if room < limit // 2:
        title, room = None, limit
    return [
        (embedding_text(title, content[start:end]), start, end)
        for start, end in split_text(content, provider.count_tokens, room)
    ]
