"""Tenants, and work that is cancelled."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import fields
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pytest

from app.composition.services import Services
from app.contract.administration import NewTenant, Tenant
from app.contract.entries import EntryDraft
from app.contract.search import Weights
from app.contract.settings import TYPE_WEIGHTS, Limits, SettingsPatch, StoredSettings
from app.errors import Conflict, InvalidInput, TenantNotFound
from app.knowledge.tenants.admission import BODY_BYTES, PARSED_AT_ONCE, Admission
from app.knowledge.tenants.directory import read_settings
from tests.fixtures.database.cluster import connected

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


async def test_names_out_of_range_are_refused(services: Services) -> None:
    for slug in ("", "-a", "A", "a b", "a" * 64, "ä", "a\n", "a\x00"):
        with pytest.raises(InvalidInput, match="slug: "):
            await services.tenants.create(NewTenant(slug), actor="test")
    for name in ("", "  ", "x" * 201, "a\x00", "a\ud800"):
        with pytest.raises(InvalidInput, match="name: "):
            await services.tenants.create(NewTenant("fine", name), actor="test")
    assert await services.tenants.list_tenants() == []


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
SETTINGS: dict[str, tuple[list[Any], list[Any]]] = {
    "weights": ([{"semantic": 1, "keyword": 0}], [{"semantic": 1}, {"semantic": 1, "keyword": 1}, 7, "x", {}]),
    "type_weights": ([{}, {"fact": 0.01, "lesson": 100}], [{"x": 1}, {"fact": 0}, {"fact": "1"}, {"fact": True}, 7]),
    "similarity_threshold": ([0, 1, 0.5], [-0.1, 1.1, float("nan"), True, "1"]),
    "fusion": (["rrf", "score"], ["x", 1, ["rrf"]]),
    "verified_boost": ([0.01, 100], [0, 101, float("inf"), False]),
    "keep_query_text": ([True, False], [0, "true"]),
    "default_limit": ([1, 100], [0, 101, 1.5, True, "1"]),
    "max_limit": ([1, 100], [0, 101, 1.5, True, "1"]),
    "limits": (
        [{}, {"entries": 1, "requests_per_minute": 1}],
        [{"entries": 0}, {"entries": 1.5}, {"x": 1}, {"bytes": True}, 7],
    ),
    "purge_expired_after_days": ([0, 36_500], [-1, 36_501, 1.5, True, "1"]),
    "keep_versions_days": ([0, 3_650], [-1, 3_651, 1.5, True, "1"]),
    "suspicious_content": (["keep", "flag", "quarantine", None], ["", "drop", True]),
    "auto_tune": ([True, False], [0, "true"]),
    "rerank": ([True, False, None], [0, "true"]),
    "tuned": ([TUNED], [{}, 7, TUNED | {"fusion": "x"}, TUNED | {"weights": {"semantic": 2, "keyword": 0}}]),
}  # fmt: skip


def test_every_setting_is_in_the_table() -> None:
    assert set(SETTINGS) == {field.name for field in fields(StoredSettings)}


@pytest.mark.parametrize("name", SETTINGS)
def test_setting_allows_its_range_and_refuses_the_rest(name: str) -> None:
    allowed, refused = SETTINGS[name]
    for value in allowed:
        read_settings({name: value})
    for value in refused:
        with pytest.raises(InvalidInput) as caught:
            read_settings({name: value})
        assert {e.field.partition(".")[0] for e in caught.value.errors} == {name}, value


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
        for tenants in ([TENANT] * (most + 2), [TENANT] * (most + 1) + [OTHER] * (most + 1)):
            for victim in range(len(tenants)):
                tasks = [asyncio.ensure_future(work(tenant)) for tenant in tenants]
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
