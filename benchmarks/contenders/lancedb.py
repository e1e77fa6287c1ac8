"""LanceDB in this process: hybrid search with its RRF reranker over a vector, a full-text and a scalar index."""

import contextlib
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from benchmarks.contender import Contender, Question, Race, import_peer
from benchmarks.corpus.copies import Copy, iterate_batches

VERSION = 2
SETUP = (
    "one table, filtered by tenant before the search; HNSW-SQ with ef 100 and refine factor 3, ten "
    "candidates from each leg"
)
TABLE = "entries"


@contextlib.asynccontextmanager
async def enter(race: Race) -> AsyncIterator[Contender]:
    """A table with the entries of all tenants, filtered by tenant before the search, which is LanceDB's default."""
    os.environ.setdefault("LANCEDB_LOG", "error")  # it warns about its own columns at each hybrid search
    lancedb = import_peer("lancedb", "lancedb")
    reranker = import_peer("lancedb.rerankers", "lancedb").RRFReranker()
    copy = Copy("lancedb", VERSION, race.kept)
    await copy.ensure(lambda folder: _build(folder, race))
    connection = await lancedb.connect_async(copy.folder)
    table = await connection.open_table(TABLE)
    own = f"tenant_id = {race.dataset.population.number}"

    def near(question: Question, where: str) -> Any:
        query = table.query().nearest_to(question.vector).distance_type("cosine")
        # Above its defaults, which found half of the nearest entries in the largest tenant and were hardly
        # faster.
        return query.ef(100).refine_factor(3).where(where)

    async def search(question: Question) -> int:
        hybrid = near(question, own).nearest_to_text(question.text).rerank(reranker).limit(10)
        return len(await hybrid.select(["number", "title", "content"]).to_list())

    async def nearest(question: Question, rare: bool) -> list[int]:
        query = near(question, f"{own} and rare" if rare else own).limit(10)
        return [row["number"] for row in await query.select(["number"]).to_list()]

    yield Contender(
        "LanceDB hybrid",
        search,
        workloads=("cached",),
        is_peer=True,
        nearest=nearest,
        entries=await table.count_rows(),
        setup=SETUP,
    )
    connection.close()


async def _build(folder: Path, race: Race) -> None:
    lancedb, index, pa = (import_peer(module, "lancedb") for module in ("lancedb", "lancedb.index", "pyarrow"))
    dimensions = race.stock.vectors.shape[1]
    schema = pa.schema([
        ("tenant_id", pa.int32()),
        ("number", pa.int32()),
        ("rare", pa.bool_()),
        ("title", pa.string()),
        ("content", pa.string()),
        ("text", pa.string()),
        ("vector", pa.list_(pa.float32(), dimensions)),
    ])  # fmt: skip

    def make_batches() -> Iterator[Any]:
        done = 0
        with race.progress("copy for LanceDB", sum(t.size for t in race.tenants)) as report:
            for tenant, batch in iterate_batches(race.stock, race.tenants):
                rows = [
                    {
                        "tenant_id": tenant.number,
                        "number": e.number,
                        "rare": bool(e.tags),
                        "title": e.title,
                        "content": e.content,
                        "text": f"{e.title}\n{e.content}" if e.title else e.content,
                        "vector": e.vector,
                    }
                    for e in batch
                ]
                yield pa.RecordBatch.from_pylist(rows, schema=schema)
                done += len(batch)
                report(done)

    connection = await lancedb.connect_async(folder)
    reader = pa.RecordBatchReader.from_batches(schema, make_batches())
    table = await connection.create_table(TABLE, reader)
    await table.optimize()
    await table.create_index("vector", config=index.HnswSq(distance_type="cosine"))
    await table.create_index("text", config=index.FTS())
    await table.create_index("tenant_id", config=index.BTree())
    await table.optimize()
    connection.close()
