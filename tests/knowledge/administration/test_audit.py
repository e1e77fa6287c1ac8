"""The order of the audit trail."""

from app.composition.services import Services
from app.contract.administration import Tenant
from app.db.queries.audit import write_audit
from tests.fixtures.database.cluster import execute


async def test_rows_of_the_same_moment_keep_the_order_of_their_writes(
    services: Services, tenant: Tenant, superuser_dsn: str
) -> None:
    written = [str(number) for number in range(40)]
    async with services.database.tenant_session(tenant.id) as session:
        for actor in written:
            await write_audit(session, actor, "stats.read", [], {})
    await execute(superuser_dsn, "update audit set at = '2026-01-01' where tenant_id = $1", tenant.id)
    seen: list[str] = []
    cursor: str | None = None
    while not seen or cursor:
        page = await services.administration.audit(tenant.id, limit=7, cursor=cursor)
        seen += [record.actor for record in page.items]
        cursor = page.next_cursor
    assert seen[::-1] == written
