"""Deliveries and their cost."""

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest

from app.contract.entries import EntryDraft
from app.db.queries import deliveries as outbox
from app.errors import DatabaseUnavailable
from app.knowledge.subscriptions import deliveries, matching
from app.knowledge.subscriptions.deliveries import LEAST_PAUSE_SECONDS, RETRY_SECONDS, find_pause
from app.knowledge.subscriptions.webhooks import LookupsBusy, WebhookSender
from tests.fixtures.database.cluster import connected
from tests.knowledge.subscriptions.endpoint import ANYWHERE
from tests.knowledge.subscriptions.subscribing import OWNER, Desk


async def test_a_failed_message_is_retried_unchanged(desk: Desk) -> None:
    saved = await desk.subscribe(query="harbour", mode="keyword")
    desk.endpoint.answer = lambda number: "500 Oh" if number == 1 else None if number == 2 else "204 No Content"
    await desk.write("The harbour")
    await desk.work()
    first = await desk.services.subscriptions.get(desk.tenant.id, OWNER, saved)
    assert (first.failures, first.waiting, first.last_error) == (1, 1, "the endpoint answered 500")
    await desk.work()
    assert len(desk.endpoint.received) == 1, "not before its time"
    await desk.hasten()
    second = await desk.services.subscriptions.get(desk.tenant.id, OWNER, saved)
    assert (second.failures, second.last_error) == (2, "the connection failed")
    assert second.failing_since == first.failing_since
    await desk.hasten()
    third = await desk.services.subscriptions.get(desk.tenant.id, OWNER, saved)
    assert (third.failures, third.waiting, third.last_error, third.failing_since) == (0, 0, None, None)
    one, two, three = desk.endpoint.received
    assert one.body == two.body == three.body
    assert one.headers["webhook-id"] == two.headers["webhook-id"] == three.headers["webhook-id"]


async def test_a_retry_is_scheduled_after_the_pause(desk: Desk) -> None:
    await desk.subscribe(query="harbour", mode="keyword")
    desk.endpoint.answer = lambda _: "500 Oh"
    await desk.write("The harbour")
    await desk.work()
    waits = "select extract(epoch from run_at - clock_timestamp())::float8 from"
    (message,) = await desk.sql(f"{waits} deliveries")
    (job,) = await desk.sql(f"{waits} jobs where kind = 'deliver_webhooks'")
    assert 0 < message <= RETRY_SECONDS[0] * 1.1
    assert 0 < job <= RETRY_SECONDS[0] * 1.1
    await desk.sql("update deliveries set attempts = $1", len(RETRY_SECONDS))
    await desk.hasten()
    assert await desk.states() == ["given_up"]


async def test_a_failing_endpoint_gets_one_message_and_all_others_once_it_recovers(desk: Desk) -> None:
    await desk.subscribe(query="harbour", mode="keyword")
    desk.endpoint.answer = lambda _: "503 Later"
    for n in range(6):
        await desk.write(f"The harbour {n}")
    await desk.work()
    tried = len(desk.endpoint.received)
    assert tried <= deliveries.EACH
    await desk.hasten()
    assert len(desk.endpoint.received) == tried + 1
    desk.endpoint.answer = lambda _: "200 OK"
    await desk.hasten()
    await desk.hasten()
    assert await desk.states() == ["delivered"] * 6
    assert set(desk.contents) == {f"The harbour {n}" for n in range(6)}


async def test_a_message_that_the_endpoint_refuses_does_not_block_the_others(desk: Desk) -> None:
    await desk.subscribe(query="harbour", mode="keyword")
    desk.endpoint.answer = lambda _: "400 Bad" if "bad" in desk.contents[-1] else "200 OK"
    await desk.write("The bad harbour")
    await desk.work()
    await desk.write("The good harbour")
    await desk.work()
    assert desk.contents == ["The bad harbour", "The good harbour"]
    assert sorted(await desk.states()) == ["delivered", "waiting"]


async def test_a_failing_endpoint_does_not_delay_other_subscribers(desk: Desk) -> None:
    desk.endpoint.answer = lambda number: "500 Oh" if "first" in desk.endpoint.received[-1].path else "200 OK"
    for owner in ("first", "second"):
        saved = await desk.subscribe(owner=owner, query="harbour", mode="keyword")
        await desk.services.subscriptions.subscribe(desk.tenant.id, owner, saved, f"{desk.endpoint.url}&{owner}")
    await desk.confirm()
    for n in range(3):
        await desk.write(f"The harbour {n}")
    await desk.work()
    took = [r.content for r in desk.endpoint.received if "second" in r.path]
    assert sorted(took) == ["The harbour 0", "The harbour 1", "The harbour 2"]


@pytest.mark.parametrize("why", ["gone", "days"])
async def test_a_permanently_failing_endpoint_is_disabled(desk: Desk, why: str) -> None:
    saved = await desk.subscribe(query="harbour", mode="keyword")
    desk.endpoint.answer = lambda _: "410 Gone" if why == "gone" else "500 Oh"
    await desk.write("The harbour")
    await desk.work()
    if why == "days":
        await desk.sql("update subscriptions set failing_since = now() - interval '6 days'")
        await desk.hasten()
    after = await desk.services.subscriptions.get(desk.tenant.id, OWNER, saved)
    assert after.state == "disabled"
    tried = len(desk.endpoint.received)
    await desk.hasten()
    await desk.write("The harbour again")
    await desk.hasten()
    assert len(desk.endpoint.received) == tried
    desk.endpoint.answer = lambda _: "200 OK"
    await desk.services.subscriptions.subscribe(desk.tenant.id, OWNER, saved, desk.endpoint.url)
    await desk.confirm()
    await desk.hasten()
    assert desk.contents[tried:] == ["The harbour"], "what waited goes on, what was not noted is not there"


async def test_a_message_of_a_worker_that_died_is_sent_by_another(desk: Desk) -> None:
    """It died after sending and before recording it: the endpoint gets the message twice, with the same id."""
    await desk.subscribe(query="harbour", mode="keyword")
    await desk.write("The harbour")
    await desk.match()
    desk.endpoint.hold = asyncio.Event()
    sending = asyncio.create_task(desk.deliverer(lease=timedelta(seconds=0.2)).deliver(desk.tenant.id))
    await desk.endpoint.wait()
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    desk.endpoint.hold.set()
    assert await desk.states() == ["waiting"]
    await asyncio.sleep(0.25)
    await desk.work()
    assert await desk.states() == ["delivered"]
    first, second = desk.endpoint.received
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.body == second.body


async def test_two_workers_at_once_send_each_message_once(desk: Desk) -> None:
    await desk.subscribe(query="harbour", mode="keyword")
    contents = [f"The harbour {n}" for n in range(12)]
    await desk.services.entries.create_many(desk.tenant.id, [EntryDraft(content=c) for c in contents])
    await desk.services.embedder.embed_all(desk.tenant.id)
    await desk.match()
    await asyncio.gather(*(desk.deliverer().deliver(desk.tenant.id) for _ in range(3)))
    assert sorted(desk.contents) == sorted(contents)


async def test_a_slow_endpoint_does_not_delay_other_work(desk: Desk) -> None:
    """The worker has a separate turn for webhooks."""
    await desk.subscribe(query="harbour", mode="keyword")
    desk.endpoint.hold = asyncio.Event()
    running = asyncio.create_task(desk.services.worker.run())
    try:
        async with asyncio.timeout(60):
            await desk.write("The harbour")
            while not desk.endpoint.received:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            await desk.services.entries.create_many(desk.tenant.id, [EntryDraft(content="Something else")])
            while await desk.sql("select count(*) from pending_embeddings") != [0]:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
            assert await desk.states() == ["waiting"]
            desk.endpoint.hold.set()
            while await desk.states() != ["delivered"]:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_upkeep_removes_old_deliveries_and_queues_lost_ones(desk: Desk) -> None:
    await desk.subscribe(query="harbour", mode="keyword")
    for n in range(3):
        await desk.write(f"The harbour {n}")
    await desk.match()
    ids = await desk.sql("select id from deliveries order by created_at, id")
    await desk.sql("update deliveries set created_at = now() - interval '8 days' where id = $1", ids[0])
    await desk.sql(
        "update deliveries set state = 'delivered', ended_at = now() - interval '31 days' where id = $1", ids[1]
    )
    await desk.sql("delete from jobs")
    await desk.services.worker.sweep.run()
    assert await desk.states() == ["given_up", "waiting"]
    await desk.work()
    assert await desk.states() == ["given_up", "delivered"]


async def test_deleting_the_saved_search_ends_its_subscription(desk: Desk) -> None:
    saved = await desk.subscribe(query="harbour", mode="keyword")
    await desk.write("The harbour")
    await desk.match()
    await desk.services.saved_searches.delete(desk.tenant.id, OWNER, saved)
    await desk.work()
    assert desk.endpoint.received == []
    assert await desk.sql("select count(*) from deliveries") == [0]
    assert await desk.sql("select count(*) from subscriptions") == [0]


async def test_deleting_the_tenant_ends_its_subscriptions(desk: Desk) -> None:
    await desk.subscribe(query="harbour", mode="keyword")
    await desk.write("The harbour")
    await desk.services.tenants.delete(desk.tenant.id, actor="test")
    await desk.work()
    assert desk.endpoint.received == []


def test_pauses_grow_and_respect_retry_after() -> None:
    pauses = [find_pause(n) for n in range(1, 12)]
    for pause, nominal in zip(pauses, [*RETRY_SECONDS, RETRY_SECONDS[-1]], strict=True):
        assert 0.9 * nominal <= pause <= 1.1 * nominal
    assert find_pause(1, 300.0) == 300.0


async def test_an_outage_of_the_database_leaves_no_send_running(desk: Desk) -> None:
    """One result cannot be recorded while another message is being sent: both have ended when the failure is raised."""
    await desk.subscribe(query="harbour", mode="keyword")
    gone = await desk.write("The old harbour")
    await desk.write("The new harbour")
    await desk.match()
    await desk.services.entries.change(desk.tenant.id, gone, EntryDraft(content="A road"))
    desk.endpoint.hold = asyncio.Event()
    await desk.sql("""create function refuse() returns trigger language plpgsql
                      as $$ begin raise 'no lock to be had' using errcode = 'lock_not_available'; end $$""")
    await desk.sql("""create trigger refuse before update on deliveries for each row
                      when (new.state = 'overtaken') execute function refuse()""")
    try:
        sending = asyncio.create_task(desk.deliverer().deliver(desk.tenant.id))
        await desk.endpoint.wait()
        await asyncio.wait([sending], timeout=0.3)
        assert not sending.done()
        desk.endpoint.hold.set()
        with pytest.raises(DatabaseUnavailable):
            await sending
    finally:
        await desk.sql("drop function refuse cascade")
    assert sorted(await desk.states()) == ["delivered", "waiting"]


async def test_a_message_that_waits_for_a_lookup_counts_against_nothing(desk: Desk) -> None:
    saved = await desk.subscribe(query="harbour", mode="keyword")
    await desk.write("The harbour")
    await desk.work()
    await desk.sql("update deliveries set state = 'waiting', attempts = 0, run_at = now(), ended_at = null")

    async def resolve(host: str, port: int) -> list[str]:
        raise LookupsBusy("the service is resolving too many names")

    sender = WebhookSender(ANYWHERE, resolve=resolve)
    await desk.sql("update subscriptions set url = 'http://busy.example/'")
    service = desk.deliverer(sender)
    for _ in range(len(RETRY_SECONDS) + 2):
        await service.deliver(desk.tenant.id)
        await desk.sql("update deliveries set run_at = now()")
    found = await desk.services.subscriptions.get(desk.tenant.id, OWNER, saved)
    assert (found.failures, found.waiting, found.last_error, found.state) == (0, 1, None, "active")
    assert await desk.sql("select attempts from deliveries") == [0]


async def test_messages_over_the_waiting_limit_are_dropped_and_reported_to_the_owner(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matching, "MAX_WAITING", 2)
    saved = await desk.subscribe(query="harbour", mode="keyword")
    other = await desk.subscribe(name="other", query="lamp", mode="keyword")
    contents = [*(f"The harbour {n}" for n in range(4)), "The lamp"]
    await desk.services.entries.create_many(desk.tenant.id, [EntryDraft(content=c) for c in contents])
    await desk.services.embedder.embed_all(desk.tenant.id)
    await desk.match()
    assert sorted(await desk.states()) == ["given_up", "given_up", "waiting", "waiting", "waiting"]
    await desk.work()
    assert len(desk.contents) == 3
    told = await desk.services.subscriptions.get(desk.tenant.id, OWNER, saved)
    assert told.last_error == "more than 2 messages wait: new ones are not kept"
    assert (await desk.services.subscriptions.get(desk.tenant.id, OWNER, other)).last_error is None
    await desk.write("The harbour 4")
    await desk.work()
    assert desk.contents[3:] == ["The harbour 4"], "there is room again"


@pytest.mark.one_server
async def test_the_cost_of_a_claim_does_not_grow_with_the_messages(desk: Desk) -> None:
    """Counted in rows read, with the generic plan: only the first messages of each subscription."""
    for name in ("a", "b", "c"):
        await desk.subscribe(name=name, query="harbour", mode="keyword")
    async with connected(desk.superuser_dsn) as superuser:
        await superuser.execute(
            "insert into deliveries (tenant_id, id, saved_search_id, entry_id, fingerprint, finding)"
            " select tenant_id, gen_random_uuid(), saved_search_id, gen_random_uuid(), '', '{}'"
            " from subscriptions, generate_series(1, 3000)"
        )
        await superuser.execute("analyze deliveries; analyze subscriptions; analyze saved_searches")
    values = {"tenant_id": f"'{desk.tenant.id}'", "each": "4", "limit": "16", "lease": "'1 minute'"}
    async with connected(desk.service_dsn) as service:
        await service.execute(f"set app.current_tenant = '{desk.tenant.id}'; set plan_cache_mode = force_generic_plan")
        for statement, most in ((outbox.SQL["claim"], 300), (outbox.SQL["next_due"], 50)):
            await service.execute(f"prepare probe as {statement.sql}")
            ((plan,),) = await service.fetch(
                "explain (analyze, format json) execute probe "
                f"({', '.join(values[name] for name in statement.parameters)})"
            )
            await service.execute("deallocate probe")
            assert 0 < rows_read(json.loads(plan)[0]["Plan"], "deliveries") <= most, statement.name


async def test_a_superseded_message_that_matches_again_is_like_a_new_one(desk: Desk) -> None:
    await desk.subscribe(query="harbour", mode="keyword")
    entry = await desk.write("The harbour")
    desk.endpoint.answer = lambda _: "500 Oh"
    await desk.work()
    for content in ("A road", "The harbour"):
        await desk.services.entries.change(desk.tenant.id, entry, EntryDraft(content=content))
        await desk.sql("update deliveries set created_at = now() - interval '6 days', attempts = 10")
        await desk.hasten()
        if content == "A road":
            assert await desk.states() == ["overtaken"]
    assert await desk.states() == ["waiting"]
    assert await desk.sql("select attempts from deliveries where created_at > now() - interval '1 minute'") == [1]


async def test_a_tenant_has_one_turn_at_a_time(desk: Desk) -> None:
    """Its writes queue further jobs while its endpoints hang: they do not take the turns of other tenants."""
    await desk.subscribe(query="harbour", mode="keyword")
    await desk.write("The old harbour")
    await desk.match()
    desk.endpoint.hold = asyncio.Event()
    service = desk.deliverer()
    sending = asyncio.create_task(service.deliver(desk.tenant.id))
    await desk.endpoint.wait()
    await desk.write("The new harbour")
    await desk.match()
    assert await service.deliver(desk.tenant.id) == LEAST_PAUSE_SECONDS
    assert len(desk.endpoint.received) == 1
    desk.endpoint.hold.set()
    await sending
    assert desk.contents == ["The old harbour", "The new harbour"]


def rows_read(plan: dict[str, Any], table: str) -> int:
    """The rows of a table that the scans of a plan returned or discarded, over all loops."""
    own = 0
    if plan.get("Relation Name") == table and "Scan" in plan["Node Type"]:
        own = round((plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)) * plan["Actual Loops"])
    return own + sum(rows_read(part, table) for part in plan.get("Plans", []))
