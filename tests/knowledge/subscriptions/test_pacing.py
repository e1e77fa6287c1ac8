"""The pace of messages to one host: a limit over all tenants and processes, with equal shares, and nothing is lost."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from uuid import UUID

import asyncpg
import pytest

from app.contract.entries import EntryDraft
from app.contract.saved_searches import NewSavedSearch
from app.db.database import Database
from app.db.rows import new_id
from app.knowledge.subscriptions.webhooks import (
    HOSTS_OF_AN_ADDRESS,
    TENANTS_CHALLENGES,
    SendPace,
    WebhookSender,
    find_host,
    find_network,
)
from tests.fixtures.database.cluster import Connection, connected
from tests.knowledge.subscriptions.endpoint import ANYWHERE, resolving
from tests.knowledge.subscriptions.subscribing import OWNER, Desk

URL = "https://hooks.example/a"


FUNCTION = "tenancy.take_turns(text, integer, integer)"


@dataclass
class Line:
    """Turns at a host, with a clock that only the test advances."""

    pace: SendPace
    superuser: Connection

    async def take(self, tenant: UUID, messages: int, url: str = URL) -> int:
        """How many of the messages may be sent now."""
        waits = await self.pace.admit(tenant, [url] * messages)
        assert all(0 <= wait <= 6 for wait in waits)
        await self.pass_seconds(0.001)
        return waits.count(0.0)

    async def pass_seconds(self, seconds: float) -> None:
        await self.superuser.execute(f"update clock set at = at + interval '{seconds} seconds'")


@contextlib.asynccontextmanager
async def open_line(database: Database, superuser_dsn: str, per_minute: int) -> AsyncIterator[Line]:
    async with connected(superuser_dsn) as superuser:
        text = await superuser.fetchval(f"select pg_get_functiondef('{FUNCTION}'::regprocedure)")
        await superuser.execute("create table clock as select timestamptz '2026-01-01 00:00:01Z' as at")
        await superuser.execute("alter table clock owner to kb_migrator; delete from send_turns")
        await superuser.execute(text.replace("clock_timestamp()", "(select at from clock)"))
        try:
            yield Line(SendPace(database, per_minute), superuser)
        finally:
            await superuser.execute(text)
            await superuser.execute("drop table clock; delete from send_turns")


async def test_a_host_gets_as_many_messages_as_its_pace_allows(database: Database, superuser_dsn: str) -> None:
    one = new_id()
    async with open_line(database, superuser_dsn, 100) as line:
        assert [await line.take(one, 4) for _ in range(4)] == [4, 4, 2, 0]
        assert await line.take(one, 4, "https://other.example/a") == 4, "each host has its own pace"
        assert await line.take(one, 4, "http://HOOKS.example.:8080/b") == 0, "the same host"
        await line.pass_seconds(4)
        assert await line.take(one, 1) == 0
        await line.pass_seconds(1)
        assert await line.take(one, 16) == 10


async def test_two_processes_share_the_pace(database: Database, superuser_dsn: str, service_dsn: str) -> None:
    elsewhere = Database(service_dsn, pool_size=2)
    tenants = [new_id() for _ in range(6)]
    async with open_line(database, superuser_dsn, 100) as line:
        paces = (line.pace, SendPace(elsewhere, 100))
        sent = await asyncio.gather(*(paces[n % 2].admit(t, [URL] * 4) for n, t in enumerate(tenants)))
        assert sum(waits.count(0.0) for waits in sent) == 10
    await elsewhere.close()


async def test_waiting_tenants_have_equal_shares(database: Database, superuser_dsn: str) -> None:
    flood, one, two = new_id(), new_id(), new_id()
    async with open_line(database, superuser_dsn, 120) as line:
        assert await line.take(flood, 100) == 12
        assert await line.take(one, 2) == 0
        assert await line.take(two, 9) == 0
        await line.pass_seconds(6)
        assert await line.take(flood, 100) == 4, "although it asks first"
        assert await line.take(flood, 100) == 0
        assert await line.take(one, 2) == 2
        assert await line.take(two, 9) == 4
        await line.pass_seconds(6)
        assert await line.take(flood, 100) == 6, "one tenant waits for nothing any more"
        assert await line.take(two, 9) == 6


async def test_more_waiting_tenants_than_turns_go_one_after_another(database: Database, superuser_dsn: str) -> None:
    tenants = [new_id() for _ in range(5)]
    taken: Counter[UUID] = Counter()
    async with open_line(database, superuser_dsn, 20) as line:  # two in each window
        for _ in range(40):
            for tenant in tenants:  # always in the same order
                taken[tenant] += await line.take(tenant, 3)
            await line.pass_seconds(6)
    assert sum(taken.values()) == 80
    # The first took two before the others waited.
    assert max(taken.values()) - min(taken.values()) <= 3, taken


async def test_challenges_have_a_slower_pace(database: Database, superuser_dsn: str) -> None:
    urls = [f"https://h{n}.example/" for n in range(TENANTS_CHALLENGES + 2)]
    async with open_line(database, superuser_dsn, 600) as line:
        first = await line.pace.admit_challenges(new_id(), urls)
        assert first.count(0.0) == TENANTS_CHALLENGES, "to any hosts"
        sent = [await line.pace.admit_challenges(new_id(), [URL] * 2) for _ in range(4)]
        assert sum(waits.count(0.0) for waits in sent) == 600 // 10 // 20
        assert await line.take(new_id(), 1) == 1, "messages have their own"


async def test_challenges_over_the_pace_wait_uncounted(desk: Desk) -> None:
    for number in range(TENANTS_CHALLENGES + 1):
        await desk.subscribe(name=f"{number}", query="harbour", mode="keyword")
    await desk.sql("update subscriptions set confirmation = 'pending', challenge_at = now()")
    async with open_line(desk.services.database, desk.superuser_dsn, 6_000) as line:
        service = desk.deliverer(pace=line.pace)
        await service.deliver(desk.tenant.id)
        assert len(desk.endpoint.challenges) == TENANTS_CHALLENGES
        assert await desk.sql("select challenges from subscriptions where confirmation = 'pending'") == [0]
        await line.pass_seconds(6)
        await desk.sql("update subscriptions set challenge_at = now()")
        await service.deliver(desk.tenant.id)
        assert len(desk.endpoint.challenges) == TENANTS_CHALLENGES + 1


async def test_messages_over_the_pace_wait_and_none_is_lost(desk: Desk) -> None:
    await desk.subscribe(query="harbour", mode="keyword")
    contents = [f"The harbour {n}" for n in range(12)]
    await desk.services.entries.create_many(desk.tenant.id, [EntryDraft(content=c) for c in contents])
    await desk.services.embedder.embed_all(desk.tenant.id)
    await desk.match()
    sender = WebhookSender(ANYWHERE)
    async with open_line(desk.services.database, desk.superuser_dsn, 50) as line:  # five in each window
        service = desk.deliverer(sender, line.pace)
        due = await service.deliver(desk.tenant.id)
        assert due is not None
        assert 0 < due <= 6
        assert len(desk.contents) == 5
        assert await desk.sql("select max(attempts) from deliveries where state = 'waiting'") == [0]
        for sent in (10, 12):
            await line.pass_seconds(6)
            await desk.sql("update deliveries set run_at = now() where state = 'waiting'")
            await desk.sql("update subscriptions set retry_at = null")
            await service.deliver(desk.tenant.id)
            assert len(desk.contents) == sent
    assert sorted(desk.contents) == sorted(contents)
    assert await desk.states() == ["delivered"] * 12


async def test_challenges_over_the_pace_wait_and_do_not_count(desk: Desk) -> None:
    for number in range(4):
        saved, _ = await desk.services.saved_searches.save(
            desk.tenant.id, OWNER, NewSavedSearch(str(number), {"query": "harbour", "mode": "keyword"})
        )
        await desk.services.subscriptions.subscribe(desk.tenant.id, OWNER, saved.id, desk.endpoint.url)
    sender = WebhookSender(ANYWHERE)
    async with open_line(desk.services.database, desk.superuser_dsn, 50) as line:  # one in each window
        service = desk.deliverer(sender, line.pace)
        for sent in (1, 2, 3, 4):
            due = await service.deliver(desk.tenant.id)
            assert len(desk.endpoint.challenges) == sent
            asked = await desk.sql("select challenges from subscriptions order by challenges desc")
            assert asked == [1] * sent + [0] * (4 - sent)
            assert due is None if sent == 4 else due is not None and 0 < due <= 6
            await line.pass_seconds(6)
            await desk.sql("update subscriptions set challenge_at = now()")
    assert await desk.sql("select distinct confirmation from subscriptions") == ["confirmed"]


async def test_names_of_one_address_share_its_pace(database: Database, superuser_dsn: str) -> None:
    tenants = [new_id() for _ in range(3)]
    async with open_line(database, superuser_dsn, 100) as line:
        waits = [await line.pace.admit_at(tenants[n % 3], "203.0.113.7") for n in range(105)]
        assert waits.count(0.0) == HOSTS_OF_AN_ADDRESS * 10
        assert all(0 < wait <= 6 for wait in waits if wait)
        assert await line.pace.admit_at(tenants[0], "203.0.113.8") == 0.0
        assert await line.pace.admit_challenge_at(tenants[0], "203.0.113.7") == 0.0
        assert await line.pace.admit_challenge_at(tenants[1], "203.0.113.7") > 0
        assert await line.pace.admit_challenge_at(tenants[1], "203.0.113.8") == 0.0


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("2a00:1450:4001:82a::200e", "2a00:1450:4001:82a::/64"),
        ("2a00:1450:4001:82a:1::1", "2a00:1450:4001:82a::/64"),
    ],
)
def test_a_network_of_ipv6_counts_as_one_address(address: str, network: str) -> None:
    assert find_network(address) == network


async def test_messages_and_challenges_over_the_pace_of_an_address_wait_uncounted(desk: Desk) -> None:
    sender = WebhookSender(ANYWHERE, resolve=resolving("127.0.0.1"))
    async with open_line(desk.services.database, desk.superuser_dsn, 10) as line:  # ten in each window
        service = desk.deliverer(sender, line.pace)
        for number in range(3):
            await desk.subscribe(name=f"{number}", query="harbour", mode="keyword")
        # Each to another host, none of which has sent too many.
        await desk.sql(
            f"update subscriptions u set url = 'http://h' || s.name || '.example:{desk.endpoint.port}/'"
            " from saved_searches s where s.tenant_id = u.tenant_id and s.id = u.saved_search_id returning 1"
        )
        for _ in range(9):
            assert not await line.pace.admit_at(new_id(), "127.0.0.1")
        await desk.write("The harbour")
        await desk.match()
        await service.deliver(desk.tenant.id)
        assert len(desk.contents) == 1
        assert await desk.sql("select max(attempts) from deliveries where state = 'waiting'") == [0]
        assert sorted(await desk.states()) == ["delivered", "waiting", "waiting"]
        assert await desk.sql("select count(*) from subscriptions where retry_at > clock_timestamp()") == [2]

        await desk.sql(
            "update subscriptions set confirmation = 'pending', challenges = 0, challenge_at = now() returning 1"
        )
        await service.deliver(desk.tenant.id)
        assert len(desk.endpoint.challenges) == 1
        assert sorted(await desk.sql("select challenges from subscriptions")) == [0, 0, 1]
        await line.pass_seconds(6)
        await desk.sql("update subscriptions set retry_at = null, challenge_at = now() returning 1")
        await desk.sql("update deliveries set run_at = now() where state = 'waiting' returning 1")
        await service.deliver(desk.tenant.id)
        assert len(desk.endpoint.challenges) == 2
    await desk.sql("update subscriptions set confirmation = 'confirmed' returning 1")


async def test_old_turns_are_forgotten(database: Database, superuser_dsn: str) -> None:
    async with open_line(database, superuser_dsn, 100) as line:
        for n in range(5):
            await line.take(new_id(), 1, f"https://h{n}.example/")
        await line.pass_seconds(2 * 3600)
        await line.take(new_id(), 1)
        assert await line.superuser.fetchval("select count(*) from send_turns") == 1


async def test_no_tenant_sees_the_turns_of_others(service_dsn: str) -> None:
    async with connected(service_dsn) as service:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await service.fetch("select * from send_turns")
        assert await service.fetch("select * from tenancy.take_turns('host', 1, 10)") == [], "without a tenant"


def test_hosts_are_compared_without_case_port_and_final_dot() -> None:
    assert {find_host(u) for u in (URL, "http://HOOKS.Example:81/b?c", "https://hooks.example./")} == {"hooks.example"}


async def test_a_host_that_is_too_long_for_a_name_has_turns(database: Database) -> None:
    # As in a subscription of a time without this bound: other messages of the tenant wait for its turn.
    url = "https://" + "a." * 300 + "example/"
    assert await SendPace(database).admit(new_id(), [url, URL]) == [0.0, 0.0]
    assert await SendPace(database).admit_challenges(new_id(), [url, URL]) == [0.0, 0.0]
