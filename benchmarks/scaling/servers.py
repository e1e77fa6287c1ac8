"""The same tenants and entries on one server, on a server with a replica, and on a Citus cluster, all on this machine.

The servers and their settings are those of the tests: small buffers, data in memory, nothing waits for a disk.
"""

import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from app.composition.database import SERVICE, prepare, replicas_of
from app.composition.services import Services, build_services
from app.contract.administration import NewTenant
from app.contract.entries import EntryDraft
from app.db.database import Database
from app.embeddings.factory import ProviderConfig, build_provider
from app.embeddings.provider import resolve_model
from app.evaluation.collection import Document
from app.settings import load_settings
from tests.fixtures.database.citus import CITUS, CitusCluster, create_citus_database, running_citus
from tests.fixtures.database.standby import replicated_database

KINDS = ("one server", "with a replica", "Citus, two workers")
DIMENSIONS = 384
SHARDS = 8
POOL = 8
BATCH = 500
MEMORY = Path("/dev/shm")  # noqa: S108


@dataclass(frozen=True, slots=True)
class Served:
    """The services on one kind of database, and the tenants in it."""

    kind: str
    services: Services
    tenants: Sequence[UUID]


@asynccontextmanager
async def serving(texts: Sequence[Document], tenants: int, entries: int) -> AsyncIterator[list[Served]]:
    """Start all servers and fill them; the Citus cluster is left out where its files are absent."""
    model = resolve_model("mock", dimensions=DIMENSIONS)
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(_open_folder())
        made = []
        servers = await stack.enter_async_context(replicated_database(folder))
        await prepare(servers.primary.admin_dsn, service_role=SERVICE, model=model)
        services = await _serve(stack, servers.primary.service_dsn, None)
        filled = await _fill(services, texts, tenants, entries)
        made.append(Served(KINDS[0], services, filled))
        services = await _serve(stack, servers.primary.service_dsn, servers.replica.service_dsn)
        made.append(Served(KINDS[1], services, filled))
        if CITUS.is_dir():
            nodes = await stack.enter_async_context(running_citus())
            database = await create_citus_database(CitusCluster(nodes), "scaling")
            await prepare(database.coordinator.admin_dsn, service_role=SERVICE, model=model, shards=SHARDS)
            services = await _serve(stack, database.coordinator.service_dsn, None)
            made.append(Served(KINDS[2], services, await _fill(services, texts, tenants, entries)))
        yield made


@contextmanager
def _open_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="kb-scaling-", dir=MEMORY) as name:
        Path(name).chmod(0o755)  # the servers run as another user
        yield Path(name)


async def _serve(stack: AsyncExitStack, dsn: str, replica: str | None) -> Services:
    provider = build_provider(ProviderConfig(kind="mock", dimensions=DIMENSIONS))
    stack.push_async_callback(provider.close)
    database = Database(dsn, pool_size=POOL)
    stack.push_async_callback(database.close)
    services = await build_services(database, provider)
    stack.push_async_callback(services.close)
    if replica is not None:
        variables = {"DATABASE_URL": dsn, "DATABASE_REPLICA_URLS": replica, "EMBEDDING_PROVIDER": "mock"}
        settings = load_settings(variables, None, identity_required=False)
        await stack.enter_async_context(replicas_of(database, settings, None))
    return services


async def _fill(services: Services, texts: Sequence[Document], tenants: int, entries: int) -> list[UUID]:
    """Create the tenants, each with variations of the same texts, and wait until all have their vectors."""
    made = []
    for number in range(tenants):
        tenant = await services.tenants.create(NewTenant(f"tenant-{number}"), actor="benchmark")
        drafts = [EntryDraft(content=f"{texts[n % len(texts)].text}\n{number} {n}") for n in range(entries)]
        for start in range(0, entries, BATCH):
            await services.entries.create_many(tenant.id, drafts[start : start + BATCH])
        made.append(tenant.id)
    while await services.worker.run_once():
        pass
    return made
