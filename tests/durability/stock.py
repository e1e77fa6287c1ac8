"""A tenant's data in the database, read past row-level security."""

import asyncio
from uuid import UUID

from app.composition.services import Services
from app.contract.administration import NewTenant, Tenant
from app.contract.assets import Upload
from tests.fixtures.database.cluster import Connection

CHUNKS = """
select a.name, e.chunk_index, e.title, e.content, e.tags, e.roles, e.language, e.metadata, e.text_hash, e.content_hash,
       (select array_agg((v.model_id, v.passage, v.char_start, v.char_end, v.text_hash, v.embedding::text)::text
                         order by v.model_id, v.passage)
          from embeddings v where v.tenant_id = e.tenant_id and v.entry_id = e.id) as vectors
  from entries e join assets a on a.tenant_id = e.tenant_id and a.id = e.asset_id
 where e.tenant_id = $1
 order by a.name, e.chunk_index, e.id"""

ASSETS = """
select name, external_id, status, error, progress, title, total_pages, extracted_text, sha256
  from assets where tenant_id = $1 order by name, external_id"""

# Triggers maintain the counters, so anything written twice or partly shows in them.
LEFT_OVER = """
select (select count(*) from jobs where tenant_id = $1) as jobs,
       (select count(*) from pending_embeddings where tenant_id = $1) as pending,
       (select coalesce(sum(passages), 0) from vector_statistics where tenant_id = $1)
         - (select count(*) from embeddings where tenant_id = $1) as miscounted_vectors,
       (select coalesce(sum(entries), 0) from corpus_statistics where tenant_id = $1)
         - (select count(*) from entries where tenant_id = $1) as miscounted_entries"""


async def read_stock(superuser: Connection, tenant_id: UUID) -> dict[str, list[tuple[object, ...]]]:
    """Assets and chunks with their vectors, without ids and times; a duplicate row is listed twice."""
    return {
        "assets": [tuple(row) for row in await superuser.fetch(ASSETS, tenant_id)],
        "chunks": [tuple(row) for row in await superuser.fetch(CHUNKS, tenant_id)],
    }


async def assert_nothing_left_over(superuser: Connection, tenant_id: UUID) -> None:
    row = await superuser.fetchrow(LEFT_OVER, tenant_id)
    assert row is not None
    assert dict(row) == {"jobs": 0, "pending": 0, "miscounted_vectors": 0, "miscounted_entries": 0}


async def wait_until_settled(superuser: Connection, tenant_id: UUID, seconds: float) -> None:
    """Wait until no asset and no job of the tenant has pending work."""
    async with asyncio.timeout(seconds):
        while await superuser.fetchval(  # noqa: ASYNC110
            "select exists (select from jobs where tenant_id = $1) or exists (select from assets"
            " where tenant_id = $1 and status not in ('indexed', 'failed'))",
            tenant_id,
        ):
            await asyncio.sleep(0.05)


async def index_undisturbed(services: Services, name: str, files: list[Upload]) -> Tenant:
    """A new tenant with these files, indexed by one undisturbed worker."""
    tenant = await services.tenants.create(NewTenant(name), actor="test")
    for file in files:
        await services.assets.upload(tenant.id, file)
    while await services.worker.run_once():
        pass
    return tenant
