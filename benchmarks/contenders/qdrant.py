"""Qdrant Edge, the engine of Qdrant as a library in this process: hybrid search with its RRF."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from benchmarks.contender import Contender, Question, Race, import_peer
from benchmarks.corpus.copies import Copy, iterate_batches
from benchmarks.corpus.stock import RARE

PACKAGE = "qdrant-edge-py"
VERSION = 1
SETUP = (
    "Qdrant's engine as a library, as no package has the server; one shard whose tenant field is "
    "marked as such, a graph for each tenant, ef 200, BM25 as sparse vectors, 30 candidates from "
    "each leg"
)
MEAN_WORDS = 150
EFFORT = 200
"""Candidates of a search in its HNSW graph, above its default of 100."""


@contextlib.asynccontextmanager
async def enter(race: Race) -> AsyncIterator[Contender]:
    """One shard with the entries of all tenants; a graph for each tenant, as its page on multitenancy recommends."""
    q = import_peer("qdrant_edge", PACKAGE)
    copy = Copy("qdrant", VERSION, race.kept)
    await copy.ensure(lambda folder: asyncio.to_thread(_build, folder, race))
    shard = q.EdgeShard.load(str(copy.folder / "shard"))
    words = _bm25(q)
    tenant = q.FieldCondition("tenant", match=q.MatchValue(race.dataset.population.slug))
    own = q.Filter(must=[tenant])
    own_rare = q.Filter(must=[tenant, q.FieldCondition("tags", match=q.MatchValue(RARE))])
    # Word frequencies among the tenant's own entries, not those of all tenants.
    statistics = q.SearchParams(idf=q.IdfParams(corpus=own))
    effort = q.SearchParams(hnsw_ef=EFFORT)

    def near(question: Question) -> Any:
        assert question.vector is not None
        return q.Query.Nearest(question.vector.tolist(), using="vector")

    def ask(question: Question) -> Any:
        matching = q.Query.Nearest(words.embed_query(question.text), using="words")
        return shard.query(
            q.QueryRequest(
                limit=10,
                query=q.Fusion.Rrf(k=60),
                prefetches=[
                    q.Prefetch(limit=30, query=near(question), filter=own, params=effort),
                    q.Prefetch(limit=30, query=matching, filter=own, params=statistics),
                ],
                with_payload=True,
            )
        )

    def ask_near(question: Question, rare: bool) -> Any:
        chosen = own_rare if rare else own
        return shard.query(
            q.QueryRequest(limit=10, query=near(question), filter=chosen, params=effort, with_payload=["number"])
        )

    # Its Python package has no asynchronous calls.
    async def search(question: Question) -> int:
        return len(await asyncio.to_thread(ask, question))

    async def nearest(question: Question, rare: bool) -> list[int]:
        return [point.payload["number"] for point in await asyncio.to_thread(ask_near, question, rare)]

    try:
        yield Contender(
            "Qdrant Edge hybrid",
            search,
            workloads=("cached",),
            is_peer=True,
            nearest=nearest,
            entries=sum(tenant.size for tenant in race.tenants),
            setup=SETUP,
        )
    finally:
        shard.close()


def _bm25(q: Any) -> Any:
    return q.Bm25(q.Bm25Config(language="english", avg_len=MEAN_WORDS))


def _build(folder: Path, race: Race) -> None:
    q = import_peer("qdrant_edge", PACKAGE)
    (folder / "shard").mkdir()
    words = _bm25(q)
    shard = q.EdgeShard.create(
        str(folder / "shard"),
        q.EdgeConfig(
            vectors={"vector": q.EdgeVectorParams(size=race.stock.vectors.shape[1], distance=q.Distance.Cosine)},
            sparse_vectors={"words": q.EdgeSparseVectorParams(modifier=q.Modifier.Idf)},
            # No graph over all tenants, one for each.
            hnsw_config=q.HnswIndexConfig(m=0, payload_m=16, ef_construct=100, full_scan_threshold=10_000),
        ),
    )
    shard.update(q.UpdateOperation.create_field_index("tenant", q.KeywordIndexParams(is_tenant=True)))
    shard.update(q.UpdateOperation.create_field_index("tags", q.PayloadSchemaType.Keyword))
    done = 0
    with race.progress("copy for Qdrant", sum(t.size for t in race.tenants)) as report:
        for tenant, batch in iterate_batches(race.stock, race.tenants):
            shard.update(
                q.UpdateOperation.upsert_points([
                    q.Point(
                        e.id,
                        {
                            "vector": e.vector.tolist(),
                            "words": words.embed_document(f"{e.title}\n{e.content}" if e.title else e.content),
                        },
                        {
                            "tenant": tenant.slug,
                            "number": e.number,
                            "tags": list(e.tags),
                            "title": e.title,
                            "content": e.content,
                        },
                    )
                    for e in batch
                ])
            )  # fmt: skip
            done += len(batch)
            report(done)
    with race.progress("indexes for Qdrant", 1) as report:
        shard.optimize()
        report(1)
    shard.flush()
    shard.close()
