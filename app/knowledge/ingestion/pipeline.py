"""Ingestion: from an asset's bytes to searchable chunks."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from app.concurrency.release import MemoryRelease
from app.db.database import Database
from app.db.identifiers import new_id
from app.db.queries.knowledge import assets as db
from app.db.queries.knowledge import embeddings as vectors
from app.db.queries.knowledge.assets import Original
from app.db.queries.knowledge.chunks import (
    ChunkChange,
    ChunkRow,
    change_chunks,
    delete_chunks,
    insert_chunks,
    insert_vectors,
    known_vectors,
)
from app.db.queries.knowledge.embeddings import PassageVector
from app.db.queries.tenants import usage
from app.db.queries.work import jobs as queue
from app.db.queries.work.jobs import Job
from app.documents.chunking import Chunk, split
from app.documents.parsed import ParsedDocument, ParseLimits
from app.documents.process.parsing import parse_document
from app.embeddings.failures import InputRefused
from app.embeddings.provider import EmbeddingModel, EmbeddingProvider
from app.embeddings.tokens import approximate_tokens
from app.errors import EmbeddingUnavailable
from app.knowledge.entries.embedding import make_passages
from app.knowledge.entries.entry import text_hash
from app.knowledge.languages import detect
from app.knowledge.queue.lease import ClaimLost, Lease
from app.knowledge.queue.pause import choose_pause
from app.knowledge.tenants.directory import TenantContext, TenantDirectory
from app.knowledge.tenants.providers import find_provider
from app.knowledge.tenants.quotas import find_room, require_within, tokens_left
from app.telemetry.tracing import span

log = logging.getLogger("app.knowledge.ingestion")

BATCH = 64
TITLE_ROOM = 48
"""Tokens of a model's input reserved for the title in each chunk's embedding."""

BEGUN, PARSED, EMBEDDED = 0.02, 0.1, 0.95
"""Progress at the end of each stage. The parser reports none, so its progress is estimated from elapsed time."""

STORED_AT_ONCE = 500
"""Rows in one statement: enough that words which they share are indexed once for all of them."""

STORING = timedelta(minutes=10)
"""Time for the final transaction: each vector takes some milliseconds to go into an HNSW index."""


@dataclass(frozen=True, slots=True)
class ChunkSize:
    """Size and overlap of chunks, in tokens of the tenant's model."""

    tokens: int = 350
    overlap: int = 0


class Ingestion:
    """Parses, splits, embeds and indexes assets. No transaction is open while it parses or embeds."""

    def __init__(
        self,
        database: Database,
        providers: Mapping[int, EmbeddingProvider],
        tenants: TenantDirectory,
        *,
        limits: ParseLimits | None = None,
        chunk_size: ChunkSize | None = None,
    ) -> None:
        self._database = database
        self._providers = providers
        self._tenants = tenants
        self._limits = limits or ParseLimits()
        self._chunk_size = chunk_size or ChunkSize()
        self._memory = MemoryRelease()

    async def ingest(self, job: Job, lease: Lease) -> None:
        """Ingest the asset of a job; store the results and remove the job in one transaction.

        When the provider is unavailable or the tenant has no tokens left, chunks are stored without vectors: keyword
        search finds them, and another job embeds them. Raises ClaimLost, UnreadableDocument, UnsupportedMediaType,
        InvalidInput (an empty file), InputRefused, NoProvider, RateLimited (more chunks or text than the tenant may
        store) and DatabaseUnavailable.
        """
        asset_id = UUID(job.subject)
        tenant = await self._tenants.context(job.tenant_id)
        provider = find_provider(self._providers, tenant)
        async with self._database.tenant_session(job.tenant_id) as session:
            asset = await db.fetch_original(session, asset_id)
            if asset is None or not await db.set_progress(session, job, asset_id, asset.generation, BEGUN):
                raise ClaimLost
        lease.follow(asset_id, asset.generation)

        with span("parse", bytes=len(asset.data)) as seen:
            document = await self._parse(asset, lease)
            seen.set(characters=len(document.text), pages=document.total_pages)

        def cut() -> tuple[list[ChunkRow], str]:
            chunks = split(document, provider.count_tokens, *chunk_tokens(self._chunk_size, provider.model))
            rows = [make_chunk_row(chunk, document, asset.given_title) for chunk in chunks]
            return rows, detect(None, document.text)

        with span("chunk") as seen:
            rows, language = await asyncio.to_thread(cut)
            seen.set(chunks=len(rows))
        with span("embed", provider=tenant.model.provider, model=tenant.model.name) as seen:
            passages, tokens, waiting = await self._embed(tenant, provider, rows, lease)
            seen.set(passages=len(passages), tokens=tokens)

        await lease.settle()
        with span("swap", chunks=len(rows)):
            async with self._database.tenant_session(job.tenant_id, background=STORING) as session:
                room = await find_room(session, tenant)
                await db.lock_same_bytes(session, asset_id)
                if not await queue.complete_job(session, job):
                    raise ClaimLost
                inherited = await db.finish_asset(
                    session,
                    asset_id,
                    asset.generation,
                    title=document.title,
                    text=document.text,
                    total_pages=document.total_pages,
                )
                if inherited is None:
                    raise ClaimLost
                await delete_chunks(session, asset_id)
                for start in range(0, len(rows), STORED_AT_ONCE):
                    await insert_chunks(
                        session,
                        asset_id,
                        rows[start : start + STORED_AT_ONCE],
                        inherited,
                        language=language,
                    )
                for start in range(0, len(passages), STORED_AT_ONCE):
                    await insert_vectors(
                        session, tenant.space.model_id, passages[start : start + STORED_AT_ONCE]
                    )
                if inherited.given_title != asset.given_title:
                    titles = (asset.given_title or document.title, inherited.given_title or document.title)
                    retitled = await change_chunks(session, asset_id, ChunkChange(titles=titles))
                    await vectors.drop_vectors(session, retitled)
                    waiting = sorted({*waiting, *retitled})
                if waiting:
                    await vectors.mark_pending(session, waiting)
                    await queue.enqueue_job(session, "embed_entries", "entries", timedelta(0))
                if room is not None:
                    await require_within(session, tenant)
                await usage.add_tokens(session, tokens)
        log.info(
            "asset indexed",
            extra={
                "tenant_id": str(job.tenant_id),
                "asset_id": str(asset_id),
                "chunks": len(rows),
                "without_vector": len(waiting),
            },
        )

    async def fail(self, job: Job, reason: str, generation: int | None) -> None:
        """Mark one version of an asset as failed for `reason`; without `generation`, the stored version."""
        asset_id = UUID(job.subject)
        async with self._database.tenant_session(job.tenant_id) as session:
            if not await queue.complete_job(session, job):
                return
            asset = (await db.fetch_assets(session, [asset_id])).get(asset_id)
            if asset is not None:
                await db.fail_asset(session, asset_id, generation or asset.generation, reason)

    async def _parse(self, asset: Original, lease: Lease) -> ParsedDocument:
        started = time.monotonic()

        def share() -> float:
            return min(1.0, (time.monotonic() - started) / self._limits.seconds)

        lease.progress = lambda: BEGUN + (PARSED - BEGUN) * share()
        try:
            document = await parse_document(asset.data, asset.name, self._limits, asset.media_type)
        finally:
            self._memory.note(len(asset.data))
        lease.progress = lambda: PARSED
        return document

    async def _embed(
        self, tenant: TenantContext, provider: EmbeddingProvider, rows: Sequence[ChunkRow], lease: Lease
    ) -> tuple[list[PassageVector], int, list[UUID]]:
        """Embed chunks; return the vectors, the tokens used, and the chunks that have to wait for their vectors.

        Chunks wait when no tokens are left today or the provider is unavailable; it is then not called again. Texts
        that the tenant has embedded before are not embedded again.
        """
        known: dict[bytes, list[tuple[int, int, int, Any]]] = {}
        async with self._database.tenant_session(tenant.tenant_id) as session:
            for k in await known_vectors(session, tenant.space.model_id, [r.text_hash for r in rows]):
                known.setdefault(k.text_hash, []).append((k.passage, k.char_start, k.char_end, k.vector))
            left = await tokens_left(session, tenant)
            unavailable = await queue.is_provider_paused(session)
        passages = [
            PassageVector(row.id, passage, row.text_hash, start, end, vector)
            for row in rows
            for passage, start, end, vector in known.get(row.text_hash, ())
        ]
        wanted = await asyncio.to_thread(
            lambda: [
                (row, passage, text, start, end)
                for row in rows
                if row.text_hash not in known
                for passage, (text, start, end) in enumerate(make_passages(provider, row.title, row.content))
            ]
        )
        distinct = list(dict.fromkeys(text for _, _, text, _, _ in wanted))
        made: dict[str, Any] = {}
        lease.progress = lambda: PARSED + (EMBEDDED - PARSED) * len(made) / max(1, len(distinct))
        for first in range(0, len(distinct), BATCH):
            if unavailable or (left is not None and left <= approximate_tokens(made)):
                break
            batch = distinct[first : first + BATCH]
            try:
                made.update(zip(batch, await provider.embed_documents(batch), strict=True))
            except InputRefused:
                raise
            except EmbeddingUnavailable as error:
                unavailable = True
                pause = timedelta(seconds=choose_pause(error))
                await queue.pause_provider(self._database, tenant.tenant_id, pause)
        lacking = {row.id for row, _, text, _, _ in wanted if text not in made}
        new = [
            PassageVector(row.id, passage, row.text_hash, start, end, made[text])
            for row, passage, text, start, end in wanted
            if row.id not in lacking
        ]
        return passages + new, approximate_tokens(made), sorted(lacking)


def chunk_tokens(size: ChunkSize, model: EmbeddingModel) -> tuple[int, int]:
    """Tokens of a chunk and of its overlap with the next; the model's input must also hold the chunk's title."""
    tokens = max(16, min(size.tokens, model.max_tokens - TITLE_ROOM))
    return tokens, min(size.overlap, tokens // 2)


def make_chunk_row(chunk: Chunk, document: ParsedDocument, given_title: str | None) -> ChunkRow:
    """Make the row of a chunk: its title, which begins with the asset's, and its position in the document."""
    title = chunk_title(document.title, chunk.heading, given_title)
    place = {"char_start": chunk.char_start, "char_end": chunk.char_end}
    if chunk.page is not None:
        place |= {"page": chunk.page, "total_pages": document.total_pages or chunk.page}
        if chunk.page_end is not None and chunk.page_end != chunk.page:
            place["page_end"] = chunk.page_end
    return ChunkRow(
        id=new_id(),
        index=chunk.index,
        title=title,
        content=chunk.text,
        place=place,
        text_hash=text_hash(title, chunk.text),
    )


def chunk_title(
    document_title: str | None, heading: str | None, given_title: str | None = None
) -> str | None:
    """The title of a chunk: the document's title and the headings above the chunk, without repetition.

    A title that a caller gave replaces that of the document.
    """
    if not document_title:
        title = heading or None
    elif not heading or heading == document_title:
        title = document_title
    else:
        repeated = heading.startswith(f"{document_title} > ")
        title = heading if repeated else f"{document_title} > {heading}"
    if not given_title:
        return title
    headings = title if title is None or not document_title else title[len(document_title) + 3 :]
    return f"{given_title} > {headings}" if headings else given_title
