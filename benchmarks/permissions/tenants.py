"""The database: one text corpus in a tenant without permissions, in one with them, and a part of it in a small one."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import numpy as np
import orjson
from numpy.typing import NDArray

from app.composition.database import DatabaseAddresses, open_database
from app.composition.services import Services, open_services
from app.db.principals import acting_for_service, name_group
from app.db.queries import embeddings
from app.db.queries.entries import insert_entries
from app.db.queries.tenants import create_tenant
from app.db.schema.owner import register_model
from app.db.schema.scripts import latest_revision
from app.evaluation.evaluation import ShowProgress
from app.knowledge.search.plan import EXACT_LIMIT
from app.settings import Settings
from benchmarks.corpus.construction import LOADING, UNSYNCED, analyze, passage_vector, written_entry
from benchmarks.corpus.dataset import settle
from benchmarks.corpus.population import Population
from benchmarks.corpus.stock import BATCH, Stock, prepare_stock
from benchmarks.place import KEPT, alone, bench_settings
from benchmarks.texts import find_kind

DEPARTMENTS = 100
"""Groups of the tenant with permissions that have one entry of a hundred each."""

WIDE = {"tenth": 10, "half": 50}
"""Groups that may read the entries of the first departments, and the number of these."""

RECIPE = 2
"""Increase this when a build would create other entries."""


@dataclass(frozen=True, slots=True)
class Scene:
    """The three tenants: `plain` and `divided` have the same texts and vectors, `small` those of one department."""

    settings: Settings
    addresses: DatabaseAddresses
    services: Services
    stock: Stock
    plain: Population
    divided: Population
    small: Population

    def vectors(self) -> NDArray[np.float32]:
        """The vectors of all entries, by their number."""
        return self.stock.make_vectors(self.plain)


def department(number: int) -> int:
    """The department of an entry: each has one entry of a hundred, at a place that does not repeat."""
    block, place = divmod(number, DEPARTMENTS)
    return (place + (block * 2_654_435_761 >> 8)) % DEPARTMENTS


def numbers_of(departments: int, entries: int) -> NDArray[np.int64]:
    """The numbers of the entries that the first departments may read."""
    return np.array([n for n in range(entries) if department(n) < departments], dtype=np.int64)


def readers_of(number: int) -> list[str]:
    """The readers of an entry in the tenant with permissions."""
    own = department(number)
    return sorted(name_group(name) for name in (str(own), *(w for w, count in WIDE.items() if own < count)))


@asynccontextmanager
async def open_scene(entries: int, progress: ShowProgress) -> AsyncIterator[Scene]:
    """The database with tenants of so many entries, settled; missing data is built first, and kept."""
    data = KEPT / f"permissions-{entries}"
    mark = data.with_suffix(".json")
    settings = bench_settings(data)
    async with contextlib.AsyncExitStack() as stack:
        async with alone():
            addresses = await stack.enter_async_context(open_database(settings))
            services = await stack.enter_async_context(open_services(settings))
            stock = await prepare_stock(services.provider, progress)
            few = Population(2, len(numbers_of(1, entries)))
            scene = Scene(settings, addresses, services, stock, Population(0, entries), Population(1, entries), few)
            state = f"recipe {RECIPE}, {find_kind()}, exact limit {EXACT_LIMIT}, migration {latest_revision()}"
            if not mark.exists() or orjson.loads(mark.read_bytes()) != state:
                await build(scene, progress)
                mark.write_bytes(orjson.dumps(state))
        yield scene


async def build(scene: Scene, progress: ShowProgress, exact_limit: int = EXACT_LIMIT) -> None:
    """Fill the tenants, and do the upkeep that is due."""
    assert scene.addresses.admin is not None
    places: tuple[tuple[Population, Callable[[int], bool], bool], ...] = (
        (scene.plain, lambda _: True, False),
        (scene.divided, lambda _: True, True),
        (scene.small, lambda number: department(number) == 0, False),
    )
    with acting_for_service():
        for tenant, belongs, is_divided in places:
            with progress(f"entries of {tenant.slug}", tenant.size) as report:
                await _fill(scene, tenant, belongs, is_divided, report)
        tenants = [tenant for tenant, _, _ in places]
        await settle(scene.services, scene.addresses.admin, tenants, progress, exact_limit)
    await analyze(scene.addresses.admin)


async def _fill(
    scene: Scene, tenant: Population, belongs: Callable[[int], bool], is_divided: bool, report: Callable[[int], None]
) -> None:
    """Create the tenant with its entries, unless it is complete."""
    services = scene.services
    if tenant.tenant_id not in {known.id for known in await services.tenants.list_tenants()}:
        assert scene.addresses.admin is not None
        model_id, _ = await register_model(scene.addresses.admin, services.provider.model)
        async with services.database.platform_session() as platform:
            await create_tenant(platform, tenant.tenant_id, tenant.slug, tenant.slug, model_id, "benchmark")
    context = await services.tenants.context(tenant.tenant_id)
    if context.passages == tenant.size:
        return
    done = 0
    for start in range(0, scene.plain.size, BATCH):
        batch = await asyncio.to_thread(scene.stock.make_batch, scene.plain, start)
        own = [replace(e, id=tenant.entry_id(e.number)) for e in batch if belongs(e.number)]
        written = [replace(written_entry(e), readers=readers_of(e.number) if is_divided else None) for e in own]
        async with services.database.tenant_session(tenant.tenant_id, setup=UNSYNCED, background=LOADING) as session:
            await insert_entries(session, written)
            await embeddings.store_vectors(session, context.space.model_id, [passage_vector(e) for e in own])
        done += len(own)
        report(done)
    services.tenants.forget(tenant.tenant_id)
