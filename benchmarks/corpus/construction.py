"""Build the benchmark's database quickly, and resume an interrupted build.

Entries and vectors are stored with the service's own statements, but are not sent to it: embedding 250,000 texts takes
three hours. The vectors of a large tenant enter its index at once, which the service does step by step.
"""

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta

import asyncpg

from app.composition.services import Services
from app.contract.entries import EntryDraft, WrittenEntry
from app.db.queries import embeddings
from app.db.queries.embeddings import PassageVector
from app.db.queries.entries import insert_entries
from app.db.queries.tenants import create_tenant
from app.db.schema.owner import register_model
from app.db.session import TenantSession
from app.evaluation.evaluation import ShowProgress
from app.knowledge.entries.entry import embedding_text
from app.knowledge.entries.service import new_entry
from app.knowledge.search.plan import EXACT_LIMIT
from benchmarks.corpus.population import Population
from benchmarks.corpus.stock import BATCH, Stock, StockEntry

BUILDERS = 2
"""Number of tenants that are filled at the same time."""

UNSYNCED = "set local synchronous_commit=off;"
LOADING = timedelta(minutes=10)


async def build_tenants(
    services: Services,
    admin_dsn: str,
    stock: Stock,
    tenants: Sequence[Population],
    progress: ShowProgress,
    exact_limit: int = EXACT_LIMIT,
) -> None:
    """Fill each tenant with its missing entries; build an index for each with more than `exact_limit` entries."""
    known = {tenant.id for tenant in await services.tenants.list_tenants()}
    model_id, _ = await register_model(admin_dsn, services.provider.model)
    waiting = list(reversed(tenants))
    done = 0
    with progress("entries", sum(t.size for t in tenants)) as report:

        def advance(count: int) -> None:
            nonlocal done
            done += count
            report(done)

        async def build() -> None:
            while waiting:
                tenant = waiting.pop()
                if tenant.tenant_id not in known:
                    async with services.database.platform_session() as session:
                        await create_tenant(session, tenant.tenant_id, tenant.slug, tenant.slug, model_id, "benchmark")
                await _fill(services, stock, tenant, advance)

        async with asyncio.TaskGroup() as group:
            for _ in range(BUILDERS):
                group.create_task(build())
    large = [tenant for tenant in tenants if tenant.size > exact_limit]
    with progress("vector indexes", len(large)) as report:
        for number, tenant in enumerate(large):
            await build_index(services, admin_dsn, tenant)
            report(number + 1)


async def analyze(admin_dsn: str) -> None:
    """Vacuum and analyze every table, as an administrator may do by hand."""
    connection = await asyncpg.connect(admin_dsn)
    try:
        await connection.execute("vacuum analyze")
    finally:
        await connection.close()


async def build_index(services: Services, admin_dsn: str, tenant: Population) -> None:
    """Build the tenant's own index, unless it has one. Moving the vectors row by row takes ten times as long."""
    services.tenants.forget(tenant.tenant_id)
    context = await services.tenants.context(tenant.tenant_id)
    if context.indexed:
        return
    model_id = context.space.model_id

    def open_session() -> AbstractAsyncContextManager[TenantSession]:
        return services.database.tenant_session(tenant.tenant_id, setup=UNSYNCED, background=LOADING)

    async with open_session() as session:
        await embeddings.give_up_index(session, model_id)
        await embeddings.drop_index(session, model_id)
        await embeddings.clear_batch(session, model_id, tenant.size)
    async with open_session() as session:
        await embeddings.create_index(session, model_id)
    name = f"embeddings_hnsw_{model_id}_{tenant.tenant_id.hex}"
    connection = await asyncpg.connect(admin_dsn)
    try:
        await connection.execute("set maintenance_work_mem = '512MB'")
        definition = await connection.fetchval("select pg_get_indexdef($1::text::regclass)", name)
        await connection.execute(f"drop index {name}")
        async with open_session() as session:
            await embeddings.start_index(session, model_id)
            await embeddings.move_batch(session, model_id, tenant.size)
        await connection.execute(definition)
    finally:
        await connection.close()
    async with open_session() as session:
        await embeddings.finish_index(session, model_id)
    services.tenants.forget(tenant.tenant_id)


async def _fill(services: Services, stock: Stock, tenant: Population, advance: Callable[[int], None]) -> None:
    """Add the missing entries. A batch stores entries and vectors in one transaction, so the number of
    entries is the progress.
    """
    services.tenants.forget(tenant.tenant_id)
    context = await services.tenants.context(tenant.tenant_id)
    model_id = context.space.model_id
    advance(context.passages)
    for start in range(context.passages, tenant.size, BATCH):
        batch = await asyncio.to_thread(stock.make_batch, tenant, start)
        async with services.database.tenant_session(tenant.tenant_id, setup=UNSYNCED, background=LOADING) as session:
            await insert_entries(session, [written_entry(entry) for entry in batch])
            await embeddings.store_vectors(session, model_id, [passage_vector(entry) for entry in batch])
        advance(len(batch))
    services.tenants.forget(tenant.tenant_id)


def written_entry(entry: StockEntry) -> WrittenEntry:
    """The entry as the service writes it."""
    draft = EntryDraft(
        external_id=str(entry.number),
        title=entry.title,
        content=entry.content,
        tags=list(entry.tags),
        language="english",
    )
    return new_entry(entry.id, draft)


def passage_vector(entry: StockEntry) -> PassageVector:
    """The vector of the entry's only passage."""
    text_hash = hashlib.sha256(embedding_text(entry.title, entry.content).encode()).digest()
    return PassageVector(entry.id, 0, text_hash, 0, len(entry.content), entry.vector)
