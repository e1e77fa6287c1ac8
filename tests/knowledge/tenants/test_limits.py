"""Limits of a tenant, enforced by the services."""

import asyncio
import contextlib
from dataclasses import asdict
from typing import Any

import pytest

from app.composition.services import Services, build_services
from app.contract.administration import NewTenant, Tenant
from app.contract.assets import Upload
from app.contract.entries import EntryDraft
from app.contract.search import SearchQuery
from app.contract.settings import AllowedLimits, Limits, OwnLimits, TenantPatch
from app.contract.validation import validate
from app.db.database import Database
from app.db.queries import tenants
from app.embeddings.provider import approximate_tokens
from app.errors import LONGEST_QUOTA_WAIT, EmbeddingQuotaUsed, InvalidInput, RateLimited
from app.knowledge.tenants.admission import PARSED_AT_ONCE, Admission
from app.knowledge.tenants.directory import TenantContext, require_lower
from tests.fixtures.database.cluster import connected
from tests.fixtures.providers.failing import FailingProvider
from tests.knowledge.conftest import RunJobs

pytestmark = pytest.mark.own_tenants


async def allow(services: Services, tenant: Tenant, **limits: int | None) -> TenantContext:
    await services.tenants.change_limits(tenant.id, AllowedLimits(**limits), actor="test")
    return await services.tenants.context(tenant.id)


def test_the_lower_of_tenant_and_platform_limits_applies() -> None:
    defaults = Limits(entries=100, bytes=0, concurrent_searches=4)
    allowed = defaults.replaced({"entries": 50, "concurrent_searches": 0})
    assert (allowed.entries, allowed.bytes, allowed.concurrent_searches) == (50, 0, 0)
    limits = allowed.lowered(OwnLimits(entries=60, bytes=7, concurrent_searches=2))
    assert (limits.entries, limits.bytes, limits.concurrent_searches) == (50, 7, 2)
    require_lower({"entries": 50, "bytes": 10**9, "concurrent_searches": None}, allowed)
    with pytest.raises(InvalidInput, match="at most 50"):
        require_lower({"entries": 51}, allowed)


@pytest.mark.parametrize("given", [[], "x", {"novel": 1}, {"entries": 1.0}, {"entries": True}, {"entries": -1}])
def test_invalid_limits_are_refused_by_name(given: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        validate(TenantPatch, {"limits": given})
    name = f"limits.{next(iter(given))}" if isinstance(given, dict) else "limits"
    assert [error.field for error in refused.value.errors] == [name]


def test_tokens_are_counted_by_bytes() -> None:
    assert approximate_tokens(["", "a", "abcd", "abcde"]) == 4
    assert approximate_tokens(["ääää"]) == 2
    assert approximate_tokens(["\ud800"]) == 1


async def test_platform_limits_of_a_tenant_can_be_set_and_removed(
    services: Services, tenant: Tenant, superuser_dsn: str
) -> None:
    assert (await allow(services, tenant, entries=5, bytes=0)).limits.entries == 5
    changed = await services.tenants.change_limits(tenant.id, AllowedLimits(bytes=9), actor="paula")
    assert {name: limit for name, limit in asdict(changed).items() if limit is not None} == {"entries": 5, "bytes": 9}
    assert (await allow(services, tenant, entries=None)).limits.entries == 0
    async with connected(superuser_dsn) as superuser:
        acts = await superuser.fetch(
            "select actor, detail::text from platform_audit where action = 'tenant.limits' order by id"
        )
    assert [tuple(act) for act in acts][1] == ("paula", '{"bytes": 9}')
    assert len(acts) == 3


async def test_the_service_cannot_change_limits_as_a_tenant(
    services: Services, tenant: Tenant, service_dsn: str
) -> None:
    await allow(services, tenant, entries=5)
    async with connected(service_dsn) as service, service.transaction():
        await service.execute("select set_config('app.current_tenant', $1, true)", str(tenant.id))
        with pytest.raises(Exception, match="permission denied"):
            await service.execute("update tenants set limits = '{}'")


async def test_concurrent_writers_together_stay_within_the_limit(services: Services, tenant: Tenant) -> None:
    await allow(services, tenant, entries=7)
    many = [
        services.entries.create_many(tenant.id, [EntryDraft(content=f"{n} {m}") for m in range(3)]) for n in range(5)
    ]
    results = [result for batch in await asyncio.gather(*many) for result in batch]
    assert sorted(r.status for r in results) == ["created"] * 7 + ["failed"] * 8
    async with services.database.tenant_session(tenant.id) as session:
        assert (await tenants.fetch_stored(session)).entries == 7


async def test_stored_bytes_are_updated_with_the_files(services: Services, tenant: Tenant, run_jobs: RunJobs) -> None:
    async def stored() -> int:
        async with services.database.tenant_session(tenant.id) as session:
            return (await tenants.fetch_stored(session)).bytes

    asset, _ = await services.assets.upload(tenant.id, Upload("a.txt", b"x" * 10, external_id="a"))
    assert await stored() == 10
    await services.assets.upload(tenant.id, Upload("a.txt", b"y" * 25, external_id="a"))
    assert await stored() == 25
    await run_jobs()
    assert await stored() == 50
    await services.assets.delete(tenant.id, asset.id)
    assert await stored() == 0


async def test_texts_wait_for_the_next_day_after_the_token_limit(
    services: Services,
    tenant: Tenant,
    other_tenant: Tenant,
    failing_provider: FailingProvider,
    run_jobs: RunJobs,
    superuser_dsn: str,
) -> None:
    await allow(services, tenant, embedding_tokens_per_day=4)
    contents = ["the first of the texts", "the second of the texts", "the third of the texts"]
    await services.entries.create_many(tenant.id, [EntryDraft(content=content) for content in contents])
    await services.entries.create_many(other_tenant.id, [EntryDraft(content="another's text")])
    assert await services.worker.run_once()
    assert await services.worker.run_once()
    # One text is embedded and reaches the daily limit; no other request waits for it.
    first, *others = sorted(failing_provider.documents, key="another's text".__eq__)
    assert first in contents
    assert others == ["another's text"]
    async with connected(superuser_dsn) as superuser:
        job = await superuser.fetchrow(
            "select attempts, postponed, run_at - clock_timestamp() as wait from jobs where tenant_id = $1", tenant.id
        )
        assert job is not None
        assert (job["attempts"], job["postponed"]) == (0, 0)
        assert 0 < job["wait"].total_seconds() <= LONGEST_QUOTA_WAIT
        assert await superuser.fetchval("select count(*) from embedding_models where paused_until is not null") == 0
        used = await superuser.fetchval("select tokens from embedding_usage where tenant_id = $1", tenant.id)
        assert used == approximate_tokens([first])
        await superuser.execute("update embedding_usage set day = day - 1")
    await run_jobs()
    await run_jobs()
    assert len(failing_provider.documents) == 3
    await allow(services, tenant, embedding_tokens_per_day=None)
    await run_jobs()
    assert set(failing_provider.documents) == {*contents, "another's text"}


async def test_a_document_is_indexed_for_keyword_search_after_the_token_limit(
    services: Services, tenant: Tenant, failing_provider: FailingProvider, run_jobs: RunJobs
) -> None:
    await allow(services, tenant, embedding_tokens_per_day=1)
    await services.entries.create(tenant.id, EntryDraft(content="uses the day up"))
    asset, _ = await services.assets.upload(tenant.id, Upload("a.md", b"# Harbour\n\nBoats lie here."))
    assert await services.worker.run_once()
    assert (await services.assets.get(tenant.id, asset.id)).status == "indexed"
    found = await services.search.search(tenant.id, SearchQuery(query="boats"))
    assert [hit.asset_id for hit in found] == [asset.id]
    assert failing_provider.documents == ["uses the day up"]
    await allow(services, tenant, embedding_tokens_per_day=None)
    await run_jobs()
    assert len(failing_provider.documents) == 2
    async with services.database.tenant_session(tenant.id) as session:
        assert await tenants.fetch_tokens(session) > approximate_tokens(["uses the day up"])


async def test_query_tokens_are_counted_and_written_with_the_journal(
    services: Services, tenant: Tenant, failing_provider: FailingProvider
) -> None:
    context = await allow(services, tenant, embedding_tokens_per_day=5)
    await services.search.search(tenant.id, SearchQuery(query="twelve bytes"))
    assert services.journal.meter.unwritten(tenant.id) == 3
    await services.journal.flush()
    assert services.journal.meter.unwritten(tenant.id) == 0
    services.tenants.forget(tenant.id)
    assert (await services.tenants.context(tenant.id)).tokens_today == 3
    await services.search.search(tenant.id, SearchQuery(query="8 bytes."))
    answer = await services.search.search(tenant.id, SearchQuery(query="refused"))
    assert answer.metadata.degraded == ["quota_exhausted"]
    assert failing_provider.queries == ["twelve bytes", "8 bytes."]
    services.journal.meter.count(tenant.id, 25)
    with pytest.raises(EmbeddingQuotaUsed) as refused:
        services.journal.meter.require(context)
    assert 0 < (refused.value.retry_after or 0) <= LONGEST_QUOTA_WAIT


async def test_searches_beyond_the_limit_wait_and_too_many_are_refused(services: Services, tenant: Tenant) -> None:
    context = await allow(services, tenant, concurrent_searches=1)
    admission = Admission(waiting=1, patience=0.01)
    async with admission.search(context):
        assert admission.used(context)["concurrent_searches"] == 1
        with pytest.raises(RateLimited, match="concurrent_searches") as refused:
            async with admission.search(context):
                pass
        assert (refused.value.limit, refused.value.retry_after) == ("concurrent_searches", 1.0)
    admission = Admission(waiting=1)
    async with admission.search(context):
        second = asyncio.create_task(_pass_through(admission, context))
        await asyncio.sleep(0)
        with pytest.raises(RateLimited):
            async with admission.search(context):
                pass
    await second


async def _pass_through(admission: Admission, context: TenantContext) -> None:
    async with admission.search(context):
        pass


async def test_only_so_many_bodies_of_a_tenant_are_parsed_at_once(services: Services, tenant: Tenant) -> None:
    admission = Admission(patience=0.01)
    context = await services.tenants.context(tenant.id)
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(PARSED_AT_ONCE):
            await stack.enter_async_context(admission.intake(context, 10))
        with pytest.raises(RateLimited, match="concurrent_requests"):
            await stack.enter_async_context(admission.intake(context, 10))
    async with admission.intake(context, 10):
        pass


async def test_request_allowance_refills_over_time(services: Services, tenant: Tenant) -> None:
    now = 0.0
    admission = Admission(clock=lambda: now)
    context = await allow(services, tenant, requests_per_minute=2)
    admission.admit(context)
    admission.admit(context)
    with pytest.raises(RateLimited) as refused:
        admission.admit(context)
    assert refused.value.retry_after == pytest.approx(30)
    now = 30.001
    admission.admit(context)
    assert admission.used(context)["requests_per_minute"] == 2
    now = 1000.0
    assert admission.used(context)["requests_per_minute"] == 0


async def test_default_limits_of_the_service_apply_to_every_tenant(
    database: Database, failing_provider: FailingProvider
) -> None:
    services = await build_services(database, failing_provider, limits=Limits(entries=1))
    tenant = await services.tenants.create(NewTenant("limited"), actor="test")
    await services.entries.create(tenant.id, EntryDraft(content="one"))
    with pytest.raises(RateLimited, match="limit of 1 entries"):
        await services.entries.create(tenant.id, EntryDraft(content="two"))
    await allow(services, tenant, entries=0)
    await services.entries.create(tenant.id, EntryDraft(content="two"))


async def test_many_readers_of_one_tenant_do_not_block_another_tenant(
    services: Services, tenant: Tenant, other_tenant: Tenant
) -> None:
    admission = Admission(crowd=2, patience=0.05)
    one, other = [await services.tenants.context(t.id) for t in (tenant, other_tenant)]
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(admission.search(other))
        await stack.enter_async_context(admission.reading(one))
        with pytest.raises(RateLimited) as refused:
            await stack.enter_async_context(admission.reading(one))
        assert refused.value.limit == "concurrent_requests"
        async with admission.search(one):
            pass
    async with admission.reading(one):
        pass


async def test_searches_of_a_batch_are_counted_after_the_request(services: Services, tenant: Tenant) -> None:
    now = 0.0
    admission = Admission(clock=lambda: now)
    context = await allow(services, tenant, requests_per_minute=6)
    admission.admit(context)
    admission.charge(context, 31)
    with pytest.raises(RateLimited) as refused:
        admission.admit(context)
    assert refused.value.retry_after == pytest.approx(270)
    assert admission.used(context)["requests_per_minute"] == 32
    now = 271.0
    admission.admit(context)
