"""Shutdowns and supervision."""

import asyncio
import contextlib
import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from app.auth.principal import Role
from app.composition.services import Services
from app.contract.administration import NewTenant
from app.contract.entries import EntryDraft
from tests.faults.balancer import balance
from tests.faults.load import calling
from tests.faults.service import (
    DRAIN_SECONDS,
    PROCESSES,
    ServedProcess,
    children,
    launched,
    served,
    settings_for,
    settings_of_several,
    several,
    wait_for_line,
)
from tests.faults.stopping import expect_clean_log, stop_at_work
from tests.fixtures.database.cluster import connected
from tests.fixtures.http.callers import make_token

CALLERS = 6


@pytest.mark.slow  # the quick run has it in test_processes.py
async def test_a_stopping_instance_is_not_ready_but_finishes_its_requests(
    service_dsn: str, services: Services, tmp_path: Path
) -> None:
    tenant = await services.tenants.create(NewTenant("stopped"), actor="test")
    settings = settings_for(service_dsn, KB_DRAIN_SECONDS=str(DRAIN_SECONDS))
    async with served(settings, tmp_path) as service:
        await stop_at_work(service, make_token(tenant.id, Role.CREATOR))


@pytest.mark.slow
async def test_a_rolling_restart_fails_no_request(service_dsn: str, services: Services, tmp_path: Path) -> None:
    tenant = await services.tenants.create(NewTenant("served"), actor="test")
    await services.entries.create(tenant.id, EntryDraft(content="The harbour opens at six"))
    token = make_token(tenant.id, Role.CREATOR)
    settings = settings_for(service_dsn, KB_DRAIN_SECONDS=str(DRAIN_SECONDS))
    async with (
        served(settings, tmp_path) as first,
        served(settings, tmp_path) as second,
        balance(first.port, second.port) as (balancer, url),
        contextlib.AsyncExitStack() as later,
    ):
        async with calling(url, token, CALLERS) as callers:
            await callers.wait_for_more()
            await stop_at_work(first, token)
            third = await later.enter_async_context(served(settings, tmp_path))
            balancer.add(third.port)
            await callers.wait_for_more()
            await asyncio.sleep(0.2)
            await stop_at_work(second, token)
            await callers.wait_for_more()
        assert await third.terminate() == 0
    assert callers.failures == []
    assert callers.answered > 100
    print(f"{callers.answered} answers while three instances were started and stopped")  # noqa: T201
    expect_clean_log(third)


NO_ROOM = "1:"
"""Fewer processes than the user has, as the soft limit."""
ROOM = "10000:"


@asynccontextmanager
async def silent_check(superuser_dsn: str) -> AsyncIterator[None]:
    """While the block runs, the database does not answer a service that checks it."""
    async with connected(superuser_dsn) as superuser, superuser.transaction():
        await superuser.execute("lock table alembic_version in access exclusive mode")
        yield


def as_ordinary_user(folder: Path) -> Sequence[str]:
    """A command that runs another one as a user whose number of processes the kernel limits."""
    if os.geteuid():
        return ()
    account = pwd.getpwnam("nobody")
    for path in (folder, *folder.parents[:2]):
        path.chmod(0o755)
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv is not installed")
    # The interpreter and the socket of Postgres can be in folders that are closed to the user.
    passing = ("--inh-caps=+dac_override", "--ambient-caps=+dac_override")
    return "setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups", *passing


def limit_processes(service: ServedProcess, wrapper: Sequence[str], limit: str) -> None:
    """Set the limit of processes in the running service, as its user."""
    command = (*wrapper, "prlimit", f"--pid={service.process.pid}", f"--nproc={limit}")
    subprocess.run(command, check=True)


async def answers(service: ServedProcess) -> bool:
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        return (await client.get(f"{service.url}/healthz")).status_code == 200


async def wait_for_processes(service: ServedProcess, number: int) -> None:
    async with asyncio.timeout(60):
        while len(children(service)) != number:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


@pytest.mark.slow
async def test_a_start_without_room_for_a_process_has_one_reason(service_dsn: str, tmp_path: Path) -> None:
    wrapper = [*as_ordinary_user(tmp_path), "prlimit", "--nproc=1"]
    with pytest.raises(AssertionError, match="error: ") as failed:
        async with served(settings_of_several(service_dsn), tmp_path, wrapper):
            pass
    told = str(failed.value)
    assert "error: KB_WORKERS: cannot start a process (Resource temporarily unavailable)" in told
    assert told.count("error: ") == 1


@pytest.mark.slow
async def test_processes_without_room_are_started_later(service_dsn: str, tmp_path: Path) -> None:
    wrapper = as_ordinary_user(tmp_path)
    async with several(service_dsn, tmp_path, wrapper) as service:
        limit_processes(service, wrapper, NO_ROOM)
        killed = children(service)[1]
        killed.kill()
        await wait_for_line(service, "cannot start a process now: Resource temporarily unavailable", 2)
        assert await answers(service)
        assert len(children(service)) == PROCESSES - 1
        limit_processes(service, wrapper, ROOM)
        await wait_for_processes(service, PROCESSES)

        # Its signals arrive: it is replaced, and ends.
        ready = {process.pid for process in children(service)}
        service.process.send_signal(signal.SIGHUP)
        async with asyncio.timeout(60):
            while ready & {process.pid for process in children(service)}:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert await service.terminate() == 0


@pytest.mark.slow
async def test_a_service_without_room_at_its_start_serves_with_fewer_processes(
    service_dsn: str, tmp_path: Path
) -> None:
    wrapper = as_ordinary_user(tmp_path)
    async with launched(settings_of_several(service_dsn), tmp_path, wrapper) as service:
        async with asyncio.timeout(60):
            while not (first := children(service)):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        limit_processes(service, wrapper, NO_ROOM)
        await wait_for_line(service, "serving")
        assert children(service) == first
        assert await answers(service)
        limit_processes(service, wrapper, ROOM)
        await wait_for_processes(service, PROCESSES)
        assert await service.terminate() == 0


@pytest.mark.slow
async def test_a_database_that_does_not_answer_its_check_does_not_stop_signals(
    service_dsn: str, superuser_dsn: str, tmp_path: Path
) -> None:
    async with several(service_dsn, tmp_path) as service:
        before = {process.pid for process in children(service)}
        async with silent_check(superuser_dsn):
            service.process.send_signal(signal.SIGHUP)
            await wait_for_processes(service, PROCESSES + 1)
            (waiting,) = {process.pid for process in children(service)} - before
            assert await answers(service)
            # A second signal starts again, with a new process instead of the one that waits.
            service.process.send_signal(signal.SIGHUP)
            async with asyncio.timeout(60):
                while waiting in {process.pid for process in children(service)}:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            await wait_for_processes(service, PROCESSES + 1)
            assert before < {process.pid for process in children(service)}
            assert await service.terminate() == 0


@pytest.mark.slow
async def test_a_database_that_does_not_answer_its_check_in_time_leaves_the_processes(
    service_dsn: str, superuser_dsn: str, tmp_path: Path
) -> None:
    async with several(service_dsn, tmp_path) as service:
        before = {process.pid for process in children(service)}
        async with silent_check(superuser_dsn):
            service.process.send_signal(signal.SIGHUP)
            await wait_for_line(service, "the processes are not replaced: a new one did not start")
        assert "the database did not answer its check within 30 s" in service.read_output()
        assert {process.pid for process in children(service)} == before
        assert await answers(service)
        service.process.send_signal(signal.SIGHUP)
        async with asyncio.timeout(60):
            while before & {process.pid for process in children(service)}:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
