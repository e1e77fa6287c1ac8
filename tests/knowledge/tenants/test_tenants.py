"""Tenants, their limits, and work that is cancelled."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import asdict, fields
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pytest

from app.composition.services import Services, build_services
from app.contract.administration import NewTenant, Tenant
from app.contract.assets import Upload
from app.contract.entries import EntryDraft
from app.contract.search import SearchQuery, Weights
from app.contract.settings import TYPE_WEIGHTS, AllowedLimits, Limits, OwnLimits, SettingsPatch, StoredSettings
from app.db.database import Database
from app.db.queries import tenants
from app.embeddings.provider import approximate_tokens
from app.errors import LONGEST_QUOTA_WAIT, Conflict, EmbeddingQuotaUsed, InvalidInput, RateLimited, TenantNotFound
from app.knowledge.tenants.admission import BODY_BYTES, PARSED_AT_ONCE, Admission
from app.knowledge.tenants.directory import TenantContext, read_settings, require_lower
from tests.fixtures.database.cluster import connected, fetch
from tests.fixtures.providers.failing import FailingProvider
from tests.knowledge.conftest import RunJobs

pytestmark = pytest.mark.own_tenants


async def test_created_tenant_is_listed_and_found(services: Services, tenant: Tenant) -> None:
    other = await services.tenants.create(NewTenant("acme-2"), actor="test")
    assert [t.slug for t in await services.tenants.list_tenants()] == ["first", "acme-2"]
    assert other.name == "acme-2"
    assert await services.tenants.find("first") == tenant
    context = await services.tenants.context(tenant.id)
    assert (context.slug, context.passages, context.indexed) == ("first", 0, False)
    assert context.model == services.provider.model


async def test_slug_is_unique(services: Services, tenant: Tenant) -> None:
    with pytest.raises(Conflict, match="first"):
        await services.tenants.create(NewTenant("first"), actor="test")


async def test_unknown_tenants_are_not_found(services: Services) -> None:
    for act in (
        services.tenants.context(uuid4()),
        *(services.tenants.find(slug) for slug in ("nobody", "", "a\x00", "a\ud800", "F")),
        services.tenants.delete(uuid4(), actor="test"),
        services.tenants.change_settings(uuid4(), SettingsPatch()),
    ):
        with pytest.raises(TenantNotFound):
            await act


async def test_deleted_tenant_is_refused_at_once(services: Services, tenant: Tenant, other_tenant: Tenant) -> None:
    for owner in (tenant, other_tenant):
        await services.entries.create(owner.id, EntryDraft(content="harbour"))
    await services.tenants.delete(tenant.id, actor="test")
    with pytest.raises(TenantNotFound):
        await services.tenants.context(tenant.id)
    assert (await services.administration.stats(other_tenant.id)).entries == 1
    again = await services.tenants.create(NewTenant("first"), actor="test")
    assert (await services.administration.stats(again.id)).entries == 0


async def test_settings_are_merged_reset_and_audited(services: Services, tenant: Tenant) -> None:
    change = services.tenants.change_settings
    await change(tenant.id, SettingsPatch(fusion="score", max_limit=20), actor="anna")
    settings = await change(tenant.id, SettingsPatch(weights=Weights(0.5, 0.5), max_limit=None), actor="anna")
    assert (settings.fusion, settings.max_limit, settings.weights) == ("score", None, Weights(0.5, 0.5))
    assert await services.tenants.read_settings(tenant.id) == settings
    page = await services.administration.audit(tenant.id)
    assert [r.action for r in page.items] == ["settings.update"] * 2


TUNED = {
    "fusion": "score",
    "weights": {"semantic": 0.2, "keyword": 0.8},
    "former": {"semantic": 0.5, "keyword": 0.5},
    "queries": 60,
    "gain": 0.05,
    "low": 0.01,
    "high": 0.09,
}
SETTINGS: dict[str, list[Any]] = {
    "weights": [{"semantic": 1, "keyword": 0}],
    "type_weights": [{}, {"fact": 0.01, "lesson": 100}],
    "similarity_threshold": [0, 1, 0.5],
    "fusion": ["rrf", "score"],
    "verified_boost": [0.01, 100],
    "keep_query_text": [True, False],
    "default_limit": [1, 100],
    "max_limit": [1, 100],
    "limits": [{}, {"entries": 1, "requests_per_minute": 1}],
    "purge_expired_after_days": [0, 36_500],
    "keep_versions_days": [0, 3_650],
    "suspicious_content": ["keep", "flag", "quarantine", None],
    "auto_tune": [True, False],
    "synonyms": [[], ["laptop, notebook", "pc => laptop"]],
    "recent_half_life_days": [0.1, 36_500],
    "adaptive_weights": [True, False],
    "rerank": [True, False, None],
    "tuned": [TUNED],
}
"""For each setting: allowed values at the bounds. Golden files have those that are refused in a request."""


def test_every_setting_is_in_the_table() -> None:
    assert set(SETTINGS) == {field.name for field in fields(StoredSettings)}


@pytest.mark.parametrize("name", SETTINGS)
def test_setting_allows_its_range(name: str) -> None:
    for value in SETTINGS[name]:
        read_settings({name: value})


@pytest.mark.parametrize("tuned", [{}, 7, TUNED | {"fusion": "x"}, TUNED | {"weights": {"semantic": 2, "keyword": 0}}])
def test_tuned_weights_that_no_request_has_are_read_as_strictly(tuned: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_settings({"tuned": tuned})
    assert {e.field.partition(".")[0] for e in caught.value.errors} == {"tuned"}


def test_unknown_settings_are_named_and_type_weights_extend_the_defaults() -> None:
    with pytest.raises(InvalidInput, match="nothing: unknown field"):
        read_settings({"nothing": 1})
    settings = read_settings({"type_weights": {"lesson": 3}})
    assert settings.type_weights == {**TYPE_WEIGHTS, "lesson": 3.0}


async def test_concurrent_changes_of_settings_are_all_kept(services: Services, tenant: Tenant) -> None:
    changes: list[dict[str, Any]] = [
        {"fusion": "score"},
        {"verified_boost": 2.5},
        {"similarity_threshold": 0.4},
        {"default_limit": 7},
        {"max_limit": 44},
        {"keep_query_text": True},
    ]
    await asyncio.gather(
        *(services.tenants.change_settings(tenant.id, SettingsPatch(**change), actor="ada") for change in changes)
    )
    kept = (await services.tenants.context(tenant.id)).settings
    for change in changes:
        for name, value in change.items():
            assert getattr(kept, name) == value


async def test_deletion_is_retried_after_a_deadlock_with_a_write(
    services: Services, tenant: Tenant, superuser_dsn: str
) -> None:
    """The write locks a row that the deletion needs, and then needs the tenant, which the deletion has locked."""
    entry, _ = await services.entries.create(tenant.id, EntryDraft(content="harbour"))
    waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
    async with connected(superuser_dsn) as writer, connected(superuser_dsn) as observer:
        async with writer.transaction():
            await writer.execute("set local deadlock_timeout = '1min'")  # so that the deletion gives way
            await writer.execute("select from entries where id = $1 for update", entry.id)
            deleting = asyncio.create_task(services.tenants.delete(tenant.id, actor="test"))
            async with asyncio.timeout(60):
                while not await observer.fetchval(waiting):  # noqa: ASYNC110 (the server has no event for it)
                    await asyncio.sleep(0.01)
            sql = "insert into audit (tenant_id, id, actor, action) values ($1, $1, 'ada', 'test')"
            await writer.execute(sql, tenant.id)
        await deleting
        assert await observer.fetchval("select count(*) from entries where tenant_id = $1", tenant.id) == 0


TENANT: Any = SimpleNamespace(tenant_id=UUID(int=1), limits=Limits(concurrent_searches=1))
OTHER: Any = SimpleNamespace(tenant_id=UUID(int=2), limits=Limits(concurrent_searches=1))
STEPS = 12
"""Turns of the event loop: more than any of these needs."""
Use = Callable[[Admission, Any], AbstractAsyncContextManager[Any]]


@asynccontextmanager
async def receive(admission: Admission, tenant: Any) -> AsyncIterator[None]:
    async with admission.holding(tenant, BODY_BYTES) as arrival:
        await asyncio.sleep(0)
        await admission.receive(arrival, BODY_BYTES)
        arrival.complete()
        yield


USES: dict[str, tuple[Use, int]] = {
    "search": (lambda admission, tenant: admission.search(tenant), 1),
    "reading": (lambda admission, tenant: admission.reading(tenant), 1),
    "intake": (lambda admission, tenant: admission.intake(tenant, 0), PARSED_AT_ONCE),
    "body": (receive, 1),
    "file": (lambda admission, tenant: admission.storing(tenant, BODY_BYTES), 1),
    "answer": (lambda admission, tenant: admission.answering(tenant, 1 << 40), 1),
}
"""Each with the number of those that fill it."""


def count_held(admission: Admission) -> list[int]:
    return [
        *(turns.taken + turns.waited_for for turns in (admission._turns, admission._readings, admission._intakes)),
        *(b.held(t.tenant_id) for b in (admission._bodies, admission._answers) for t in (TENANT, OTHER)),
        admission._arrivals.held,
        *(queue.elsewhere for queue in admission._intakes._queues.values()),
    ]


@pytest.mark.parametrize("name", USES)
async def test_work_that_is_cancelled_at_any_step_holds_nothing(name: str) -> None:
    use, most = USES[name]
    admission = Admission(crowd=1)

    async def work(tenant: Any) -> None:
        async with use(admission, tenant):
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    for before in range(STEPS):
        for callers in ([TENANT] * (most + 2), [TENANT] * (most + 1) + [OTHER] * (most + 1)):
            for victim in range(len(callers)):
                tasks = [asyncio.ensure_future(work(tenant)) for tenant in callers]
                for _ in range(before):
                    await asyncio.sleep(0)
                tasks[victim].cancel()
                await asyncio.wait(tasks)
                ended = [task.cancelled() or task.exception() for n, task in enumerate(tasks) if n != victim]
                assert not any(ended), (before, victim)
                assert not any(count_held(admission)), (before, victim)


async def test_a_wait_for_a_share_of_the_loop_that_is_cancelled_at_any_step_lets_the_next_pass() -> None:
    admission = Admission()
    for tenant in (TENANT, OTHER):
        admission._intakes.note(tenant.tenant_id)
    loop = admission._loop

    async def work() -> None:
        await loop.wait(TENANT.tenant_id)
        try:
            await asyncio.sleep(0)
        finally:
            loop.leave(TENANT.tenant_id)

    for before in range(STEPS):
        for victim in range(3):
            tasks = [asyncio.ensure_future(work()) for _ in range(3)]
            for _ in range(before):
                await asyncio.sleep(0)
            tasks[victim].cancel()
            await asyncio.wait(tasks, timeout=60)
            assert all(task.done() for task in tasks), (before, victim)
            account = loop._accounts.get(TENANT.tenant_id)
            assert account is None or (account.passing, list(account.waiting)) == (0, [])


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
    acts = await fetch(
        superuser_dsn, "select actor, detail::text from platform_audit where action = 'tenant.limits' order by id"
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
        used = await superuser.fetchval("select tokens from usage_by_day where tenant_id = $1", tenant.id)
        assert used == approximate_tokens([first])
        await superuser.execute("update usage_by_day set day = day - 1")
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
