"""Exporting and restoring a tenant, and reading its stored rows."""

from collections.abc import Iterator, Sequence

from app.composition.services import Services
from app.contract.administration import Tenant
from app.knowledge.transfer.records import Restored, TextLine
from app.knowledge.transfer.tenant import TenantExport, TenantRestoration, read_header
from tests.fixtures.database.cluster import connected

TABLES = ("assets", "entries", "access_counts", "saved_searches", "feedback", "sources", "source_items")
COUNTED = ("corpus_statistics", "vector_statistics", "tag_statistics")


async def export(services: Services, tenant: Tenant, *, with_vectors: bool = True) -> list[bytes]:
    lines = TenantExport(services.database).lines(tenant.id, with_vectors=with_vectors)
    return [line async for _, line in lines]


def restoration_of(services: Services, tenant: Tenant) -> TenantRestoration:
    return TenantRestoration(services.database, services.tenants, services.jobs, tenant.id, "test")


async def restore(services: Services, tenant: Tenant, lines: Sequence[bytes]) -> Restored:
    restoration = restoration_of(services, tenant)
    header = read_header(lines[0])
    assert header is not None

    def numbered() -> Iterator[TextLine]:
        yield from (TextLine(number, line) for number, line in enumerate(lines[1:], 2))

    await restoration.write(header, numbered(), lambda _: None)
    if restoration.has_references:
        await restoration.link(numbered(), lambda _: None)
    await restoration.finish()
    return restoration.outcome


async def rows(superuser_dsn: str, table: str, tenant: Tenant, columns: str = "*") -> list[str]:
    async with connected(superuser_dsn) as superuser:
        found = await superuser.fetch(
            f"select (to_jsonb(t) - 'tenant_id')::text from (select {columns} from {table}"
            " where tenant_id = $1) t order by 1",
            tenant.id,
        )
    return [row[0] for row in found]
