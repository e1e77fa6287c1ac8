"""Ingest an asset: turn its bytes into searchable chunks."""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from app.concurrency.background import MemoryRelease
from app.contract.vocabulary import Flag
from app.db.database import Database
from app.db.queries import assets as db
from app.db.queries import embeddings as vectors
from app.db.queries import jobs as queue
from app.db.queries import sources, tenants
from app.db.queries.assets import (
    ChunkChange,
    ChunkRow,
    Extract,
    Original,
    change_chunks,
    delete_chunks,
    insert_chunks,
    insert_vectors,
    known_vectors,
)
from app.db.queries.embeddings import PassageVector
from app.db.queries.jobs import Job
from app.db.rows import new_id
from app.documents.chunking import Chunk, Part, split
from app.documents.parsed import ParsedDocument, ParseLimits
from app.documents.process.parsing import parse_document
from app.documents.screening.screen import screen_chunks
from app.embeddings.provider import EmbeddingModel, EmbeddingProvider, InputRefused, approximate_tokens
from app.errors import EmbeddingUnavailable
from app.knowledge.entries.embedding import make_passages
from app.knowledge.entries.entry import inheritable, text_hash
from app.knowledge.quarantine import add_inherited, judge_chunks
from app.knowledge.queue import ClaimLost, Lease, choose_pause
from app.knowledge.tenants.directory import TenantContext, TenantDirectory, find_provider
from app.knowledge.tenants.quotas import find_room, require_within, tokens_left
from app.knowledge.words import detect
from app.telemetry.tracing import span

TITLE_ROOM = 48
"""Tokens of a model's input reserved for the title in each chunk's embedding."""

MAX_HEADING_PATH = 300
"""Characters of the headings in a chunk's title."""


@dataclass(frozen=True, slots=True)
class ChunkSize:
    """Size and overlap of chunks, in tokens of the tenant's model."""

    tokens: int = 350
    overlap: int = 0


def chunk_tokens(size: ChunkSize, model: EmbeddingModel) -> tuple[int, int]:
    """Tokens of a chunk and of its overlap with the next; the model's input must also hold the chunk's title."""
    tokens = max(16, min(size.tokens, model.max_tokens - TITLE_ROOM))
    return tokens, min(size.overlap, tokens // 2)


def make_chunk_row(
    chunk: Chunk, document: ParsedDocument, given_title: str | None, flags: Sequence[Flag] = ()
) -> ChunkRow:
    """Make the row of a chunk: its title, which begins with the asset's, and its position in the document."""
    title = chunk_title(document.title, chunk.headings, given_title)
    place: dict[str, Any] = {"char_start": chunk.char_start, "char_end": chunk.char_end}
    if chunk.headings:
        place["headings"] = list(chunk.headings)
    if chunk.lead:
        place["header_chars"] = len(chunk.lead)
    if document.mail:
        place["mail"] = dict(document.mail)
    if document.is_recognised(chunk.char_start, chunk.char_end):
        place["ocr"] = True
    if chunk.page is not None:
        place |= {"page": chunk.page, "total_pages": document.total_pages or chunk.page}
        if chunk.page_end is not None and chunk.page_end != chunk.page:
            place["page_end"] = chunk.page_end
    if chunk.parts:
        place["parts"] = list(map(_describe_part, chunk.parts))
    return ChunkRow(
        id=new_id(),
        index=chunk.index,
        title=title,
        content=chunk.text,
        place=place,
        text_hash=text_hash(title, chunk.text),
        flags=flags,
    )


def _describe_part(part: Part) -> dict[str, Any]:
    place: dict[str, Any] = {"start": part.start, "end": part.end}
    if part.headings:
        place["headings"] = list(part.headings)
    if part.page is not None:
        place["page"] = part.page
        if part.page_end != part.page:
            place["page_end"] = part.page_end
    return place


def chunk_title(document_title: str | None, headings: Sequence[str], given_title: str | None = None) -> str | None:
    """The title of a chunk: the document's title and the headings above the chunk, without repetition.

    A title that a caller gave replaces that of the document.
    """
    heading = " > ".join(headings)[:MAX_HEADING_PATH]
    if not document_title:
        title = heading or None
    elif not heading or heading == document_title:
        title = document_title
    else:
        repeated = heading.startswith(f"{document_title} > ")
        title = heading if repeated else f"{document_title} > {heading}"
    if not given_title:
        return title
    below = title if title is None or not document_title else title[len(document_title) + 3 :]
    return f"{given_title} > {below}" if below else given_title


log = logging.getLogger("app.knowledge.ingestion")

BATCH = 64
BEGUN, PARSED, EMBEDDED = 0.02, 0.1, 0.95
"""Progress at the end of each stage. The parser reports none, so its progress is estimated from elapsed time."""

STORED_AT_ONCE = 500
"""Rows in one statement: enough that words which they share are indexed once for all of them."""

STORING = timedelta(minutes=10)
"""Time for the final transaction: each vector takes some milliseconds to go into an HNSW index."""


@dataclass(eq=False)
class Ingestion:
    """Parses, splits, embeds and indexes assets. No transaction is open while it parses or embeds."""

    database: Database
    providers: Mapping[int, EmbeddingProvider]
    tenants: TenantDirectory
    limits: ParseLimits = field(default_factory=ParseLimits)
    chunk_size: ChunkSize = field(default_factory=ChunkSize)

    def __post_init__(self) -> None:
        self._memory = MemoryRelease()

    async def ingest(self, job: Job, lease: Lease) -> None:
        """Ingest the asset of a job; store the results and remove the job in one transaction.

        When the provider is unavailable or the tenant has no tokens left, chunks are stored without vectors: keyword
        search finds them, and another job embeds them. Raises ClaimLost, UnreadableDocument, UnsupportedMediaType,
        InvalidInput (an empty file), InputRefused, NoProvider, RateLimited (more chunks or text than the tenant may
        store) and DatabaseUnavailable.
        """
        asset_id = UUID(job.subject)
        tenant = await self.tenants.context(job.tenant_id)
        provider = find_provider(self.providers, tenant)
        async with self.database.tenant_session(job.tenant_id) as session:
            asset = await db.fetch_original(session, asset_id)
            if asset is None or not await db.set_progress(session, job, asset_id, asset.generation, BEGUN):
                raise ClaimLost
        lease.follow(asset_id, asset.generation)

        with span("parse", bytes=len(asset.data)) as seen:
            document = await self._parse(asset, lease)
            seen.set(characters=len(document.text), pages=document.total_pages)

        policy = tenant.settings.suspicious_content

        def cut() -> tuple[list[ChunkRow], str]:
            chunks = split(document, provider.count_tokens, *chunk_tokens(self.chunk_size, provider.model))
            flags = screen_chunks(document, chunks) if policy != "keep" else [[] for _ in chunks]
            rows = [
                make_chunk_row(chunk, document, asset.given_title, found)
                for chunk, found in zip(chunks, flags, strict=True)
            ]
            return rows, detect(None, document.text)

        with span("chunk") as seen:
            rows, language = await asyncio.to_thread(cut)
            seen.set(chunks=len(rows))
        with span("embed", provider=tenant.model.provider, model=tenant.model.name) as seen:
            passages, tokens, waiting = await self._embed(tenant, provider, asset_id, rows, lease)
            seen.set(passages=len(passages), tokens=tokens)

        extract = Extract(
            title=document.title,
            text=document.text,
            total_pages=document.total_pages,
            outline={
                "headings": [(heading.start, heading.level, heading.title) for heading in document.headings],
                "pages": [(page.start, page.end) for page in document.pages],
                "tables": [(table.start, table.header_end, table.end) for table in document.tables],
            },
            pages_without_text=document.pages_without_text,
            places_without_text=document.places_without_text,
            encoding=document.encoding,
            encoding_guessed=document.encoding_guessed if document.encoding else None,
            removed_controls=document.removed_controls if document.encoding else None,
        )
        await lease.stop_renewing()
        with span("swap", chunks=len(rows)):
            async with self.database.tenant_session(job.tenant_id, background=STORING) as session:
                room = await find_room(session, tenant)
                await db.lock_same_bytes(session, asset_id)
                if not await queue.complete_job(session, job):
                    raise ClaimLost
                inherited = await db.finish_asset(session, asset_id, asset.generation, extract)
                if inherited is None:
                    raise ClaimLost
                inherited = replace(inherited, metadata=inheritable(inherited.metadata))
                if policy != "keep":
                    rows = add_inherited(rows, asset.name, inherited)
                await delete_chunks(session, asset_id)
                for start in range(0, len(rows), STORED_AT_ONCE):
                    await insert_chunks(
                        session, asset_id, rows[start : start + STORED_AT_ONCE], inherited, language=language
                    )
                await judge_chunks(session, asset_id, [row.id for row in rows if row.flags], policy)
                for start in range(0, len(passages), STORED_AT_ONCE):
                    await insert_vectors(session, tenant.space.model_id, passages[start : start + STORED_AT_ONCE])
                if inherited.given_title != asset.given_title:
                    titles = (asset.given_title or document.title, inherited.given_title or document.title)
                    retitled = await change_chunks(session, asset_id, ChunkChange(titles=titles))
                    await vectors.drop_vectors(session, retitled)
                    waiting = sorted({*waiting, *retitled})
                if waiting:
                    await vectors.mark_pending(session, waiting)
                    await queue.enqueue_job(session, "embed_entries", "entries", timedelta(0))
                if inherited.source is not None:
                    await sources.settle_item(session, asset_id)
                if room is not None:
                    await require_within(session, tenant)
                await tenants.add_usage(session, tokens)
        if inherited.source is not None:
            await self._agree(job.tenant_id, inherited.source)
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
        async with self.database.tenant_session(job.tenant_id) as session:
            if not await queue.complete_job(session, job):
                return
            asset = (await db.fetch_assets(session, [asset_id])).get(asset_id)
            if asset is None:
                return
            source = await db.fail_asset(session, asset_id, generation or asset.generation, reason)
            if source is not None:
                # The origin no longer has the text of the previous version.
                await delete_chunks(session, asset_id)
                await sources.settle_item(session, asset_id)
        if source is not None:
            await self._agree(job.tenant_id, source)

    async def _agree(self, tenant_id: UUID, source: str) -> None:
        """Record that a source has all of its last manifest, if this asset was the last.

        In a transaction of its own: of two assets that end at the same time, the second must see the first.
        """
        async with self.database.tenant_session(tenant_id) as session:
            await sources.agree(session, source)

    async def _parse(self, asset: Original, lease: Lease) -> ParsedDocument:
        started = time.monotonic()

        def share() -> float:
            return min(1.0, (time.monotonic() - started) / self.limits.seconds)

        lease.progress = lambda: BEGUN + (PARSED - BEGUN) * share()
        declared = asset.media_type if asset.encoding is None else f"{asset.media_type}; charset={asset.encoding}"
        try:
            document = await parse_document(asset.data, asset.name, self.limits, declared)
        finally:
            self._memory.note(len(asset.data))
        lease.progress = lambda: PARSED
        return document

    async def _embed(
        self, tenant: TenantContext, provider: EmbeddingProvider, asset_id: UUID, rows: Sequence[ChunkRow], lease: Lease
    ) -> tuple[list[PassageVector], int, list[UUID]]:
        """Embed chunks; return the vectors, the tokens used, and the chunks that have to wait for their vectors.

        Chunks wait when no tokens are left today or the provider is unavailable; it is then not called again. Texts
        that the tenant has embedded before are not embedded again.
        """
        known: dict[bytes, list[PassageVector]] = {}
        async with self.database.tenant_session(tenant.tenant_id) as session:
            for k in await known_vectors(session, asset_id, tenant.space.model_id, [r.text_hash for r in rows]):
                known.setdefault(k.text_hash, []).append(k)
            left = await tokens_left(session, tenant)
            unavailable = await queue.is_provider_paused(session)
        passages = [replace(vector, entry_id=row.id) for row in rows for vector in known.get(row.text_hash, ())]
        wanted = await asyncio.to_thread(
            lambda: [
                (row, passage, text, start, end)
                for row in rows
                if row.text_hash not in known
                for passage, (text, start, end) in enumerate(
                    make_passages(provider, row.title, row.content, row.place.get("parts"))
                )
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
                await queue.pause_provider(self.database, tenant.tenant_id, pause)
        lacking = {row.id for row, _, text, _, _ in wanted if text not in made}
        new = [
            PassageVector(row.id, passage, row.text_hash, start, end, made[text])
            for row, passage, text, start, end in wanted
            if row.id not in lacking
        ]
        return passages + new, approximate_tokens(made), sorted(lacking)
