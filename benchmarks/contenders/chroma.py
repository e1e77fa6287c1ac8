"""Chroma: vectors only, one collection for each tenant, in this process."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from benchmarks.contender import Contender, Question, Race, import_peer
from benchmarks.corpus.copies import Copy, iterate_batches

VERSION = 1
SETUP = "a collection for each tenant, HNSW with its defaults"


@contextlib.asynccontextmanager
async def enter(race: Race) -> AsyncIterator[Contender]:
    """The collection of the race's tenant. Only measured tenants have one, because collections share nothing."""
    import_peer("chromadb", "chromadb")
    copy = Copy("chroma", VERSION, race.kept)
    await copy.ensure(lambda folder: asyncio.to_thread(_build, folder, race))
    client = _open(copy.folder)
    collection = client.get_collection(race.dataset.population.slug)

    def ask(question: Question, rare: bool) -> Any:
        return collection.query(
            query_embeddings=[question.vector],
            n_results=10,
            where={"rare": True} if rare else None,
            include=["documents", "metadatas", "distances"],
        )

    # Chroma's in-process client has no asynchronous calls.
    async def search(question: Question) -> int:
        return len((await asyncio.to_thread(ask, question, False))["ids"][0])

    async def nearest(question: Question, rare: bool) -> list[int]:
        return [int(i) for i in (await asyncio.to_thread(ask, question, rare))["ids"][0]]

    yield Contender(
        "Chroma (vectors only)",
        search,
        workloads=("cached",),
        is_peer=True,
        nearest=nearest,
        entries=sum(tenant.size for tenant in race.measured),
        setup=SETUP,
    )


def _open(folder: Path) -> Any:
    settings = import_peer("chromadb.config", "chromadb").Settings(anonymized_telemetry=False)
    return import_peer("chromadb", "chromadb").PersistentClient(str(folder / "store"), settings)


def _build(folder: Path, race: Race) -> None:
    client = _open(folder)
    collections: dict[str, Any] = {}
    done = 0
    with race.progress("copy for Chroma", sum(t.size for t in race.measured)) as report:
        for tenant, batch in iterate_batches(race.stock, race.measured):
            if tenant.slug not in collections:
                collections[tenant.slug] = client.create_collection(
                    tenant.slug, configuration={"hnsw": {"space": "cosine"}}, embedding_function=None
                )
            collections[tenant.slug].add(
                ids=[str(e.number) for e in batch],
                embeddings=[e.vector for e in batch],
                documents=[e.content for e in batch],
                metadatas=[{"title": e.title or "", "rare": bool(e.tags)} for e in batch],
            )
            done += len(batch)
            report(done)
