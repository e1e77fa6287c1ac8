"""An origin in memory, and runs of it."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.results import Hit
from app.contract.search import SearchQuery
from app.knowledge.sources.run import RunOptions, RunOutcome, SourceRun
from app.origins.origin import Listing, OriginFile, OriginUnavailable
from tests.fixtures.workers import run_due

PLAIN = RunOptions()

FIVE = {f"{word}.md": f"The {word} is here.".encode() for word in ("amber", "basalt", "copper", "dolomite", "emerald")}
"""Files of a shelf."""


@dataclass
class Shelf:
    """Files by path; `broken` makes its listing fail."""

    files: dict[str, bytes] = field(default_factory=dict)
    broken: bool = False
    description: str = "a shelf"

    @contextlib.contextmanager
    def open(self) -> Iterator[Shelf]:
        yield self

    def list_files(self) -> Listing:
        if self.broken:
            raise OriginUnavailable("the shelf is locked")
        return Listing([OriginFile(path, digest(data), len(data)) for path, data in self.files.items()])

    def read(self, file: OriginFile, most: int) -> bytes:
        try:
            return self.files[file.path]
        except KeyError:
            raise OriginUnavailable(f"{file.path} was taken") from None


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


async def run_source(
    services: Services, tenant: Tenant, shelf: Shelf, name: str = "shelf", options: RunOptions = PLAIN
) -> RunOutcome:
    """One run, with all of its ingestion."""
    run = SourceRun(services.sources, max_bytes=services.assets.max_bytes)
    outcome = await run.run(tenant.id, name, shelf, options)
    await run_due(services.worker)
    return outcome


async def find(services: Services, tenant: Tenant, word: str) -> list[Hit]:
    result = await services.search.search(tenant.id, SearchQuery(query=word, mode="keyword", limit=50))
    return list(result.results)


async def assets_of(services: Services, tenant: Tenant, source: str | None) -> dict[str, str]:
    """The ids of a source's assets by external id; None: those without a source."""
    page = await services.assets.list_assets(tenant.id, limit=200)
    return {a.external_id or a.name: str(a.id) for a in page.items if a.source == source}
