"""A short sample of the tests on a cluster, for each run: isolation, the main flow, and writes over HTTP."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import asyncpg
import httpx
import pytest
from asgi_lifespan import LifespanManager

from app.auth.principal import Role
from app.auth.tokens import TokenVerifier
from app.composition.database import SERVICE, check_database, prepare
from app.composition.services import Services, build_services
from app.contract.administration import NewTenant
from app.contract.assets import Upload
from app.contract.entries import EntryDraft
from app.contract.search import SearchQuery
from app.db.database import Database
from app.db.principals import EVERYONE, Rights, acting_as
from app.db.rows import new_id
from app.db.schema.isolation import find_faults
from app.db.schema.owner import register_model
from app.db.session import TenantSession
from app.db.statements import parse_statement
from app.knowledge.worker import KINDS
from app.main import create_app
from app.settings import IngestionSettings, Settings
from tests.fixtures.database.citus import CitusDatabase
from tests.fixtures.database.cluster import MODEL, connected, execute, fetchval
from tests.fixtures.http.callers import SECRET, Caller, make_token, open_client
from tests.fixtures.providers.failing import FailingProvider
from tests.knowledge.reembedding.moving import WIDER

COUNT = parse_statement("count", "select count(*) from entries")
PLANNED = (
    "select query_execution_single_shard + query_execution_multi_shard from citus_stat_counters"
    " where name = current_database()"
)
BELL = {"content": "The bell of the quay rings.", "tags": ["quay", "sound"], "external_id": "bell"}
TILL = {"content": "The till of the quay is counted.", "readers": ["group:crew", "user:carl"], "writers": ["user:carl"]}
READERS = {"readers": ["group:crew"]}
RULES = ("rules.md", b"# Quay\n\nNobody swims at the quay.", "text/markdown")
DIGEST = "sha256:852d399b73ceab93adcc57c5cf1ea61eb67c34f6881fae1fbf1d728932c3d28b"
ITEM = {"external_id": "a.md", "digest": DIGEST, "size": 19}

TENANTS = 4
HARBOUR = b"# Harbour\n\nThe harbour closes at dusk."


async def test_a_migrated_cluster_isolates_tenants_on_every_node(citus_database: CitusDatabase) -> None:
    await prepare(citus_database.coordinator.admin_dsn, service_role=SERVICE, model=MODEL)
    await check_database(citus_database.coordinator.service_dsn)


async def test_an_open_shard_of_a_worker_is_found(citus_database: CitusDatabase) -> None:
    async with connected(citus_database.workers[0].superuser_dsn) as superuser:
        undo = superuser.transaction()
        await undo.start()
        shard = await superuser.fetchval(
            "select n.shard from shards.local_groups() g cross join shards.names(g) n where n.name = 'entries' limit 1"
        )
        await superuser.execute("set local citus.enable_ddl_propagation = off")
        await superuser.execute("set local citus.enable_manual_changes_to_shards = on")
        await superuser.execute(f"drop policy tenant_isolation on {shard}; grant truncate on {shard} to kb_app")
        await superuser.execute("set local role kb_service")
        faults = [fault.text for fault in await find_faults(superuser)]
        await undo.rollback()
    assert faults == [
        f"table {shard} has no policy for kb_reader",
        f"kb_app may TRUNCATE on {shard}",
        f"on the shard {shard}: rights of kb_app on public.entries differs from its text in alembic/sql",
    ]


async def test_a_tenant_is_created_and_deleted_on_the_coordinator(citus_database: CitusDatabase) -> None:
    async with connected(citus_database.coordinator.service_dsn) as service:
        tenant = new_id()
        await service.execute("select tenancy.create_tenant($1, 'sample', 'A tenant', 1, 'test')", tenant)
        assert await service.fetchval("select tenancy.delete_tenant($1, 'test')", tenant)
        assert not await service.fetchval("select tenancy.delete_tenant($1, 'test')", tenant)


async def test_tenants_of_all_nodes_are_served(citus_database: CitusDatabase) -> None:
    database = Database(citus_database.coordinator.service_dsn, pool_size=4)
    services = await build_services(database, FailingProvider(MODEL))
    tenants = [await services.tenants.create(NewTenant(f"flow-{number}"), actor="test") for number in range(TENANTS)]
    for tenant in tenants:
        parent, _ = await services.entries.create(tenant.id, EntryDraft(content=f"A bell of {tenant.slug}."))
        await services.entries.create(tenant.id, EntryDraft(content="A sail.", parent_id=parent.id))
        await services.assets.upload(tenant.id, Upload("harbour.md", HARBOUR))
    while await services.worker.run_once():
        pass
    assert database.nodes is not None
    places = [await database.nodes.place_of(tenant.id) for tenant in tenants]
    assert all(place.node is not database for place in places)
    for tenant in tenants:
        for query in ("harbour at dusk", "bell"):
            results = await asyncio.gather(
                *(
                    services.search.search(tenant.id, SearchQuery(query=query, mode=mode))
                    for mode in ("hybrid", "semantic", "keyword")
                )
            )
            assert results[0].results
            assert results[2].results
            for found in results:
                assert not found.metadata.degraded
                own = [hit.content for hit in found.results if "bell" in hit.content]
                assert all(tenant.slug in content for content in own)
        # The link of the other entry to this one is cleared, as on one server.
        (bell,) = [e for e in (await services.entries.list_entries(tenant.id)).items if "bell" in e.content]
        await services.entries.delete(tenant.id, bell.id)
        left = (await services.entries.list_entries(tenant.id, entry_type="fact")).items
        assert [entry.parent_id for entry in left] == [None]
    for tenant in tenants:
        await services.tenants.delete(tenant.id, actor="test")
    await services.close()
    await database.close()
    async with connected(citus_database.coordinator.superuser_dsn) as superuser:
        assert await superuser.fetchval("select count(*) from entries") == 0


@dataclass(frozen=True, slots=True)
class Quay:
    """The service over HTTP, a tenant of the cluster, and its callers."""

    services: Services
    cluster: CitusDatabase
    http: httpx.AsyncClient
    tenant: UUID

    def caller(self, role: Role, subject: str, *groups: str) -> Caller:
        return Caller(self.http, self.tenant, make_token(self.tenant, role, subject=subject, groups=groups))

    async def send(self, who: Caller, ask: str, status: int | None = None, **options: Any) -> Any:
        """The answer to a request, which succeeds or has this status."""
        answer = await who.request(*ask.split(" "), **options)
        assert answer.status_code == status or (status is None and answer.is_success), f"{ask}: {answer.text}"
        return answer.json() if answer.content else None

    async def work(self) -> None:
        """Do all work that is queued, also for later."""
        while True:
            await execute(
                self.cluster.coordinator.superuser_dsn, "update jobs set run_at = now() where state = 'queued'"
            )
            if not await self.services.worker.run_once(KINDS):
                return


@pytest.fixture
async def quay(citus_database: CitusDatabase) -> AsyncIterator[Quay]:
    await register_model(citus_database.coordinator.admin_dsn, WIDER)
    database = Database(citus_database.coordinator.service_dsn, pool_size=4)
    services = await build_services(database, FailingProvider(MODEL), next_provider=FailingProvider(WIDER))
    app = create_app(Settings(ingestion=IngestionSettings(worker=False)), services, TokenVerifier(secret=SECRET))
    async with LifespanManager(app), open_client(app) as http:
        tenant = await services.tenants.create(NewTenant("quay"), actor="test")
        yield Quay(services, citus_database, http, tenant.id)
        await services.tenants.delete(tenant.id, actor="test")
    await services.close()
    await database.close()


async def planned_on_workers(cluster: CitusDatabase) -> list[int]:
    return [await fetchval(node.superuser_dsn, PLANNED) for node in cluster.workers]


async def test_each_role_writes_over_http_and_no_statement_leaves_its_node(quay: Quay) -> None:
    before = await planned_on_workers(quay.cluster)
    send, work = quay.send, quay.work
    admin = quay.caller(Role.TENANT_ADMIN, "ada")
    creator = quay.caller(Role.CREATOR, "carl", "crew")
    colleague = quay.caller(Role.CREATOR, "cora", "crew")
    reader = quay.caller(Role.READER, "rita")

    await send(admin, "PATCH /admin/settings", json={"keep_versions_days": 30, "keep_query_text": True})
    bell = (await send(creator, "POST /knowledge/entries", json=BELL))["id"]
    till = (await send(creator, "POST /knowledge/entries", json=TILL))["id"]
    bulk = [
        {"content": "A rope is on the quay.", "parent_id": bell},
        {"content": "A rope lies on the quay.", **READERS},
    ]
    ropes = (await send(creator, "POST /knowledge/entries/bulk", json={"entries": bulk}))["results"]
    assert [each["status"] for each in ropes] == ["created", "created"]
    # A link must not tell of an entry that its readers may not read.
    linking = {"content": "See the till.", "parent_id": till}
    assert (await creator.post("/knowledge/entries", linking)).status_code == 422
    rules = await creator.upload(*RULES, readers=["group:crew"])
    await send(creator, "PUT /knowledge/sources/mines", json={"items": [ITEM], "run": 0})
    mine = await creator.upload(
        "a.md", b"The a mine is open.", "text/markdown", source="mines", external_id="a.md", run="1"
    )
    assert all(each.is_success for each in (rules, mine)), rules.text + mine.text
    await work()

    for query, of_crew, of_all in (("till", 1, 0), ("swims", 1, 0), ("rope", 2, 1), ("bell", 1, 1), ("mine", 1, 1)):
        for who, wanted in ((colleague, of_crew), (reader, of_all)):
            for mode in ("hybrid", "keyword"):
                found = await who.search(query, mode=mode, similarity_threshold=0.99)
                own = [hit for hit in found["results"] if query in hit["content"]]
                assert (len(own), found["metadata"]["degraded"]) == (wanted, []), (query, mode)
    await send(colleague, f"PATCH /knowledge/entries/{till}", 403, json={"title": "The till"})
    await send(reader, f"GET /knowledge/entries/{till}", 404)
    await send(reader, "POST /knowledge/entries", 403, json=BELL)
    # Readers that change hold for chunks, vectors and former versions at once.
    rules_id = rules.json()["id"]
    await send(creator, f"PATCH /knowledge/assets/{rules_id}", json={"readers": None})
    assert len(await reader.find("swims")) == 1
    await send(creator, f"PATCH /knowledge/entries/{bell}", json={"content": "The bell of the quay is silent."})
    await send(creator, f"PATCH /knowledge/entries/{bell}", json=READERS)
    await send(reader, f"GET /knowledge/entries/{bell}/versions", 404)
    versions = await send(colleague, f"GET /knowledge/entries/{bell}/versions")
    assert len(versions["items"]) >= 2
    rope = await send(reader, f"GET /knowledge/entries/{ropes[0]['id']}")
    assert rope["parent_id"] is None

    saved = {"name": "Ropes", "request": {"query": "rope"}}
    saved_id = (await send(reader, "POST /knowledge/saved-searches", json=saved))["id"]
    ran = await send(reader, f"POST /knowledge/saved-searches/{saved_id}/run")
    note = {"search_id": ran["metadata"]["search_id"], "entry_id": ropes[0]["id"], "relevant": True}
    await quay.services.journal.flush()
    await send(reader, "POST /knowledge/feedback", json=note)
    hook = {"url": "https://example.com/hook"}
    await send(reader, f"POST /knowledge/saved-searches/{saved_id}/subscription", json=hook)
    await send(reader, f"DELETE /knowledge/saved-searches/{saved_id}/subscription")

    every: dict[str, Any] = {"headers": {"X-KB-Access": "all"}}
    await send(admin, "POST /admin/keys", json={"name": "import", "role": "creator"}, **every)
    await send(admin, "PATCH /knowledge/access", json={"where": {"tags": ["sound"]}, "readers": {"set": None}}, **every)
    erasure = await send(admin, "POST /admin/erasures", json={"entry_id": till}, **every)
    await send(admin, "POST /admin/reembed", json={"dimensions": WIDER.dimensions, "switch_at_overlap": None}, **every)
    await work()
    await send(admin, "POST /admin/reembed/switch", **every)
    assert (await send(admin, f"GET /admin/erasures/{erasure['id']}", **every))["state"] == "done"
    assert (await send(admin, "GET /admin/stats", **every))["entries"] >= 4
    await send(admin, "GET /admin/usage", **every)
    await send(creator, f"DELETE /knowledge/entries/{bell}")
    await send(creator, "DELETE /knowledge/sources/mines")
    await quay.services.worker.sweep.run()
    assert await planned_on_workers(quay.cluster) == before


async def test_a_statement_that_citus_plans_is_seen_and_as_a_caller_not_reported_as_an_outage(quay: Quay) -> None:
    """Citus connects to the other nodes as the role of the caller, which may not log in."""
    before = await planned_on_workers(quay.cluster)
    opened = quay.services.database.tenant_session
    with acting_as((EVERYONE,), Rights.ALL):
        await count_through_citus(opened(quay.tenant))
    assert await planned_on_workers(quay.cluster) != before
    with acting_as((EVERYONE,), Rights.WRITE), pytest.raises(asyncpg.PostgresConnectionError, match="permitted to log"):
        await count_through_citus(opened(quay.tenant))


async def count_through_citus(opened: AbstractAsyncContextManager[TenantSession]) -> None:
    async with opened as session:
        session._write = None
        await session.fetch_value(COUNT)
