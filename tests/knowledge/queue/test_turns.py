"""Which job is next: turns of tenants, kinds of work, and paused providers."""

from __future__ import annotations

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.db.queries import jobs as db
from tests.fixtures.database.cluster import connected
from tests.fixtures.workers import MINUTE, claim, expire_leases
from tests.knowledge.queue.queueing import NOW, enqueue


async def test_ten_thousand_files_of_one_tenant_do_not_delay_a_file_of_another(
    services: Services, tenant: Tenant, other_tenant: Tenant, superuser_dsn: str
) -> None:
    """One worker, one job at a time. The next of two tenants is drawn: 64 misses are practically impossible."""
    async with connected(superuser_dsn) as superuser:
        await superuser.execute(
            "insert into jobs (tenant_id, id, kind, subject, run_at, model_id)"
            " select $1, gen_random_uuid(), 'ingest_asset', n::text, now() - interval '1 hour', 1"
            " from generate_series(1, 10000) n",
            tenant.id,
        )
    await enqueue(services, other_tenant, "only")
    for _ in range(64):
        job = await claim(services)
        assert job is not None
        if job.tenant_id == other_tenant.id:
            break
        async with services.database.tenant_session(job.tenant_id) as session:
            assert await db.complete_job(session, job)
    else:
        pytest.fail("the other tenant's job waits for those of the first")


async def test_work_of_one_kind_is_found_after_much_other_work(
    services: Services, tenant: Tenant, superuser_dsn: str
) -> None:
    """More tenants than a claim examines have earlier work of other kinds."""
    async with connected(superuser_dsn) as superuser:
        await superuser.execute(
            "insert into tenants (id, slug, name, model_id)"
            " select gen_random_uuid(), 'busy-' || n, 'Busy', 1 from generate_series(1, 400) n"
        )
        await superuser.execute(
            "insert into jobs (tenant_id, id, kind, subject, run_at, model_id)"
            " select id, gen_random_uuid(), 'embed_entries', 'entries', now() - interval '1 hour', 0 from tenants"
        )
    async with services.database.tenant_session(tenant.id) as session:
        await db.enqueue_job(session, "deliver_webhooks", "webhooks", NOW)
    job = await db.claim_job(services.database, ["deliver_webhooks"], MINUTE)
    assert job is not None
    assert (job.tenant_id, job.kind) == (tenant.id, "deliver_webhooks")
    assert await db.claim_job(services.database, ["deliver_webhooks"], MINUTE) is None


async def test_a_claim_skips_work_of_other_kinds(services: Services, tenant: Tenant, superuser_dsn: str) -> None:
    """It reads few rows and index entries, for any number of jobs of other kinds."""
    async with connected(superuser_dsn) as superuser:
        await superuser.execute(
            "insert into jobs (tenant_id, id, kind, subject, run_at, model_id)"
            " select $1, gen_random_uuid(), 'embed_entries', n::text, now(), 0 from generate_series(1, 3000) n",
            tenant.id,
        )
        await enqueue(services, tenant, "a")
        await superuser.execute("analyze jobs")
        await superuser.execute("select pg_stat_force_next_flush(), pg_stat_reset()")
        claimed = await superuser.fetch(
            "select kind from queue.claim_job(array['refresh_statistics'], interval '1 minute')"
        )
        assert [row["kind"] for row in claimed] == ["refresh_statistics"]
        await superuser.execute("select pg_stat_force_next_flush()")
        read = await superuser.fetchval(
            "select t.seq_tup_read + (select sum(i.idx_tup_read) from pg_stat_user_indexes i where i.relid = t.relid)"
            " from pg_stat_user_tables t where t.relname = 'jobs'"
        )
        assert 0 < read < 100


async def test_tenant_without_running_work_is_first(services: Services, tenant: Tenant, other_tenant: Tenant) -> None:
    await enqueue(services, tenant, *(str(n) for n in range(10)))
    assert await claim(services) is not None
    await enqueue(services, other_tenant, *(str(n) for n in range(10)))
    owners = []
    for _ in range(3):
        job = await claim(services)
        assert job is not None
        owners.append(job.tenant_id)
    assert owners[0] == other_tenant.id
    assert set(owners) == {tenant.id, other_tenant.id}


async def test_paused_provider_delays_only_its_own_work(
    services: Services, tenant: Tenant, other_tenant: Tenant, superuser_dsn: str
) -> None:
    async with connected(superuser_dsn) as superuser:
        other_model = await superuser.fetchval(
            "insert into embedding_models (provider, name, dimensions, max_tokens, similarity_threshold)"
            " values ('openai', 'another', 8, 100, 0.5) returning id"
        )
        await superuser.execute("update tenants set model_id = $1 where id = $2", other_model, other_tenant.id)
    async with services.database.tenant_session(tenant.id) as session:
        await db.enqueue_job(session, "ingest_asset", "a", NOW)
        await db.enqueue_job(session, "embed_entries", "entries", NOW)
        await db.enqueue_job(session, "refresh_statistics", "lexemes", NOW)
    await db.pause_provider(services.database, tenant.id, MINUTE)
    await db.pause_provider(services.database, tenant.id, NOW)
    async with services.database.tenant_session(other_tenant.id) as session:
        await db.enqueue_job(session, "embed_entries", "entries", NOW)
    claimed = set()
    while job := await claim(services):
        claimed.add((job.tenant_id, job.kind))
    assert claimed == {
        (tenant.id, "ingest_asset"),
        (tenant.id, "refresh_statistics"),
        (other_tenant.id, "embed_entries"),
    }
    await expire_leases(superuser_dsn)
    async with connected(superuser_dsn) as superuser:
        await superuser.execute("update embedding_models set paused_until = now()")
    claimed.clear()
    while job := await claim(services):
        claimed.add((job.tenant_id, job.kind))
    assert len(claimed) == 4


async def test_lost_work_of_a_paused_provider_also_waits(
    services: Services, tenant: Tenant, superuser_dsn: str
) -> None:
    async with services.database.tenant_session(tenant.id) as session:
        await db.enqueue_job(session, "embed_entries", "entries", NOW)
    assert await claim(services) is not None
    await expire_leases(superuser_dsn)
    await db.pause_provider(services.database, tenant.id, MINUTE)
    assert await claim(services) is None
