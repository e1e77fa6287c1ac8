"""A tenant of a given size to search in, kept between runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import numpy as np

from app.composition import Services
from app.db import embeddings
from app.db.embeddings import PassageVector
from app.embeddings.provider import Vector
from app.errors import TenantNotFound
from app.evaluation.collection import Document
from app.evaluation.progress import ShowProgress
from app.evaluation.tenant import finish_upkeep
from app.evaluation.vector_cache import VectorCache
from app.knowledge.entry import embedding_text
from benchmarks.place import VECTORS
from benchmarks.texts import read_texts, vary_texts

EMBEDDED = 1_000
"""Texts that the model really embeds; vectors of the others are theirs with noise."""

BATCH = 500
NOISE = 0.6
"""Length of the noise added to a unit vector: a variation has a cosine of about 0.86 to its original."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """A tenant with `size` entries, one passage each, and the real texts that queries are made from."""

    tenant_id: UUID
    slug: str
    size: int
    originals: Sequence[Document]


async def prepare_dataset(services: Services, size: int, progress: ShowProgress) -> Dataset:
    """Find the tenant of this size, or build it (again, if an earlier run left it half built)."""
    slug = f"bench-{size}"
    originals = read_texts(min(size, EMBEDDED))
    try:
        tenant = await services.tenants.find(slug)
        if (await services.tenants.context(tenant.id)).passages == size:
            return Dataset(tenant.id, slug, size, originals)
        await services.tenants.delete(tenant.id, actor="benchmark")
    except TenantNotFound:
        pass
    tenant = await services.tenants.create(slug, actor="benchmark")
    vectors = await _embed(services, originals, progress)
    await _fill(services, tenant.id, originals, vectors, size, progress)
    await finish_upkeep(services, tenant.id, patience=600)
    services.tenants.forget(tenant.id)
    return Dataset(tenant.id, slug, size, originals)


async def _embed(services: Services, texts: Sequence[Document], progress: ShowProgress) -> dict[str, Vector]:
    """The vector of each text, from the cache that ranking quality uses too."""
    cache = VectorCache(services.provider, VECTORS)
    vectors: dict[str, Vector] = {}
    with progress("embed real texts", len(texts)) as report:
        for start in range(0, len(texts), 50):
            batch = texts[start : start + 50]
            made = await cache.embed_documents([embedding_text(d.title, d.text) for d in batch])
            vectors.update(zip([d.id for d in batch], made, strict=True))
            report(len(vectors))
    await cache.close()
    return vectors


async def _fill(
    services: Services,
    tenant_id: UUID,
    originals: Sequence[Document],
    vectors: dict[str, Vector],
    size: int,
    progress: ShowProgress,
) -> None:
    generator = np.random.default_rng(size)
    documents = list(vary_texts(list(originals), size, seed=size))
    model_id = (await services.tenants.context(tenant_id)).space.model_id
    with progress(f"build a tenant of {size}", size) as report:
        for start in range(0, size, BATCH):
            batch = documents[start : start + BATCH]
            results = await services.entries.create_many(
                tenant_id,
                [{"external_id": d.id, "title": d.title, "content": d.text} for d, _ in batch],
            )
            resembled = {r.id: (d, o) for r, (d, o) in zip(results, batch, strict=True)}
            async with services.database.tenant_session(tenant_id) as session:
                waiting = await embeddings.list_pending(session, model_id, None, BATCH)
                passages = []
                for row in waiting:
                    document, original = resembled[row["entry_id"]]
                    vector = vectors[original.id]
                    if document is not original:
                        vector = _perturb(vector, generator)
                    place = (row["entry_id"], 0, row["text_hash"], 0, len(row["content"]))
                    passages.append(PassageVector(*place, vector))
                await embeddings.store_vectors(session, model_id, passages)
            report(start + len(batch))


def _perturb(vector: Vector, generator: np.random.Generator) -> Vector:
    noise = generator.normal(size=vector.shape)
    moved = vector + NOISE * noise / np.linalg.norm(noise)
    nearby: Vector = (moved / np.linalg.norm(moved)).astype(np.float32)
    return nearby
