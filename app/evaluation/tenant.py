"""The temporary tenant of an evaluation."""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
import time
from collections.abc import AsyncIterator
from uuid import UUID

from app.composition.services import Services
from app.db.queries.knowledge import embeddings
from app.db.queries.work import jobs
from app.errors import KnowledgeError
from app.evaluation.collection import Collection, Document
from app.evaluation.output.progress import ShowProgress
from app.knowledge.entries.drafts import EntryDraft
from app.knowledge.entries.entry import MAX_TITLE

BATCH = 500
PATIENCE = 120.0
"""Seconds to wait for upkeep by another worker before the evaluation fails."""


class EvaluationFailed(KnowledgeError):
    """The collection could not be made searchable; the message gives the reason."""


@contextlib.asynccontextmanager
async def open_tenant(services: Services, name: str) -> AsyncIterator[UUID]:
    """Create a tenant, and delete it with all its data at the end, also after a cancellation."""
    slug = f"eval-{re.sub(r'[^a-z0-9]+', '-', name.lower()).strip('-')[:40]}-{secrets.token_hex(4)}"
    tenant = await services.tenants.create(slug, f"Evaluation of {name}"[:200], actor="evaluation")
    try:
        yield tenant.id
    finally:
        # Pending records of searches refer to the tenant: write them before it is deleted.
        await services.journal.flush()
        await services.tenants.delete(tenant.id, actor="evaluation")


async def fill_tenant(
    services: Services, tenant_id: UUID, collection: Collection, progress: ShowProgress
) -> dict[UUID, str]:
    """Import and embed the documents, and run the upkeep that is due; return document ids by entry id.

    Raises EvaluationFailed when an entry is refused or cannot be embedded, EmbeddingUnavailable, DatabaseUnavailable.
    """
    documents: dict[UUID, str] = {}
    with progress(f"{collection.name}: import", len(collection.documents)) as report:
        for start in range(0, len(collection.documents), BATCH):
            batch = collection.documents[start : start + BATCH]
            results = await services.entries.create_many(tenant_id, [_entry(d) for d in batch])
            for document, result in zip(batch, results, strict=True):
                if result.id is None:
                    raise EvaluationFailed(f"document {document.id} is refused: {result.error}")
                documents[result.id] = document.id
            report(len(documents))
    with progress(f"{collection.name}: embed", len(documents)) as report:
        embedded = 0
        while taken := await services.embedder.embed(tenant_id):
            embedded += taken
            report(min(embedded, len(documents)))
    await finish_upkeep(services, tenant_id)
    async with services.database.tenant_session(tenant_id) as session:
        waiting = await embeddings.count_pending(session)
    if waiting:
        raise EvaluationFailed(f"{waiting} documents have no vector: the provider refuses their text")
    services.tenants.forget(tenant_id)
    return documents


async def finish_upkeep(services: Services, tenant_id: UUID, patience: float = PATIENCE) -> None:
    """Run jobs until the tenant has none queued or running, here or in another worker. Raises EvaluationFailed."""
    deadline = time.monotonic() + patience
    while True:
        async with services.database.tenant_session(tenant_id) as session:
            left = await session.fetch_value(jobs.SQL["count"])
        if not left:
            return
        if await services.worker.run_once():
            deadline = time.monotonic() + patience
        elif time.monotonic() > deadline:
            raise EvaluationFailed("maintenance of the tenant does not finish; see the service's log")
        else:
            await asyncio.sleep(0.1)


def _entry(document: Document) -> EntryDraft:
    title = document.title[:MAX_TITLE] if document.title else None
    return EntryDraft(external_id=document.id, title=title, content=document.text)
