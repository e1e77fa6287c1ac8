"""An export has what its caller may read, and its restoration gives every row the same readers and writers."""

from app.composition.services import build_services
from app.contract.administration import NewTenant
from app.db.database import Database
from app.db.principals import SERVICE, acting_as, principals_of
from tests.fixtures.database.cluster import MODEL, TestDatabase
from tests.fixtures.providers.failing import FailingProvider
from tests.isolation.readers.holdings import PLAIN, Held
from tests.knowledge.transfer.packing import export, restore, rows

LISTED = {"entries": "readers, writers", "assets": "readers, writers", "embeddings": "readers", "sources": "*"}


async def test_an_export_has_what_its_caller_may_read_and_keeps_the_lists(held: tuple[TestDatabase, Held]) -> None:
    made, found = held
    database = Database(made.service_dsn)
    services = await build_services(database, FailingProvider(MODEL))
    with acting_as(SERVICE):
        (tenant,) = [t for t in await services.tenants.list_tenants() if t.id == found.tenant_id]
        other = await services.tenants.create(NewTenant("restored"), actor="test")
    with acting_as(principals_of("cleo", ["board"])):
        text = b"\n".join(await export(services, tenant))
    assert PLAIN.encode() in text
    secrets = ("All about the quokka", "without a vector", str(found.entry_id), str(found.asset_id))
    for secret in secrets:
        assert secret.encode() not in text
    with acting_as(SERVICE):
        outcome = await restore(services, other, await export(services, tenant))
        assert outcome.failures == []
        for table, columns in LISTED.items():
            lists = [await rows(made.superuser_dsn, table, each, columns) for each in (tenant, other)]
            assert lists[0] == lists[1], table
            assert any("group:finance" in row for row in lists[0]), table
    await services.close()
    await database.close()
