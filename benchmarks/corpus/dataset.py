"""The database for speed measurements: 1,000 tenants with 250,000 entries, built once and kept."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
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
from benchmarks.place import DATA, KEPT, alone, bench_settings
from benchmarks.texts import find_kind, make_queries

RECIPE = 3
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
async def open_dataset(progress: ShowProgress) -> AsyncIterator[Dataset]:
    """The database, migrated, complete and settled; missing data is built first."""
    async with contextlib.AsyncExitStack() as stack:
        async with alone():
            data = await _prepare(stack, progress)
        yield data


async def _prepare(stack: contextlib.AsyncExitStack, progress: ShowProgress) -> Dataset:
    mark, texts = _read_mark(), find_kind()
    if (mark.get("recipe"), mark.get("texts")) != (RECIPE, texts):
        await asyncio.to_thread(shutil.rmtree, DATA, ignore_errors=True)
        mark = {"recipe": RECIPE, "texts": texts}
    settings = bench_settings(DATA)
    _write_mark(mark)
    addresses = await stack.enter_async_context(open_database(settings))
    server = EmbeddedPostgres(DATA)
    address = await asyncio.to_thread(server.start)
    stack.callback(server.stop)
    services = await stack.enter_async_context(open_services(settings))
    assert addresses.admin is not None
    stock = await prepare_stock(services.provider, progress)
    if not mark.get("built"):
        await build_tenants(services, addresses.admin, stock, plan_tenants(), progress)
        mark["built"] = True
        _write_mark(mark)
    # Another exact limit or a new migration may require upkeep again.
    state = f"exact limit {EXACT_LIMIT}, migration {latest_revision()}"
    if mark.get("settled_for") != state:
        await settle(services, addresses.admin, plan_tenants(), progress)
        await analyze(addresses.admin)
        mark["settled_for"] = state
        _write_mark(mark)
    return Dataset(settings, addresses, address, services, stock)


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
