"""The service's own pipeline, from accepted files to searchable chunks, with a tenant that exists for one run."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import UUID

from app.composition.services import Services, build_services, open_services
from app.contract.administration import NewTenant
from app.contract.assets import Upload
from app.db.statements import parse_statement
from app.errors import KnowledgeError
from app.knowledge.ingestion.pipeline import ChunkSize
from app.knowledge.search.plan import SearchDefaults
from app.settings import DatabaseSettings, EmbeddingSettings, Settings

DIMENSIONS = 384
"""The same for both models, so that their figures can be compared."""

DEFERRED = SearchDefaults(exact_limit=1_000_000_000)
"""No tenant enters the HNSW index while it is filled."""

BACKLOG = 4
"""Maximum number of waiting files: they would count as memory of the service."""

WAITING = parse_statement("waiting", "select count(*) from jobs where tenant_id = :tenant_id and kind = 'ingest_asset'")
"""Files that wait or are in progress."""


class IngestionFailed(KnowledgeError):
    """A file did not become searchable; the text gives the reason."""


@dataclass(frozen=True, slots=True)
class Line:
    """The services and a tenant to fill; `concurrency` jobs run at a time."""

    services: Services
    tenant_id: UUID
    concurrency: int
    chunk_size: ChunkSize

    async def accept(self, files: Iterable[tuple[str, bytes]]) -> None:
        """Upload the files, without reading them."""
        for name, data in files:
            await self.services.assets.upload(self.tenant_id, Upload(name, data))

    async def finish(self) -> float:
        """Process waiting jobs until every file is searchable; returns the seconds. Raises IngestionFailed."""
        started = time.perf_counter()
        await asyncio.gather(*(self._work() for _ in range(self.concurrency)))
        took = time.perf_counter() - started
        counts = (await self.services.administration.stats(self.tenant_id)).assets_by_status
        if set(counts) - {"indexed"}:
            raise IngestionFailed(f"files did not become searchable: {counts}")
        return took

    async def stream(self, files: Iterable[tuple[str, bytes]]) -> None:
        """Upload file after file while the workers run, with few files waiting. Raises IngestionFailed."""
        done = asyncio.Event()

        async def feed() -> None:
            for file in files:
                await self.accept([file])
                while await self._waiting() >= BACKLOG:  # noqa: ASYNC110 - the event is in the database
                    await asyncio.sleep(0.02)
            done.set()

        async def work() -> None:
            while not (done.is_set() and await self._waiting() == 0):
                if not await self.services.worker.run_once():
                    await asyncio.sleep(0.02)

        async with asyncio.TaskGroup() as group:
            group.create_task(feed())
            for _ in range(self.concurrency):
                group.create_task(work())
        await self.finish()

    async def count_chunks(self) -> int:
        """The number of the tenant's chunks."""
        stats = await self.services.administration.stats(self.tenant_id)
        return int(stats.entries)

    async def _work(self) -> None:
        while await self._waiting() and await self.services.worker.run_once():
            pass

    async def _waiting(self) -> int:
        async with self.services.database.tenant_session(self.tenant_id) as session:
            return int(await session.fetch_value(WAITING))


@contextlib.asynccontextmanager
async def open_line(
    data_dir: Path, kind: str, *, concurrency: int, chunk_tokens: int | None = None
) -> AsyncIterator[Line]:
    """A line with the provider `kind` over the embedded database in `data_dir`; its tenant is removed at the end."""
    size = ChunkSize() if chunk_tokens is None else replace(ChunkSize(), tokens=chunk_tokens)
    settings = Settings(
        database=DatabaseSettings(data_dir=data_dir),
        embedding=EmbeddingSettings.model_validate({"provider": kind, "dimensions": DIMENSIONS}),
    )
    async with open_services(settings) as plain:
        services = await build_services(
            plain.database, plain.provider, defaults=DEFERRED, chunk_size=size, worker_concurrency=concurrency
        )
        tenant = await services.tenants.create(NewTenant(f"ingestion-{time.time_ns():x}"), actor="benchmark")
        try:
            yield Line(services, tenant.id, concurrency, size)
        finally:
            await services.close()
            await services.tenants.delete(tenant.id, actor="benchmark")


def name_files(contents: Sequence[bytes]) -> list[tuple[str, bytes]]:
    """Names for Markdown files."""
    return [(f"file-{number}.md", data) for number, data in enumerate(contents)]
