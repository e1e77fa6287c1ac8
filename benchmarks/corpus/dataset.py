"""The database for speed measurements: 1,000 tenants with 250,000 entries, built once and kept.

It is measured as users get it: after it was filled, the service runs on it until upkeep and autovacuum have done their
work, and nothing else prepares it. A copy that is prepared by hand shows what that would gain.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import orjson

from app.composition.database import DatabaseAddresses, open_database
from app.composition.services import Services, open_services
from app.db.schema.scripts import latest_revision
from app.embedded import EmbeddedAddress
from app.embedded.server import EmbeddedPostgres
from app.evaluation.collection import Document
from app.evaluation.evaluation import ShowProgress, finish_upkeep
from app.knowledge.search.plan import EXACT_LIMIT
from app.knowledge.upkeep import Upkeep
from app.settings import Settings
from benchmarks.corpus.construction import analyze, build_index, build_tenants
from benchmarks.corpus.population import Population, find_tenant, plan_tenants
from benchmarks.corpus.stock import Stock, prepare_stock
from benchmarks.place import DATA, KEPT, PREPARED, alone, bench_settings
from benchmarks.serving import leave_alone
from benchmarks.texts import find_kind, make_queries

RECIPE = 4
"""Increase this when a build would create other entries: a database of another recipe or other texts is discarded."""

MARK = KEPT / "dataset.json"
PATIENCE = 900.0
"""Time limit for the upkeep of one tenant, in seconds."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """The database and its server, and the stock that its entries are made from."""

    settings: Settings
    addresses: DatabaseAddresses
    server: EmbeddedAddress
    services: Services
    stock: Stock

    def tenant(self, size: int) -> MeasuredTenant:
        """The measured tenant with this number of entries. Raises ValueError."""
        population = find_tenant(size)
        originals = self.stock.originals_of(population)
        return MeasuredTenant(population, originals, self.stock.library.ask_about(originals))


@dataclass(frozen=True, slots=True)
class MeasuredTenant:
    """A tenant to search in. Its queries are about the unvaried texts among its entries."""

    population: Population
    originals: Sequence[Document]
    questions: Sequence[Sequence[str]] = ()

    @property
    def tenant_id(self) -> UUID:
        """The tenant's id in the database."""
        return self.population.tenant_id

    @property
    def size(self) -> int:
        """The number of its entries; each has one passage."""
        return self.population.size

    def make_queries(self, seed: int) -> Iterator[str]:
        """Endless queries in this tenant, the same for the same seed."""
        return make_queries(self.originals, seed, self.questions)


@contextlib.asynccontextmanager
async def open_dataset(progress: ShowProgress, *, prepared: bool = False) -> AsyncIterator[Dataset]:
    """The database, migrated, complete and settled, or its prepared copy; missing data is built first."""
    async with contextlib.AsyncExitStack() as stack:
        async with alone():
            await _build(progress)
            data = await _open(stack, PREPARED if prepared else DATA, progress)
        yield data


async def _open(stack: contextlib.AsyncExitStack, folder: Path, progress: ShowProgress) -> Dataset:
    settings = bench_settings(folder)
    addresses = await stack.enter_async_context(open_database(settings))
    server = EmbeddedPostgres(folder)
    address = await asyncio.to_thread(server.start)
    stack.callback(server.stop)
    services = await stack.enter_async_context(open_services(settings))
    stock = await prepare_stock(services.provider, progress)
    return Dataset(settings, addresses, address, services, stock)


async def _build(progress: ShowProgress) -> None:
    """Do what is missing: fill the database, leave it to the service, and prepare the copy."""
    mark, texts = _read_mark(), find_kind()
    if (mark.get("recipe"), mark.get("texts")) != (RECIPE, texts):
        await asyncio.to_thread(shutil.rmtree, DATA, ignore_errors=True)
        mark = {"recipe": RECIPE, "texts": texts}
    # Another exact limit or a new migration may require upkeep again.
    state = f"exact limit {EXACT_LIMIT}, migration {latest_revision()}"
    if mark.get("settled_for") == state:
        return
    async with contextlib.AsyncExitStack() as stack:
        data = await _open(stack, DATA, progress)
        admin = data.addresses.admin
        assert admin is not None
        _write_mark(mark)
        if not mark.get("built"):
            await build_tenants(data.services, admin, data.stock, plan_tenants(), progress)
            mark["built"] = True
            _write_mark(mark)
        await settle(data.services, admin, plan_tenants(), progress)
        with progress("left to the service", 1) as report:
            await leave_alone(data.settings, admin)
            report(1)
    await asyncio.to_thread(shutil.rmtree, PREPARED, ignore_errors=True)
    # As root, the server runs as another user, which must still own the files.
    await asyncio.to_thread(subprocess.run, ["cp", "-a", str(DATA), str(PREPARED)], check=True)
    async with open_database(bench_settings(PREPARED)) as addresses:
        assert addresses.admin is not None
        await analyze(addresses.admin)
    mark["settled_for"] = state
    _write_mark(mark)


async def settle(
    services: Services,
    admin_dsn: str,
    tenants: Sequence[Population],
    progress: ShowProgress,
    exact_limit: int = EXACT_LIMIT,
) -> None:
    """Do the upkeep that is due: missing indexes in bulk, and the rest as the service's worker would."""
    upkeep = Upkeep(services.database, services.tenants, services.jobs, exact_limit=exact_limit)
    with progress("upkeep", len(tenants)) as report:
        for number, tenant in enumerate(tenants):
            if tenant.size > exact_limit:
                await build_index(services, admin_dsn, tenant)
            await upkeep.check(tenant.tenant_id)
            await finish_upkeep(services, tenant.tenant_id, patience=PATIENCE)
            report(number + 1)


def _read_mark() -> dict[str, object]:
    try:
        mark: dict[str, object] = orjson.loads(MARK.read_bytes())
    except (FileNotFoundError, orjson.JSONDecodeError):
        return {}
    return mark


def _write_mark(mark: dict[str, object]) -> None:
    MARK.write_bytes(orjson.dumps(mark))
