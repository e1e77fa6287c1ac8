"""A tenant that moves from the mock model of 16 dimensions to the one of 24, and its rows of both models."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.entries import EntryDraft
from app.contract.models import ModelChange, NewModelChange
from app.contract.results import SearchResult
from app.contract.search import SearchQuery
from app.contract.settings import SettingsPatch
from app.contract.vocabulary import Mode
from app.embeddings.provider import resolve_model
from tests.fixtures.database.cluster import TestDatabase, fetch, fetchval
from tests.fixtures.providers.failing import FailingProvider

WIDER = resolve_model("mock", dimensions=24)
OLD, NEW = 1, 2
"""The ids of the two models."""
EXACT_LIMIT = 60


@dataclass(frozen=True, slots=True)
class Move:
    """The services with both providers, and the tenant."""

    services: Services
    tenant: Tenant
    made: TestDatabase
    old: FailingProvider
    new: FailingProvider

    async def add(self, count: int, start: int = 0, **fields: Any) -> None:
        """Create entries `entry number N`, with their vectors of the current model."""
        items = [
            EntryDraft(content=f"entry number {n}", language="english", **fields) for n in range(start, start + count)
        ]
        for first in range(0, count, 1_000):
            await self.services.entries.create_many(self.tenant.id, items[first : first + 1_000])
        await self.run_jobs()

    async def start(self, *, actor: str = "service", **terms: Any) -> ModelChange:
        service = self.services.reembedding
        return await service.start(self.tenant.id, NewModelChange(dimensions=24, **terms), actor=actor)

    async def move(self) -> ModelChange:
        """The whole change; its vectors have no meaning in common with the old ones, so it is switched by hand."""
        await self.start()
        await self.run_jobs()
        assert (await self.status()).state == "ready"
        return await self.services.reembedding.switch(self.tenant.id)

    async def keep_meaning(self, texts: Iterable[str]) -> None:
        """Let the new model give these texts the neighbours that they have with the old one."""
        for text in texts:
            old = await self.old.embed_query(text)
            self.new.vectors[text] = np.append(old, np.zeros(8, dtype=np.float32))

    async def lose_meaning(self, texts: Iterable[str]) -> None:
        """Let the new model give these texts vectors that have nothing in common with the old ones.

        By itself, the mock with more dimensions repeats the numbers of the one with fewer.
        """
        for text in texts:
            self.new.vectors[text] = await self.new.embed_query(f"another {text}")

    async def judge(self, count: int) -> None:
        """Have a caller mark entry n as the answer to `question n`, which only the old model finds."""
        await self.services.tenants.change_settings(self.tenant.id, SettingsPatch(keep_query_text=True))
        entries = (await self.services.entries.list_entries(self.tenant.id, limit=100)).items
        for entry in sorted(entries, key=lambda e: e.content)[:count]:
            query = f"question about {entry.content.rsplit(' ', 1)[-1]}?"
            self.old.vectors[query] = await self.old.embed_query(entry.content)
            wanted = SearchQuery(query=query, mode="semantic", similarity_threshold=0)
            found = await self.services.search.search(self.tenant.id, wanted, subject="ada")
            assert found.metadata.search_id is not None
            await self.services.feedback.give(self.tenant.id, "ada", found.metadata.search_id, entry.id, relevant=True)

    async def status(self) -> ModelChange:
        return await self.services.reembedding.status(self.tenant.id)

    async def search(self, query: str, mode: Mode = "semantic") -> SearchResult:
        wanted = SearchQuery(query=query, mode=mode, similarity_threshold=0)
        return await self.services.search.search(self.tenant.id, wanted)

    async def run_job(self) -> bool:
        """Make queued work due, and run one job."""
        await self.sql("update jobs set run_at = now() where state = 'queued'")
        return await self.services.worker.run_once()

    async def run_jobs(self) -> int:
        """Run all queued work, and the work that it queues; returns the number of jobs."""
        done = 0
        while await self.run_job():
            done += 1
            assert done < 1000, "the work does not end"
        return done

    async def finish(self) -> ModelChange:
        """Run all queued work, and return what it has led to."""
        await self.run_jobs()
        return await self.status()

    async def sql(self, statement: str, *values: Any) -> Any:
        return await fetchval(self.made.superuser_dsn, statement, *values)

    async def vectors(self, model_id: int) -> Mapping[str, str]:
        """The vectors of a model by the text of their entry."""
        rows = await fetch(
            self.made.superuser_dsn,
            "select e.content, k.embedding::text as vector from embeddings k"
            " join entries e on e.tenant_id = k.tenant_id and e.id = k.entry_id"
            " where k.model_id = $1 and k.tenant_id = $2 and k.text_hash = e.text_hash",
            model_id,
            self.tenant.id,
        )
        assert len(rows) == len({row["content"] for row in rows})
        return {row["content"]: row["vector"] for row in rows}

    async def pending(self, model_id: int) -> int:
        return int(await self.sql("select count(*) from pending_embeddings where model_id = $1", model_id))
