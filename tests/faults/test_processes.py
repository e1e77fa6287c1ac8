"""A service of several processes: limits and changes hold in all of them, and any of them can end or be replaced."""

import asyncio
import base64
import contextlib
import json
import signal
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from app.auth.principal import Role
from app.composition.services import Services
from app.contract.administration import NewTenant
from app.contract.entries import EntryDraft
from app.contract.settings import AllowedLimits
from tests.faults.load import calling
from tests.faults.service import (
    PROCESSES,
    ServedProcess,
    children,
    launched,
    messages,
    served,
    settings_for,
    settings_of_several,
    several,
    wait_for_line,
)
from tests.faults.stopping import stop_at_work
from tests.fixtures.database.cluster import Connection, connected
from tests.fixtures.http.callers import Caller, make_token
from tests.operation.traffic import read_scrape, value


async def clients(stack: contextlib.AsyncExitStack, service: ServedProcess) -> list[httpx.AsyncClient]:
    """Two open connections to each process."""
    processes = children(service)
    # On a busy machine a process can be too late for a connection that another one leaves to it.
    for _ in range(20):
        async with contextlib.AsyncExitStack() as attempt:
            opened = [
                await attempt.enter_async_context(httpx.AsyncClient(base_url=service.url, trust_env=False, timeout=30))
                for _ in range(2 * PROCESSES)
            ]
            for client in opened:
                assert (await client.get("/healthz")).status_code == 200
            if connections_of(processes, service.port) == [2] * PROCESSES:
                await stack.enter_async_context(attempt.pop_all())
                return opened
    pytest.fail("the connections are never shared equally")


def token_id_of(token: str) -> str:
    """Its `jti`."""
    claims = token.split(".")[1]
    told: str = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["jti"]
    return told


async def scrape(service: ServedProcess, name: str, **labels: str) -> float:
    async with httpx.AsyncClient(trust_env=False) as client:
        text = (await client.get(f"{service.url}/metrics")).text
    return value(read_scrape(text), name, **labels)


def connections_of(processes: Sequence[psutil.Process], port: int) -> list[int]:
    """Open connections of each process."""
    return sorted(
        sum(c.laddr.port == port and c.status == psutil.CONN_ESTABLISHED for c in p.net_connections("tcp"))
        for p in processes
    )


@pytest.mark.slow
async def test_limits_changes_metrics_and_the_end_are_those_of_one_service(
    service_dsn: str, services: Services, tmp_path: Path
) -> None:
    tenant = await services.tenants.create(NewTenant("several"), actor="test")
    await services.tenants.change_limits(tenant.id, AllowedLimits(requests_per_minute=60), actor="test")
    token = make_token(tenant.id, Role.TENANT_ADMIN)
    async with several(service_dsn, tmp_path) as service, contextlib.AsyncExitStack() as stack:
        opened = [Caller(client, None, token) for client in await clients(stack, service)]

        began = time.monotonic()
        answers = await asyncio.gather(*(caller.get("/knowledge/entries") for caller in opened * 20))
        statuses = Counter(answer.status_code for answer in answers)
        assert statuses.keys() == {200, 429}
        assert 60 <= statuses[200] <= 61 + time.monotonic() - began, "one more each second"

        unlimited = make_token(None, Role.PLATFORM_ADMIN)
        raised = await Caller(opened[0].http, None, unlimited).patch(
            f"/admin/tenants/{tenant.id}", {"limits": {"requests_per_minute": 0}}
        )
        assert raised.status_code == 200, raised.text
        for caller in opened:
            changed = await opened[0].patch("/admin/settings", {"default_limit": 7})
            assert changed.status_code == 200, changed.text
            assert (await caller.get("/admin/settings")).json()["default_limit"] == 7
            await opened[0].patch("/admin/settings", {"default_limit": 8})

        for at, caller in enumerate(opened):
            own = make_token(tenant.id, Role.TENANT_ADMIN)
            known = Caller(caller.http, None, own)
            assert (await known.get("/admin/settings")).status_code == 200
            session = {"Cookie": f"kb_console={own}"}
            assert (await caller.http.get("/console", headers=session)).status_code == 200
            other = opened[(at + 1) % len(opened)]
            revoked = await other.post("/admin/revoked-tokens", {"token_id": token_id_of(own)})
            assert revoked.status_code == 200, revoked.text
            assert (await known.get("/admin/settings")).status_code == 401
            assert (await caller.http.get("/console", headers=session)).status_code == 303, "to the sign-in page"
            key = (await caller.post("/admin/keys", {"name": f"key-{at}", "role": "reader"})).json()
            by_key = Caller(caller.http, None, key["key"])
            assert (await by_key.get("/knowledge/entries")).status_code == 200
            assert (await other.delete(f"/admin/keys/{key['id']}")).status_code == 204
            assert (await by_key.get("/knowledge/entries")).status_code == 401

        listed = {"method": "GET", "route": "/knowledge/entries"}
        statuses[200] += len(opened)  # with the keys
        for status, number in statuses.items():
            counted = await scrape(service, "knowledge_requests_total", status=str(status), **listed)
            assert counted == number
        assert await scrape(service, "knowledge_processes") == PROCESSES
        assert await scrape(service, "knowledge_pool_size") == 10
        await stop_at_work(service, token)
    assert messages(service)["serving"] == 1


@pytest.mark.slow
async def test_a_search_of_one_process_continues_and_is_judged_in_another(
    service_dsn: str, services: Services, tmp_path: Path
) -> None:
    tenant = await services.tenants.create(NewTenant("continued"), actor="test")
    for number in range(6):
        await services.entries.create(tenant.id, EntryDraft(content=f"The harbour opens at {number}"))
    token = make_token(tenant.id, Role.TENANT_ADMIN)
    async with several(service_dsn, tmp_path) as service, contextlib.AsyncExitStack() as stack:
        opened = [Caller(client, None, token) for client in await clients(stack, service)]
        page = await opened[0].search("harbour", mode="keyword", limit=1)
        found = [page["results"][0]["content"]]
        for caller in opened[1:]:
            page = await caller.search("harbour", mode="keyword", limit=1, cursor=page["metadata"]["next_cursor"])
            found.append(page["results"][0]["content"])
        assert len(set(found)) == 6
        receipt = await opened[3].get(f"/admin/searches/{page['metadata']['search_id']}")
        assert receipt.status_code == 200, receipt.text


CHECK_WAITS = """
select pid from pg_stat_activity where datname = current_database() and usename = 'kb_service'
   and wait_event_type = 'Lock'"""
"""Processes whose check of the database waits for a lock."""


async def test_all_processes_start_although_a_check_was_lost_and_none_outlives_the_one_above_them(
    service_dsn: str, superuser_dsn: str, tmp_path: Path
) -> None:
    """The settings are not the reason if the database fails after a process has served with them."""
    lock = "begin; lock table alembic_version in access exclusive mode"
    async with (
        connected(superuser_dsn) as superuser,
        connected(superuser_dsn) as first,
        connected(superuser_dsn) as second,
    ):
        await first.execute(lock)
        async with launched(settings_of_several(service_dsn), tmp_path) as service:
            await wait_for_rows(superuser, CHECK_WAITS)
            # The next lock comes after the check of the first process, and before those of the others.
            locking = asyncio.create_task(second.execute(lock))
            await wait_for_rows(
                superuser, "select pid from pg_locks where not granted and mode = 'AccessExclusiveLock'"
            )
            await first.execute("commit")
            await locking
            waiting = await wait_for_rows(superuser, CHECK_WAITS, PROCESSES - 1)
            await superuser.execute("select pg_terminate_backend($1)", waiting[0])
            await wait_for_line(service, "a process ended and is replaced")
            assert messages(service)["a process failed: the database is not reachable at the moment"] == 1
            await second.execute("commit")
            async with asyncio.timeout(60):
                while await scrape(service, "knowledge_processes") < PROCESSES:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            below = children(service)
            service.process.kill()
            await service.process.wait()
            _, alive = await asyncio.to_thread(psutil.wait_procs, below, timeout=60)
            assert alive == []


async def wait_for_rows(connection: Connection, sql: str, number: int = 1) -> list[Any]:
    """Wait until the query has so many rows; returns the first value of each."""
    async with asyncio.timeout(60):
        while len(rows := await connection.fetch(sql)) < number:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    return [row[0] for row in rows]


@pytest.mark.slow
async def test_a_start_that_fails_has_one_reason(service_dsn: str, tmp_path: Path) -> None:
    settings = settings_for(service_dsn, KB_WORKERS="3", EMBEDDING_DIMENSIONS="17")
    with pytest.raises(AssertionError, match="error: ") as failed:
        async with served(settings, tmp_path):
            pass
    assert str(failed.value).count("error: ") == 1


@pytest.mark.slow
async def test_a_killed_process_is_replaced_and_only_its_requests_fail(
    service_dsn: str, services: Services, tmp_path: Path
) -> None:
    tenant = await services.tenants.create(NewTenant("killed"), actor="test")
    await services.entries.create(tenant.id, EntryDraft(content="The harbour opens at six"))
    async with several(service_dsn, tmp_path) as service:
        before = children(service)
        async with calling(service.url, make_token(tenant.id, Role.CREATOR), 2 * PROCESSES) as callers:
            await callers.wait_for_more(60)
            held = connections_of([before[1]], service.port)[0]
            before[1].kill()
            async with asyncio.timeout(60):
                while not callers.failures or len(after := children(service)) < PROCESSES:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            failures = list(callers.failures)
            assert 1 <= len(failures) <= held
            callers.failures.clear()
            await callers.wait_for_more(60)
        assert callers.failures == []
        assert len({process.pid for process in after} & {process.pid for process in before}) == PROCESSES - 1
        assert await scrape(service, "knowledge_processes_replaced_total") == 1
        counted = 0.0
        for route in ("/knowledge/search", "/knowledge/entries/bulk"):
            labels = {"method": "POST", "route": route, "status": "200"}
            counted += await scrape(service, "knowledge_requests_total", **labels)
        # The killed process's answers are still counted, also those that did not arrive. An answer is counted just
        # after it was sent: the kill may come between, once for each connection that the process had.
        assert callers.answered - held <= counted <= callers.answered + len(failures)


@pytest.mark.slow
async def test_processes_are_replaced_under_load_and_no_request_fails(
    service_dsn: str, services: Services, tmp_path: Path
) -> None:
    tenant = await services.tenants.create(NewTenant("replaced"), actor="test")
    await services.entries.create(tenant.id, EntryDraft(content="The harbour opens at six"))
    async with several(service_dsn, tmp_path) as service:
        before = children(service)
        async with calling(service.url, make_token(tenant.id, Role.CREATOR), 2 * PROCESSES) as callers:
            await callers.wait_for_more()
            service.process.send_signal(signal.SIGHUP)
            async with asyncio.timeout(120):
                while {p.pid for p in before} & {p.pid for p in children(service)}:
                    async with httpx.AsyncClient(trust_env=False) as client:
                        assert (await client.get(f"{service.url}/readyz")).status_code == 200
                    await asyncio.sleep(0.1)
            await callers.wait_for_more()
        assert len(children(service)) == PROCESSES
        assert await scrape(service, "knowledge_processes_replaced_total") == 0
        assert await service.terminate() == 0
    assert callers.failures == []
    assert callers.answered > 100


@pytest.mark.slow
async def test_settings_that_do_not_hold_leave_the_processes_as_they_are(service_dsn: str, tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text("KB_SEARCH_MAX_LIMIT=20\n", "utf-8")
    file.chmod(0o600)
    async with several(service_dsn, tmp_path) as service:
        before = {process.pid for process in children(service)}
        file.write_text("KB_SEARCH_MAX_LIMIT=none\n", "utf-8")
        service.process.send_signal(signal.SIGHUP)
        async with asyncio.timeout(60):
            while "the processes are not replaced" not in service.read_output():  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert {process.pid for process in children(service)} == before
        async with httpx.AsyncClient(trust_env=False) as client:
            assert (await client.get(f"{service.url}/readyz")).status_code == 200


@pytest.mark.slow
async def test_a_database_that_fails_during_its_check_leaves_the_processes_as_they_are(
    service_dsn: str, superuser_dsn: str, tmp_path: Path
) -> None:
    async with several(service_dsn, tmp_path) as service, connected(superuser_dsn) as superuser:
        before = {process.pid for process in children(service)}
        database = await superuser.fetchval("select current_database()")
        of_role = f"alter role kb_service in database {database}"
        await superuser.execute(f"{of_role} set statement_timeout = '1ms'")
        try:
            service.process.send_signal(signal.SIGHUP)
            async with asyncio.timeout(60):
                while "the processes are not replaced" not in service.read_output():  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
        finally:
            await superuser.execute(f"{of_role} reset statement_timeout")
        assert {process.pid for process in children(service)} == before
        async with httpx.AsyncClient(trust_env=False) as client:
            assert (await client.get(f"{service.url}/readyz")).status_code == 200
