"""A tenant that lives as long as one evaluation."""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any
from uuid import UUID

from app.composition.services import Services
from app.db.queries.knowledge import embeddings
from app.db.queries.work import jobs
from app.errors import KnowledgeError
from app.evaluation.collection import Collection, Document
from app.evaluation.output.progress import ShowProgress
from app.knowledge.entries.entry import MAX_TITLE

BATCH = 500
PATIENCE = 120.0
"""Seconds that upkeep by another worker may take before the evaluation gives up."""


class EvaluationFailed(KnowledgeError):
    """The collection could not be made searchable; the text says why."""


@contextlib.asynccontextmanager
async def open_tenant(services: Services, name: str) -> AsyncIterator[UUID]:
    """A fresh tenant, removed with all it has on leaving, also when cancelled."""
    slug = f"eval-{re.sub(r'[^a-z0-9]+', '-', name.lower()).strip('-')[:40]}-{secrets.token_hex(4)}"
    tenant = await services.tenants.create(slug, f"Evaluation of {name}"[:200], actor="evaluation")
    try:
        yield tenant.id
    finally:
        # Records of searches refer to the tenant: they are written before it goes.
        await services.journal.flush()
        await services.tenants.delete(tenant.id, actor="evaluation")


async def fill_tenant(
    services: Services, tenant_id: UUID, collection: Collection, progress: ShowProgress
) -> dict[UUID, str]:
    """Import the documents, embed them and do what upkeep is due; returns document ids by entry id.

    Raises EvaluationFailed when an entry is refused or stays without a vector, EmbeddingUnavailable,
    DatabaseUnavailable.
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
    """Work until the tenant has nothing queued or running, here or at another worker. Raises EvaluationFailed."""
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


def _entry(document: Document) -> Mapping[str, Any]:
    title = document.title[:MAX_TITLE] if document.title else None
    return {"external_id": document.id, "title": title, "content": document.text}
