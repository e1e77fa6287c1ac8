"""Who may subscribe and for how long: owners, their rights, and the tenant's admin."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from app.contract.saved_searches import NewSavedSearch
from app.errors import Conflict, InvalidInput, SavedSearchNotFound, SubscriptionNotFound
from app.knowledge.subscriptions import service as subscriptions
from app.knowledge.subscriptions.webhooks import SecretSealer
from tests.knowledge.subscriptions.subscribing import OWNER, Desk


async def test_deliveries_wait_while_the_owner_may_not_read(desk: Desk) -> None:
    service = desk.services.subscriptions
    saved = await desk.subscribe(query="harbour", mode="keyword")
    service.note_caller(desk.tenant.id, "another subject", reads=False)
    service.note_caller(desk.tenant.id, OWNER, reads=False)
    await service.close()
    assert (await service.get(desk.tenant.id, OWNER, saved)).state == "paused"
    await desk.write("The harbour")
    await desk.work()
    assert desk.endpoint.received == []
    assert (await service.get(desk.tenant.id, OWNER, saved)).waiting == 1
    service.note_caller(desk.tenant.id, OWNER, reads=True)
    await service.close()
    await desk.work()
    assert desk.contents == ["The harbour"]
    assert (await service.get(desk.tenant.id, OWNER, saved)).state == "active"


async def test_an_inactive_owner_loses_the_subscription(desk: Desk) -> None:
    service = desk.services.subscriptions
    saved = await desk.subscribe(query="harbour", mode="keyword")
    rights = (await service.get(desk.tenant.id, OWNER, saved)).rights_until
    assert timedelta(days=6) < rights - datetime.now(UTC) < timedelta(days=8)
    await desk.sql("update subscriptions set rights_until = now() - interval '1 minute'")
    await desk.services.worker.sweep.run()
    assert (await service.get(desk.tenant.id, OWNER, saved)).state == "paused"
    await desk.sql("update subscriptions set rights_until = now() - interval '8 days'")
    await desk.services.worker.sweep.run()
    after = await service.get(desk.tenant.id, OWNER, saved)
    assert (after.state, after.last_error) == ("disabled", "the owner has not called for too long")
    await desk.subscribe(query="harbour", mode="keyword")
    assert (await service.get(desk.tenant.id, OWNER, saved)).state == "active"


async def test_a_callers_rights_are_recorded_once_an_hour(desk: Desk) -> None:
    now = 0.0
    service = subscriptions.SubscriptionService(
        desk.services.database,
        desk.services.trail,
        desk.services.jobs,
        SecretSealer(),
        allow_private=True,
        clock=lambda: now,
    )
    await desk.subscribe(query="harbour")
    for now, changed in ((0.0, True), (3_599.0, False), (3_600.0, True)):
        await desk.sql("update subscriptions set rights_until = 'epoch'")
        service.note_caller(desk.tenant.id, OWNER, reads=True)
        await service.close()
        assert await desk.sql("select rights_until > now() from subscriptions") == [changed], now
        assert await desk.sql("select rights_until < now() + interval '8 days' from subscriptions") == [True]


async def test_an_invalid_saved_search_matches_nothing_and_does_not_affect_others(desk: Desk) -> None:
    await desk.subscribe(name="stale", query="harbour", query_embedding=[1.0] * 16)
    await desk.sql('update saved_searches set request = \'{"query": "harbour", "query_embedding": [1, 0]}\'')
    await desk.subscribe(name="good", query="harbour", mode="keyword")
    await desk.write("The harbour")
    await desk.work()
    (received,) = desk.endpoint.received
    assert received.message["data"]["saved_search"]["name"] == "good"


async def test_a_subscription_needs_an_own_saved_search_and_a_public_address(desk: Desk) -> None:
    service = desk.services.subscriptions
    saved, _ = await desk.services.saved_searches.save(desk.tenant.id, OWNER, NewSavedSearch("n", {"query": "harbour"}))
    with pytest.raises(SavedSearchNotFound):
        await service.subscribe(desk.tenant.id, "berta", saved.id, "https://example.com")
    strict = subscriptions.SubscriptionService(
        desk.services.database, desk.services.trail, desk.services.jobs, SecretSealer()
    )
    with pytest.raises(InvalidInput, match="must resolve to a public address"):
        await strict.subscribe(desk.tenant.id, OWNER, saved.id, desk.endpoint.url)
    with pytest.raises(InvalidInput, match="secret"):
        await service.subscribe(desk.tenant.id, OWNER, saved.id, "https://example.com", "whsec_x")
    for owner, identifier in ((OWNER, saved.id), ("berta", saved.id), (OWNER, uuid4())):
        with pytest.raises(SubscriptionNotFound):
            await service.get(desk.tenant.id, owner, identifier)


async def test_subscribing_again_replaces_address_and_secret(desk: Desk) -> None:
    service = desk.services.subscriptions
    saved = await desk.subscribe(query="harbour", mode="keyword")
    secret = "whsec_" + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    again, new = await service.subscribe(desk.tenant.id, OWNER, saved, desk.endpoint.url + "&again=1", secret)
    assert (new, again.secret) == (False, secret)
    await desk.confirm()
    await desk.write("The harbour")
    await desk.work()
    (received,) = desk.endpoint.received
    assert received.path.endswith("&again=1")
    assert received.is_signed_with(secret)


async def test_the_number_of_subscriptions_of_a_tenant_is_limited(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "MAX_SUBSCRIPTIONS", 2)
    for name in ("a", "b"):
        await desk.subscribe(name=name, query="harbour")
    with pytest.raises(Conflict, match="2 subscriptions"):
        await desk.subscribe(name="c", query="harbour")
    await desk.subscribe(name="b", query="harbour")


async def test_simultaneous_subscriptions_do_not_pass_the_limit(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "MAX_SUBSCRIPTIONS", 2)
    saving = desk.services.saved_searches.save
    saved = [
        (await saving(desk.tenant.id, OWNER, NewSavedSearch(name, {"query": "harbour"})))[0].id
        for name in ("a", "b", "c", "d", "e")
    ]
    subscribe = desk.services.subscriptions.subscribe
    made = await asyncio.gather(
        *(subscribe(desk.tenant.id, OWNER, id_, desk.endpoint.url) for id_ in saved), return_exceptions=True
    )
    assert sum(not isinstance(outcome, BaseException) for outcome in made) == 2
    assert sum(isinstance(outcome, Conflict) for outcome in made) == 3


async def test_the_number_of_subscriptions_for_one_host_is_limited(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "MAX_OF_A_HOST", 2)
    for name in ("a", "b"):
        saved = await desk.subscribe(name=name, query="harbour")
    with pytest.raises(Conflict, match="2 subscriptions with this host"):
        await desk.subscribe(name="c", query="harbour")
    other, _ = await desk.services.saved_searches.save(desk.tenant.id, OWNER, NewSavedSearch("d", {"query": "harbour"}))
    for url in ("https://127.0.0.1/other", "http://127.0.0.1.:81/"):
        with pytest.raises(Conflict, match="2 subscriptions with this host"):
            await desk.services.subscriptions.subscribe(desk.tenant.id, OWNER, other.id, url)
    await desk.sql("update subscriptions set url = 'https://elsewhere.example/' where saved_search_id = $1", saved)
    await desk.subscribe(name="c", query="harbour")


async def test_admins_see_all_subscriptions_without_keys_and_may_end_them(desk: Desk) -> None:
    service = desk.services.subscriptions
    saved: list[UUID] = [await desk.subscribe(owner=o, query="harbour") for o in ("anna", "berta", "carla")]
    page = await service.list_subscriptions(desk.tenant.id, limit=2)
    rest = await service.list_subscriptions(desk.tenant.id, limit=2, cursor=page.next_cursor)
    seen = [*page.items, *rest.items]
    assert [s.owner for s in seen] == ["carla", "berta", "anna"]
    assert {s.url for s in seen} == {"127.0.0.1"}
    assert not any(hasattr(s, "secret") for s in seen)
    with pytest.raises(SubscriptionNotFound):
        await service.delete(desk.tenant.id, saved[0], actor="berta", owner="berta")
    await service.delete(desk.tenant.id, saved[0], actor="admin")
    assert [s.owner for s in (await service.list_subscriptions(desk.tenant.id)).items] == ["carla", "berta"]
