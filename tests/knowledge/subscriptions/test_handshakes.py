"""Handshakes, and the rights of owners."""

import asyncio
import contextlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from app.contract.saved_searches import NewSavedSearch, Subscription, SubscriptionWithSecret
from app.db.queries import deliveries
from app.errors import Conflict, InvalidInput, SavedSearchNotFound, SubscriptionNotFound
from app.knowledge.subscriptions import service as subscriptions
from app.knowledge.subscriptions.deliveries import PAUSES
from app.knowledge.subscriptions.webhooks import (
    MAX_ECHO,
    SecretSealer,
    SendPace,
    Targets,
    WebhookSender,
    is_echo,
    make_secret,
)
from tests.knowledge.subscriptions.endpoint import ANYWHERE, Received, resolving
from tests.knowledge.subscriptions.subscribing import OWNER, Desk


async def subscribe(desk: Desk, url: str | None = None) -> tuple[UUID, SubscriptionWithSecret]:
    """A subscription whose endpoint has not been asked yet."""
    saved, _ = await desk.services.saved_searches.save(
        desk.tenant.id, OWNER, NewSavedSearch("mine", {"query": "harbour", "mode": "keyword"})
    )
    made, _ = await desk.services.subscriptions.subscribe(desk.tenant.id, OWNER, saved.id, url or desk.endpoint.url)
    return saved.id, made


async def find(desk: Desk, saved: UUID) -> Subscription:
    return await desk.services.subscriptions.get(desk.tenant.id, OWNER, saved)


async def test_an_endpoint_gets_its_messages_after_it_has_answered_the_challenge(desk: Desk) -> None:
    saved, made = await subscribe(desk)
    assert (made.confirmation, made.confirmed_at) == ("pending", None)
    desk.endpoint.agree = lambda _: ("200 OK", "hello")
    await desk.write("The harbour")
    await desk.work()
    assert desk.endpoint.received == []
    found = await find(desk, saved)
    assert (found.confirmation, found.waiting, found.failures) == ("pending", 1, 0)
    assert found.last_error == "the endpoint did not answer with the challenge"
    (asked,) = desk.endpoint.challenges
    assert asked.is_signed_with(made.secret)
    assert asked.message["data"]["saved_search"] == {"id": str(saved), "name": "mine"}
    desk.endpoint.agree = lambda asked: ("200 OK", f'{{"challenge": "{asked.challenge}"}}')
    await desk.hasten()
    assert desk.endpoint.challenges[1].challenge != asked.challenge
    assert desk.contents == ["The harbour"], "what matched in the meantime is sent"
    found = await find(desk, saved)
    assert (found.confirmation, found.last_error) == ("confirmed", None)
    assert found.confirmed_at is not None


@pytest.mark.parametrize(
    "agree",
    [
        lambda asked: ("200 OK", ""),
        lambda asked: ("200 OK", asked.body.decode()),
        lambda asked: ("200 OK", asked.challenge + "x"),
        lambda asked: ("200 OK", " " * MAX_ECHO + asked.challenge),
        lambda asked: ("200 OK", f'{{"challenge": ["{asked.challenge}"]}}'),
        lambda asked: ("403 Forbidden", asked.challenge),
        lambda asked: ("302 Found\r\nlocation: /other", asked.challenge),
        lambda asked: None,
    ],
    ids=["empty", "echo of everything", "longer", "too far", "list", "status", "redirect", "closed"],
)
async def test_another_answer_than_the_challenge_confirms_nothing(desk: Desk, agree: Any) -> None:
    saved, _ = await subscribe(desk)
    desk.endpoint.agree = agree
    await desk.work()
    assert len(desk.endpoint.challenges) == 1
    found = await find(desk, saved)
    assert found.confirmation == "pending"
    assert found.last_error


async def test_an_endpoint_that_does_not_agree_is_refused_after_five_challenges(desk: Desk) -> None:
    saved, _ = await subscribe(desk)
    desk.endpoint.agree = lambda _: ("500 Oh", "")
    await desk.work()
    waits = "select extract(epoch from challenge_at - clock_timestamp())::float8 from subscriptions"
    for number, pause in enumerate(PAUSES, start=1):
        assert len(desk.endpoint.challenges) == number
        assert 0 < (await desk.sql(waits))[0] <= pause
        assert (await find(desk, saved)).confirmation == "pending"
        await desk.work()
        assert len(desk.endpoint.challenges) == number, "not before its time"
        await desk.hasten()
    found = await find(desk, saved)
    assert (found.confirmation, found.last_error) == ("refused", "the endpoint answered 500")
    await desk.write("The harbour")
    await desk.hasten()
    assert len(desk.endpoint.challenges) == len(PAUSES) + 1
    assert await desk.states() == []
    assert await desk.sql("select count(*) from entry_changes") == [0]


async def test_an_endpoint_cannot_delay_its_challenges_for_long(desk: Desk) -> None:
    await subscribe(desk)
    desk.endpoint.agree = lambda _: ("503 Busy\r\nretry-after: 86400", "")
    await desk.work()
    waits = "select extract(epoch from challenge_at - clock_timestamp())::float8 from subscriptions"
    assert PAUSES[-2] < (await desk.sql(waits))[0] <= PAUSES[-1]


async def test_an_owner_asks_again_at_most_once_a_minute(desk: Desk) -> None:
    saved, _ = await subscribe(desk)
    service = desk.services.subscriptions
    desk.endpoint.agree = lambda _: ("410 Gone", "")
    await desk.work()
    assert (await find(desk, saved)).confirmation == "refused"
    desk.endpoint.agree = lambda asked: ("200 OK", asked.challenge)
    for _ in range(3):
        assert (await service.ask_again(desk.tenant.id, OWNER, saved)).confirmation == "pending"
    await desk.work()
    assert len(desk.endpoint.challenges) == 1, "a minute has not passed"
    await desk.subscribe_again(saved)
    await desk.work()
    assert len(desk.endpoint.challenges) == 1, "nor by a new subscription for the same address"
    await desk.sql("update subscriptions set challenged_at = now() - interval '1 minute'")
    await service.ask_again(desk.tenant.id, OWNER, saved)
    await desk.hasten()
    assert (await find(desk, saved)).confirmation == "confirmed"
    assert (await service.ask_again(desk.tenant.id, OWNER, saved)).confirmation == "confirmed"
    await desk.hasten()
    assert len(desk.endpoint.challenges) == 2
    with pytest.raises(SubscriptionNotFound):
        await service.ask_again(desk.tenant.id, "other", saved)
    assert await desk.sql("select count(*) from audit where action = 'subscription.confirm' and outcome = 'done'") == [
        1
    ]


async def test_a_new_address_is_asked_and_the_same_one_is_not(desk: Desk) -> None:
    saved, _ = await subscribe(desk)
    await desk.work()
    assert (await find(desk, saved)).confirmation == "confirmed"
    await desk.subscribe_again(saved)
    assert (await find(desk, saved)).confirmation == "confirmed"
    await desk.services.subscriptions.subscribe(desk.tenant.id, OWNER, saved, f"{desk.endpoint.url}&new=1")
    assert (await find(desk, saved)).confirmation == "pending"
    await desk.work()
    assert [asked.path[-5:] for asked in desk.endpoint.challenges] == ["y=abc", "new=1"]
    assert (await find(desk, saved)).confirmation == "confirmed"
    await desk.sql("update subscriptions set state = 'disabled'")
    await desk.services.subscriptions.subscribe(desk.tenant.id, OWNER, saved, f"{desk.endpoint.url}&new=1")
    assert (await find(desk, saved)).confirmation == "pending", "it has not been in use"


async def test_an_answer_of_the_former_address_does_not_confirm_the_new_one(desk: Desk) -> None:
    saved, _ = await subscribe(desk)
    other = f"{desk.endpoint.url}&new=1"

    async def change(asked: Received) -> None:
        await desk.sql("update subscriptions set url = $1", other)

    desk.endpoint.before_agreeing = change
    await desk.work()
    found = await find(desk, saved)
    assert (found.url, found.confirmation) == (other, "pending")


async def test_a_late_answer_changes_nothing_after_another_one(desk: Desk) -> None:
    saved, _ = await subscribe(desk)

    async def confirm(asked: Received) -> None:
        await desk.confirm()

    desk.endpoint.before_agreeing = confirm
    desk.endpoint.agree = lambda _: ("410 Gone", "")
    await desk.work()
    found = await find(desk, saved)
    assert (found.confirmation, found.last_error) == ("confirmed", None)


async def test_a_challenge_that_was_not_sent_is_postponed_for_its_address_only(desk: Desk) -> None:
    saved, _ = await subscribe(desk)
    async with desk.services.database.tenant_session(desk.tenant.id) as session:
        (claimed,) = await deliveries.claim_handshakes(session, limit=1, lease=timedelta(minutes=1))
    due = "select challenge_at from subscriptions"
    other = f"{desk.endpoint.url}&new=1"
    await desk.services.subscriptions.subscribe(desk.tenant.id, OWNER, saved, other)
    before = await desk.sql(due)
    for url, moved in ((claimed.url, False), (other, True)):
        async with desk.services.database.tenant_session(desk.tenant.id) as session:
            await deliveries.postpone_handshakes(session, [(replace(claimed, url=url), timedelta(hours=1))])
        assert (await desk.sql(due) != before) is moved


async def test_only_its_owner_schedules_a_challenge(desk: Desk) -> None:
    saved, _ = await subscribe(desk)
    async with desk.services.database.tenant_session(desk.tenant.id) as session:
        for owner, asked in (("other", False), (OWNER, True)):
            assert await deliveries.ask_again(session, saved, owner, timedelta(0)) is asked


async def test_a_disabled_subscription_gets_neither_challenges_nor_messages(desk: Desk) -> None:
    await subscribe(desk)
    await desk.write("The harbour")
    await desk.match()
    database, sender = desk.services.database, WebhookSender(ANYWHERE)
    # Other tests have used the turns of this address.
    pace = SendPace(database, 1_000_000)
    service = desk.deliverer(sender, pace, database=database)
    for confirmation in ("pending", "confirmed"):
        await desk.sql("update subscriptions set state = 'disabled', confirmation = $1", confirmation)
        await service.deliver(desk.tenant.id)
        assert (desk.endpoint.challenges, desk.endpoint.received) == ([], [])
    await desk.sql("update subscriptions set state = 'active'")
    await service.deliver(desk.tenant.id)
    assert desk.contents == ["The harbour"]


async def test_an_answer_without_an_end_is_not_read_to_its_end() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        with contextlib.suppress(OSError):
            while True:
                writer.write(b"x" * 1_024)
                await writer.drain()
                await asyncio.sleep(0)

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        sender = WebhookSender(ANYWHERE, seconds=5)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        found = await sender.send(url, make_secret(), "m", b"{}", echo="word")
        assert found.error == "the endpoint did not answer with the challenge"
    finally:
        server.close()


async def test_challenges_go_to_public_addresses_only(desk: Desk) -> None:
    """The name is public when the owner subscribes, and leads to this machine when the challenge is sent."""
    saved, _ = await subscribe(desk, f"http://inside.example:{desk.endpoint.port}/hook")
    sender = WebhookSender(Targets(ports=ANYWHERE.ports), resolve=resolving("127.0.0.1"))
    service = desk.deliverer(sender)
    await service.deliver(desk.tenant.id)
    assert desk.endpoint.challenges == []
    assert (await find(desk, saved)).last_error == "its address is not public"


async def test_a_challenge_waits_while_its_owner_may_not_read(desk: Desk) -> None:
    await subscribe(desk)
    desk.services.subscriptions.note_caller(desk.tenant.id, OWNER, reads=False)
    await desk.services.subscriptions.close()
    await desk.work()
    assert desk.endpoint.challenges == []
    desk.services.subscriptions.note_caller(desk.tenant.id, OWNER, reads=True)
    await desk.services.subscriptions.close()
    await desk.work()
    assert len(desk.endpoint.challenges) == 1


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (b"abc", True),
        (b" abc\r\n", True),
        (b'{"challenge":"abc"}', True),
        (b'{"challenge":"abcd"}', False),
        (b'{"data":{"challenge":"abc"}}', False),
        (b'"abc"', False),
        (b"{abc", False),
        (b"\xff\xfe", False),
        (b"", False),
    ],
)
def test_the_challenge_is_answered_as_text_or_json(said: bytes, expected: bool) -> None:
    assert is_echo(said, "abc") is expected


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
        targets=ANYWHERE,
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


async def test_a_subscription_needs_an_own_saved_search_and_a_public_address_and_port(desk: Desk) -> None:
    service = desk.services.subscriptions
    saved, _ = await desk.services.saved_searches.save(desk.tenant.id, OWNER, NewSavedSearch("n", {"query": "harbour"}))
    with pytest.raises(SavedSearchNotFound):
        await service.subscribe(desk.tenant.id, "berta", saved.id, "https://example.com")
    strict = subscriptions.SubscriptionService(
        desk.services.database, desk.services.trail, desk.services.jobs, SecretSealer()
    )
    with pytest.raises(InvalidInput, match="must resolve to a public address"):
        await strict.subscribe(desk.tenant.id, OWNER, saved.id, desk.endpoint.url)
    with pytest.raises(InvalidInput, match="must have one of the ports"):
        await strict.subscribe(desk.tenant.id, OWNER, saved.id, "https://example.com:5432/")
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
