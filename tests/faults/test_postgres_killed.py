"""Postgres is killed repeatedly under load, as seen by HTTP callers."""

import asyncio
import json
import logging
import random
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

import httpx
import pytest

from app.auth.principal import Role
from app.contract.administration import NewTenant
from app.db.database import Database
from app.knowledge.audit import AuditTrail
from app.knowledge.tenants.directory import TenantDirectory
from tests.faults.service import ServedProcess, served, settings_for, wait_for_line
from tests.fixtures.database.cluster import connected
from tests.fixtures.database.killed_server import Server
from tests.fixtures.http.callers import make_token

log = logging.getLogger("tests.faults")

WRITERS = 4
BATCH = 10
PAUSE = 0.05
"""Seconds between two writes of a writer: the service and its database need the processor to recover."""
HANG = 20.0
"""Seconds after which a request or a recovery counts as hanging."""


@dataclass(slots=True)
class Load:
    """Writers, the writes acknowledged to them, and their refusals during outages."""

    server: Server
    http: httpx.AsyncClient
    headers: dict[str, str]
    acknowledged: set[str] = field(default_factory=set)
    refusals: list[float] = field(default_factory=list)
    """Seconds that each refused request waited: since the kill, or since it was sent if that was later."""
    last_success: float = 0.0
    running: bool = True

    async def write(self, name: int) -> None:
        number = 0
        while self.running:
            ids = [f"{name}-{number}-{i}" for i in range(BATCH)]
            number += 1
            while not await self._send(ids):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            await asyncio.sleep(PAUSE)

    async def _send(self, ids: list[str]) -> bool:
        entries = [{"external_id": i, "content": f"Berth {i} is free"} for i in ids]
        began = time.monotonic()
        answer = await self.http.post("/knowledge/entries/bulk", json={"entries": entries}, headers=self.headers)
        if answer.status_code == 503:
            assert answer.headers["content-type"] == "application/problem+json"
            assert int(answer.headers["retry-after"]) >= 1
            self.refusals.append(time.monotonic() - max(began, self.server.killed_at))
            return False
        assert answer.status_code == 200, answer.text
        assert {r["status"] for r in answer.json()["results"]} <= {"created", "unchanged"}
        self.acknowledged |= set(ids)
        self.last_success = time.monotonic()
        return True


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    server = Server(tmp_path / "data")
    await server.start()
    yield server
    await server.stop()


async def create_tenant(dsn: str) -> UUID:
    database = Database(dsn, pool_size=1)
    tenant = await TenantDirectory(database, AuditTrail(database), default_model_id=1).create(
        NewTenant("killed"), actor="test"
    )
    await database.close()
    return tenant.id


async def kill_under_load(server: Server, folder: Path, kills: int, least: int) -> None:
    """Kill Postgres `kills` times while at least `least` entries are written; the service is never restarted."""
    chance = random.Random(kills)  # noqa: S311 (no secret)
    dsn = server.database.service_dsn
    tenant_id = await create_tenant(dsn)
    headers = {"Authorization": f"Bearer {make_token(tenant_id, Role.CREATOR)}"}
    recoveries: list[float] = []
    async with (
        served(settings_for(dsn), folder) as service,
        httpx.AsyncClient(base_url=service.url, trust_env=False, timeout=HANG) as http,
    ):
        await wait_for_line(service, "serving")  # a process that starts during an outage is started again
        load = Load(server, http, headers)
        writers = [asyncio.create_task(load.write(name)) for name in range(WRITERS)]
        while server.kills < kills or len(load.acknowledged) < least:
            await asyncio.sleep(chance.uniform(0.2, 1.0))
            assert not any(task.done() for task in writers), [t.exception() for t in writers if t.done()]
            if server.kills >= kills:
                continue
            # The supervisor gives up after five crashes within a minute; connections may be killed more often.
            if server.kills % 3 == 0 and server.kills < 12:
                await server.kill_postmaster()
            else:
                await server.kill_backend(chance)
            await server.wait_until_back()
            recoveries.append(await wait_until_written(load))
        load.running = False
        await asyncio.gather(*writers)
        assert service.process.returncode is None
        await expect_all_kept(server, tenant_id, load, http)
        log.info(
            "%d kills, %d entries acknowledged, %d refusals: %s; recovery: %s",
            server.kills, len(load.acknowledged), len(load.refusals),
            describe(load.refusals), describe(recoveries),
        )  # fmt: skip
        expect_few_lines(service)


def describe(seconds: list[float]) -> str:
    """Median, 95th and 99th percentile, and maximum."""
    ordered = sorted(seconds) or [0.0]
    parts = {"median": 0.5, "p95": 0.95, "p99": 0.99, "slowest": 1.0}
    return ", ".join(f"{name} {ordered[int(part * (len(ordered) - 1))]:.3f} s" for name, part in parts.items())


async def wait_until_written(load: Load) -> float:
    """Wait until a write succeeds that began after now; returns the seconds."""
    began = time.monotonic()
    async with asyncio.timeout(HANG):
        while load.last_success <= began:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return time.monotonic() - began


async def expect_all_kept(server: Server, tenant_id: UUID, load: Load, http: httpx.AsyncClient) -> None:
    async with connected(server.database.superuser_dsn) as superuser:
        rows = await superuser.fetch("select external_id from entries where tenant_id = $1", tenant_id)
    kept = [row["external_id"] for row in rows]
    assert load.acknowledged <= set(kept)
    assert len(kept) == len(set(kept))
    body = {"query": "berth", "mode": "keyword"}
    found = await http.post("/knowledge/search", json=body, headers=load.headers)
    assert found.status_code == 200
    assert found.json()["results"]


def expect_few_lines(service: ServedProcess) -> None:
    """An outage logs one error with its stack at its begin and one line at its end, for any number of requests."""
    lines = [json.loads(line) for line in service.read_output().splitlines()]
    about = [line for line in lines if line["logger"] == "app.db.outage"]
    messages = [line["message"] for line in about]
    assert messages.count("the database is down") == messages.count("the database is back") > 0
    with_stack = {line["message"] for line in about if "exception" in line}
    assert {line["message"] for line in about if line["level"] == "error"} == with_stack
    assert "the database is down" in with_stack
    assert "the database is back" not in with_stack


async def test_acknowledged_writes_survive_a_killed_server(server: Server, tmp_path: Path) -> None:
    await kill_under_load(server, tmp_path, kills=1, least=50)


@pytest.mark.slow
async def test_thousands_of_acknowledged_writes_survive_twenty_kills(server: Server, tmp_path: Path) -> None:
    await kill_under_load(server, tmp_path, kills=20, least=5_000)
