"""One evaluation: a tenant of its own, its vectors, and the questions asked in every mode."""

import asyncio
import contextlib
import hashlib
import re
import secrets
import sqlite3
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias
from uuid import UUID

import numpy as np

from app.composition.services import Services
from app.contract.administration import NewTenant
from app.contract.entries import MAX_TITLE
from app.contract.search import SearchQuery
from app.db.queries import embeddings, jobs
from app.embeddings.provider import EmbeddingProvider, ProviderWrapper, Vector
from app.errors import KnowledgeError
from app.evaluation.collection import Collection
from app.evaluation.metrics import (
    VARIANTS,
    Comparison,
    Scores,
    Variant,
    compare_runs,
    is_baseline_installed,
    rank_by_bm25,
    score_rankings,
)


class VectorCache(ProviderWrapper):
    """An EmbeddingProvider that stores all vectors in a folder, with one file per model.

    For evaluations only: the cache grows without bound, and a change of a provider's code does not invalidate it;
    delete the folder then. Several processes can share it.
    """

    def __init__(self, inner: EmbeddingProvider, folder: Path) -> None:
        super().__init__(inner)
        model = inner.model
        folder.mkdir(parents=True, exist_ok=True)
        name = re.sub(r"[^A-Za-z0-9.-]+", "_", f"{model.provider}-{model.name}-{model.dimensions}")
        self._file = sqlite3.connect(folder / f"{name}.sqlite3", timeout=30, isolation_level=None)
        self._file.execute("pragma journal_mode = wal")
        self._file.execute("pragma synchronous = off")
        self._file.execute("create table if not exists vectors (text_hash blob primary key, vector blob) without rowid")
        self.made = 0

    async def embed_query(self, text: str) -> Vector:
        known = self._find("query", text)
        if known is None:
            known = await self.inner.embed_query(text)
            self._keep("query", [text], [known])
        return known

    async def embed_queries(self, texts: Sequence[str]) -> list[Vector]:
        return [await self.embed_query(text) for text in texts]

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        found = {text: self._find("document", text) for text in texts}
        missing = [text for text, vector in found.items() if vector is None]
        if missing:
            made = await self.inner.embed_documents(missing)
            self._keep("document", missing, made)
            found.update(zip(missing, made, strict=True))
        return [vector for text in texts if (vector := found[text]) is not None]

    async def close(self) -> None:
        """Close the file; the caller closes the inner provider."""
        self._file.close()

    def _find(self, kind: str, text: str) -> Vector | None:
        row = self._file.execute("select vector from vectors where text_hash = ?", (_key(kind, text),)).fetchone()
        return None if row is None else np.frombuffer(row[0], dtype=np.float32)

    def _keep(self, kind: str, texts: Sequence[str], vectors: Sequence[Vector]) -> None:
        self.made += len(texts)
        rows = [(_key(kind, t), np.asarray(v, dtype=np.float32).tobytes()) for t, v in zip(texts, vectors, strict=True)]
        self._file.execute("begin")
        self._file.executemany("insert or replace into vectors values (?, ?)", rows)
        self._file.execute("commit")


def _key(kind: str, text: str) -> bytes:
    return hashlib.sha256(f"{kind}\n{text}".encode()).digest()


ShowProgress: TypeAlias = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]
"""Opens a step with a label and a total; yields a function to call with the amount done so far."""


BATCH = 500
PATIENCE = 120.0
"""Seconds to wait for upkeep by another worker before the evaluation fails."""


class EvaluationFailed(KnowledgeError):
    """The collection could not be made searchable; the message gives the reason."""


@contextlib.asynccontextmanager
async def open_tenant(services: Services, name: str) -> AsyncIterator[UUID]:
    """Create a tenant, and delete it with all its data at the end, also after a cancellation."""
    slug = f"eval-{re.sub(r'[^a-z0-9]+', '-', name.lower()).strip('-')[:40]}-{secrets.token_hex(4)}"
    tenant = await services.tenants.create(NewTenant(slug, f"Evaluation of {name}"[:200]), actor="evaluation")
    try:
        yield tenant.id
    finally:
        # Pending records of searches refer to the tenant: write them before it is deleted.
        await services.journal.flush()
        await services.tenants.delete(tenant.id, actor="evaluation")


async def fill_tenant(
    services: Services, tenant_id: UUID, collection: Collection, progress: ShowProgress
) -> dict[UUID, str]:
    """Import and embed the documents, and run the upkeep that is due; return document ids by entry id. Raises
    EvaluationFailed, EmbeddingUnavailable and DatabaseUnavailable."""
    documents: dict[UUID, str] = {}
    with progress(f"{collection.name}: import", len(collection.documents)) as report:
        for start in range(0, len(collection.documents), BATCH):
            batch = collection.documents[start : start + BATCH]
            entries: list[dict[str, Any]] = [
                {"external_id": d.id, "title": d.title and d.title[:MAX_TITLE], "content": d.text} for d in batch
            ]
            results = await services.entries.create_many(tenant_id, entries)
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


DEPTH = 100
CONCURRENCY = 2


@dataclass(frozen=True, slots=True)
class Group(Comparison):
    """The runs over the queries of one group."""

    name: str
    queries: int


@dataclass(frozen=True, slots=True)
class Evaluation(Comparison):
    """All runs over one collection, the same by groups of queries, and the times of the steps in seconds.

    Attributes:
        rankings: for each variant the ids of the documents found, for each query.
    """

    collection: Collection
    seconds: Mapping[str, float]
    groups: Sequence[Group] = ()
    rankings: Mapping[Variant, Sequence[Sequence[str]]] = field(default_factory=dict)


async def evaluate(
    services: Services,
    collection: Collection,
    progress: ShowProgress,
    *,
    variants: Sequence[Variant] = VARIANTS,
    depth: int = DEPTH,
) -> Evaluation:
    """Fill a temporary tenant for each part of the collection, search it with defaults for `depth` hits, and delete it.

    Raises EvaluationFailed, InvalidInput, EmbeddingUnavailable and DatabaseUnavailable.
    """
    seconds: dict[str, float] = defaultdict(float)
    rankings: dict[Variant, list[list[str]]] = {variant: [] for variant in variants}
    times: dict[Variant, list[float]] = {variant: [] for variant in variants}
    for part in collection.tenants:
        started = time.perf_counter()
        async with open_tenant(services, part.name) as tenant_id:
            documents = await fill_tenant(services, tenant_id, part, progress)
            seconds["fill"] += time.perf_counter() - started
            for variant in variants:
                started = time.perf_counter()
                found, took = await search_all(services, tenant_id, part, variant, documents, progress, depth)
                rankings[variant] += found
                times[variant] += took
                # Later variants are then measured with what these questions have shown, whenever it is written.
                await services.similarities.flush()
                services.tenants.forget(tenant_id)
                seconds[variant.label] += time.perf_counter() - started
    grades = [query.judgements for query in collection.queries]
    scores = {variant: score_rankings(found, grades) for variant, found in rankings.items()}
    baseline = await _run_baseline(collection, depth)
    whole = compare_runs(scores, baseline, {variant: median(took) for variant, took in times.items()})
    return Evaluation(
        whole.runs, whole.baseline, collection, seconds, list(_compare_groups(collection, scores, baseline)), rankings
    )


async def _run_baseline(collection: Collection, depth: int) -> tuple[str, Scores] | None:
    if not is_baseline_installed():
        return None
    runs = [await asyncio.to_thread(rank_by_bm25, part, depth) for part in collection.tenants]
    rankings = [ranking for _, found in runs for ranking in found]
    names = {name for name, _ in runs}
    return (
        names.pop() if len(names) == 1 else "bm25s (language of each part)",
        score_rankings(rankings, [query.judgements for query in collection.queries]),
    )


def _compare_groups(
    collection: Collection, scores: Mapping[Variant, Scores], baseline: tuple[str, Scores] | None
) -> Iterator[Group]:
    places: dict[str, list[int]] = defaultdict(list)
    for place, query in enumerate(collection.queries):
        if query.group is not None:
            places[query.group].append(place)
    for name, own in sorted(places.items()):
        found = compare_runs(
            {variant: whole.select(own) for variant, whole in scores.items()},
            (baseline[0], baseline[1].select(own)) if baseline is not None else None,
        )
        yield Group(found.runs, found.baseline, name, len(own))


async def search_all(
    services: Services,
    tenant_id: UUID,
    collection: Collection,
    variant: Variant,
    documents: Mapping[UUID, str],
    progress: ShowProgress,
    depth: int,
) -> tuple[list[list[str]], list[float]]:
    """Rank the documents for each query; return their ids, and the times of the searches in seconds."""
    rankings: list[list[str]] = [[] for _ in collection.queries]
    times: list[float] = []
    waiting = iter(range(len(collection.queries)))

    with progress(f"{collection.name}: {variant.label}", len(rankings)) as report:

        async def search_in_turn() -> None:
            for place in waiting:
                query = SearchQuery(
                    query=collection.queries[place].text,
                    mode=variant.mode,
                    fusion=variant.fusion,
                    limit=depth,
                    rerank=False,
                )
                started = time.perf_counter()
                result = await services.search.search(tenant_id, query, subject="evaluation")
                times.append(time.perf_counter() - started)
                if result.metadata.fallback_mode:
                    raise EvaluationFailed(
                        f"{services.provider.model.provider} gave no vector for query"
                        f" {collection.queries[place].id}; a keyword-only ranking is not measured as {variant.label}"
                    )
                rankings[place] = [documents[hit.id] for hit in result]
                report(len(times))

        searches = [asyncio.create_task(search_in_turn()) for _ in range(CONCURRENCY)]
        try:
            await asyncio.gather(*searches)
        finally:
            for search in searches:
                search.cancel()
            await asyncio.gather(*searches, return_exceptions=True)
    return rankings, times
