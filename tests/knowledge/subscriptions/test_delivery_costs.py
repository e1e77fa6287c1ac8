"""The cost of many waiting messages, and what happens to messages over the limit."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from app.contract.entries import EntryDraft
from app.db.queries import deliveries as outbox
from app.knowledge.subscriptions import matching
from app.knowledge.subscriptions.deliveries import LEAST_PAUSE_SECONDS, DeliveryService
from app.knowledge.subscriptions.webhooks import SecretSealer, WebhookSender
from tests.fixtures.database.cluster import connected
from tests.knowledge.subscriptions.subscribing import OWNER, Desk


async def test_messages_over_the_waiting_limit_are_dropped_and_reported_to_the_owner(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matching, "MAX_WAITING", 2)
    saved = await desk.subscribe(query="harbour", mode="keyword")
    other = await desk.subscribe(name="other", query="lamp", mode="keyword")
    contents = [*(f"The harbour {n}" for n in range(4)), "The lamp"]
    await desk.services.entries.create_many(desk.tenant.id, [EntryDraft(content=c) for c in contents])
    await desk.services.embedder.embed_all(desk.tenant.id)
    while await desk.services.worker.run_once(["match_changes"]):
        pass
    assert sorted(await desk.states()) == ["given_up", "given_up", "waiting", "waiting", "waiting"]
    await desk.work()
    assert len(desk.contents) == 3
    told = await desk.services.subscriptions.get(desk.tenant.id, OWNER, saved)
    assert told.last_error == "more than 2 messages wait: new ones are not kept"
    assert (await desk.services.subscriptions.get(desk.tenant.id, OWNER, other)).last_error is None
    await desk.write("The harbour 4")
    await desk.work()
    assert desk.contents[3:] == ["The harbour 4"], "there is room again"


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
    while await desk.services.worker.run_once(["match_changes"]):
        pass
    desk.endpoint.hold = asyncio.Event()
    service = DeliveryService(
        desk.services.database, desk.services.jobs, WebhookSender(allow_private=True), SecretSealer()
    )
    sending = asyncio.create_task(service.deliver(desk.tenant.id))
    async with asyncio.timeout(60):
        while not desk.endpoint.received:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await desk.write("The new harbour")
    while await desk.services.worker.run_once(["match_changes"]):
        pass
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
