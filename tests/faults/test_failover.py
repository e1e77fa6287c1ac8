"""The primary is killed and its standby promoted under the load of HTTP callers; the served process goes on."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from uuid import UUID, uuid4

import httpx
import pytest

from app.auth.principal import Role
from tests.faults.service import served, settings_for
from tests.fixtures.database.cluster import connected
from tests.fixtures.database.standby import ReplicatedDatabase, replicated_database
from tests.fixtures.http.callers import make_token

CALLERS = 3
"""Of each kind, for each of the two tenants."""

NOTICED_AFTER = 3.0
"""Seconds from the failure to the promotion, as with a cluster manager that notices it quickly."""


@dataclass(slots=True)
class Calls:
    """Writers, searchers and uploaders of one tenant; what they were answered, and when."""

    http: httpx.AsyncClient
    tenant: UUID
    entries: set[str] = field(default_factory=set)
    assets: set[str] = field(default_factory=set)
    statuses: Counter[str] = field(default_factory=Counter)
    longest: float = 0.0
    """Seconds of the longest call."""
    failed_at: float = 0.0
    """Time of the failure on the monotonic clock."""
    longest_refusal: float = 0.0
    """Seconds of the longest refused call, from the failure on."""
    successes: dict[str, list[float]] = field(default_factory=lambda: {"write": [], "search": [], "upload": []})
    running: bool = True
    numbers: count[int] = field(default_factory=count)

    async def _send(self, kind: str, request: httpx.Request) -> httpx.Response | None:
        began = time.monotonic()
        answer = await self.http.send(request)
        self.longest = max(self.longest, time.monotonic() - began)
        self.statuses[f"{kind} {answer.status_code}"] += 1
        # On a busy machine, a tenant's searches also rest in proportion to the time that they took.
        if answer.status_code == 503 or (kind, answer.status_code) == ("search", 429):
            self.longest_refusal = max(self.longest_refusal, time.monotonic() - max(began, self.failed_at))
            assert answer.headers["content-type"] == "application/problem+json"
            assert int(answer.headers["retry-after"]) >= 1
            await asyncio.sleep(0.05)
            return None
        assert answer.is_success, answer.text
        self.successes[kind].append(time.monotonic())
        return answer

    async def write(self) -> None:
        content = f"Berth number{next(self.numbers)} is free."
        request = self.http.build_request("POST", "/knowledge/entries", json={"content": content})
        if (answer := await self._send("write", request)) is not None:
            self.entries.add(answer.json()["id"])

    async def search(self) -> None:
        request = self.http.build_request("POST", "/knowledge/search", json={"query": "free berth"})
        await self._send("search", request)

    async def upload(self) -> None:
        file = (f"{uuid4()}.md", f"# Crane {uuid4()}\n\nIt lifts twelve tons.", "text/markdown")
        request = self.http.build_request("POST", "/knowledge/assets", files={"file": file})
        if (answer := await self._send("upload", request)) is not None:
            self.assets.add(answer.json()["id"])
        await asyncio.sleep(0.2)

    async def repeat(self, call: Callable[[], Awaitable[None]]) -> None:
        while self.running:
            await call()

    def have_all_succeeded(self, after: float) -> bool:
        """Whether calls of each kind have succeeded since then."""
        return all(times and times[-1] > after for times in self.successes.values())

    def first_success(self, kind: str, after: float) -> float:
        """Seconds from then to the first success."""
        return min((at - after for at in self.successes[kind] if at > after), default=float("inf"))

    async def wait_until_indexed(self) -> None:
        """Wait until workers have ingested every acknowledged file."""
        for asset in self.assets:
            while (await self.http.get(f"/knowledge/assets/{asset}")).json()["status"] != "indexed":  # noqa: ASYNC110
                await asyncio.sleep(0.05)


def open_http(url: str, tenant: UUID) -> httpx.AsyncClient:
    token = make_token(tenant, Role.TENANT_ADMIN)
    return httpx.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {token}"}, trust_env=False, timeout=60)


async def create_tenants(servers: ReplicatedDatabase) -> list[UUID]:
    tenants = [uuid4(), uuid4()]
    async with connected(servers.primary.service_dsn) as service:
        for tenant in tenants:
            await service.execute("select tenancy.create_tenant($1, $2, $2, 1, 'test')", tenant, f"t-{tenant.hex}")
    return tenants


async def assert_kept(servers: ReplicatedDatabase, calls: Calls) -> None:
    """Every acknowledged write is on the promoted server, and belongs to its tenant."""
    async with connected(servers.replica.superuser_dsn) as superuser:
        for table, acknowledged in (("entries", calls.entries), ("assets", calls.assets)):
            rows = await superuser.fetch(f"select id::text from {table} where tenant_id = $1", calls.tenant)
            assert acknowledged <= {row["id"] for row in rows}


@pytest.mark.slow
async def test_callers_see_a_failover_as_a_few_refusals(tmp_path: Path) -> None:
    async with replicated_database(tmp_path) as servers:
        await servers.replicate_synchronously()
        tenants = await create_tenants(servers)
        settings = settings_for(servers.service_dsn, KB_DRAIN_SECONDS="0")
        async with (
            served(settings, tmp_path) as service,
            served({**settings, "KB_WORKER": "off"}, tmp_path) as idle,
            open_http(service.url, tenants[0]) as first,
            open_http(service.url, tenants[1]) as second,
            open_http(idle.url, tenants[0]) as waiting,
        ):
            everyone = [Calls(http, tenant) for http, tenant in zip((first, second), tenants, strict=True)]
            assert (await waiting.get("/knowledge/entries")).status_code == 200
            for calls in everyone:  # the first calls of a process take longer
                for call in (calls.write, calls.search, calls.upload):
                    await call()
            async with asyncio.timeout(120), asyncio.TaskGroup() as group:
                for calls in everyone:
                    for call in (*[calls.write, calls.search] * CALLERS, calls.upload):
                        group.create_task(calls.repeat(call))
                await asyncio.sleep(3)
                servers.kill_primary()
                killed = time.monotonic()
                for calls in everyone:
                    calls.failed_at = killed
                await asyncio.sleep(NOTICED_AFTER)
                await servers.promote()
                promoted = time.monotonic()
                while not all(calls.have_all_succeeded(promoted) for calls in everyone):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                unused = await waiting.post("/knowledge/search", json={"query": "free berth"})
                await asyncio.sleep(2)
                for calls in everyone:
                    calls.running = False
            assert unused.status_code == 200, unused.text
            assert (await first.get("/readyz")).status_code == 200
            for calls in everyone:
                await assert_kept(servers, calls)
                async with asyncio.timeout(60):
                    await calls.wait_until_indexed()
                found = await calls.http.post("/knowledge/search", json={"query": "number0 berth", "limit": 50})
                assert {hit["id"] for hit in found.json()["results"]} & calls.entries
            report(everyone, killed, promoted)


def report(everyone: list[Calls], killed: float, promoted: float) -> None:
    longest = max(calls.longest for calls in everyone)
    refusal = max(calls.longest_refusal for calls in everyone)
    lines = [
        f"promoted {promoted - killed:.2f} s after the failure;"
        f" longest call {longest:.2f} s, longest refusal {refusal:.2f} s"
    ]
    for kind in ("write", "search", "upload"):
        first = min(calls.first_success(kind, promoted) for calls in everyone)
        statuses: Counter[str] = sum((calls.statuses for calls in everyone), Counter())
        answers = ", ".join(f"{number} × {name}" for name, number in statuses.items() if name.startswith(kind))
        lines.append(f"{kind}: first success {first:.3f} s after the promotion; {answers}")
    print(*lines, sep="\n")  # noqa: T201
