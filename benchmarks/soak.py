"""Whether the service releases its resources: `python -m benchmarks.soak --minutes 10`.

A real service process with an embedded Postgres serves a mix of writes, uploads, searches and
administrative reads. Its memory, file handles, threads and database connections are sampled. After a
warm-up of a third of the time they must be flat: the last third is compared with the middle one.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import os
import random
import secrets
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from uuid import UUID

import asyncpg
import httpx
import psutil

from app.auth.issuing import issue_token
from app.auth.principal import Role
from app.composition.database import embedded_database, prepare
from app.composition.services import build_services
from app.contract.administration import NewTenant
from app.db.database import Database
from app.embeddings.factory import ProviderConfig, build_provider

KEPT_ENTRIES = 200
"""Entries that stay; older ones are deleted, so that the data does not grow while memory is sampled."""
SAMPLE_SECONDS = 2.0
ALLOWED_MEGABYTES = 12.0
ALLOWED_SHARE = 0.06
"""Allowed growth of the mean memory from the middle third to the last: allocators and caches fluctuate."""
ALLOWED_HANDLES = 3.0
WORDS = [
    "harbour",
    "berth",
    "lock",
    "quay",
    "tide",
    "pilot",
    "crane",
    "mooring",
    "lighthouse",
    "ferry",
    "cargo",
    "anchor",
    "dock",
    "vessel",
    "channel",
]


@dataclass(frozen=True, slots=True)
class Sample:
    """Resources of the service's processes at one moment; memory in megabytes, connections of its role in Postgres."""

    at: float
    memory: float
    handles: int
    threads: int
    connections: int


@dataclass(slots=True)
class Mix:
    """Requests of callers in random order, and their responses by status."""

    http: httpx.AsyncClient
    chance: random.Random
    statuses: Counter[int] = field(default_factory=Counter)
    entries: list[str] = field(default_factory=list)
    assets: list[str] = field(default_factory=list)
    numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    async def act(self) -> None:
        """One request; some kinds send several, to remove what they created."""
        text = f"{' '.join(self.chance.choices(WORDS, k=30))} {next(self.numbers)}"
        kind = self.chance.random()
        if kind < 0.55:
            mode = self.chance.choice(("hybrid", "semantic", "keyword"))
            await self._send("POST", "/knowledge/search", json={"query": text[:40], "mode": mode})
        elif kind < 0.70:
            answer = await self._send("POST", "/knowledge/entries", json={"content": text})
            self.entries.append(answer.json()["id"])
            if len(self.entries) > KEPT_ENTRIES:
                await self._send("DELETE", f"/knowledge/entries/{self.entries.pop(0)}")
        elif kind < 0.78 and self.entries:
            path = f"/knowledge/entries/{self.chance.choice(self.entries)}"
            await self._send("PATCH", path, json={"title": text[:30]})
        elif kind < 0.83:
            file = (f"{next(self.numbers)}.md", f"# {text[:20]}\n\n{text}\n".encode(), "text/markdown")
            answer = await self._send("POST", "/knowledge/assets", files={"file": file})
            self.assets.append(answer.json()["id"])
            if len(self.assets) > KEPT_ENTRIES // 10:
                await self._send("DELETE", f"/knowledge/assets/{self.assets.pop(0)}")
        elif kind < 0.88:
            await self._send("POST", "/knowledge/search", json={"query": "", "limit": 0})
        else:
            path = self.chance.choice(
                ("/knowledge/entries", "/knowledge/assets", "/admin/stats", "/readyz", "/metrics")
            )
            await self._send("GET", path)

    async def _send(self, method: str, path: str, **options: object) -> httpx.Response:
        answer = await self.http.request(method, path, **options)  # type: ignore[arg-type]
        self.statuses[answer.status_code] += 1
        if answer.status_code >= 500:
            raise RuntimeError(f"{method} {path}: {answer.status_code} {answer.text}")
        return answer


async def soak(seconds: float, callers: int, rate: float, provider: str, folder: Path) -> list[Sample]:
    """Serve for this time with `rate` requests a second in all. Raises RuntimeError for a status of 500 or above."""
    secret = secrets.token_hex(32)
    config = ProviderConfig(provider)
    async with embedded_database(folder / "data") as addresses:
        assert addresses.admin is not None
        model = build_provider(config)
        await prepare(addresses.admin, service_role="kb_service", model=model.model)
        database = Database(addresses.service, pool_size=1)
        services = await build_services(database, model)
        tenant = await services.tenants.create(NewTenant(f"soak-{secrets.token_hex(4)}"), actor="soak")
        await model.close()
        await database.close()
        settings = {"DATABASE_URL": addresses.service, "EMBEDDING_PROVIDER": provider, "JWT_SECRET": secret}
        async with served(settings, folder) as (process, url):
            return await _apply(process, url, secret, tenant.id, addresses.service, seconds, callers, rate)


@contextlib.asynccontextmanager
async def served(settings: dict[str, str], folder: Path) -> AsyncIterator[tuple[psutil.Process, str]]:
    """The service in two processes, which one without requests has started, ready."""
    port = str(random.randint(20_000, 40_000))
    process = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).with_name("knowledge")),
        "serve",
        "--workers",
        "2",
        cwd=folder,
        env={"PATH": os.environ["PATH"], "KB_PORT": port, "KB_DRAIN_SECONDS": "0", "LOG_LEVEL": "error", **settings},
    )
    url = f"http://127.0.0.1:{port}"
    try:
        async with httpx.AsyncClient(trust_env=False) as http, asyncio.timeout(120):
            while True:
                with contextlib.suppress(httpx.TransportError):
                    if (await http.get(f"{url}/readyz")).status_code == 200:
                        break
                await asyncio.sleep(0.1)
        yield psutil.Process(process.pid), url
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _apply(
    process: psutil.Process, url: str, secret: str, tenant_id: UUID, dsn: str, seconds: float, callers: int, rate: float
) -> list[Sample]:
    token = issue_token(secret, tenant_id=tenant_id, roles=[Role.TENANT_ADMIN], subject="soak", ttl=int(seconds) + 600)
    headers = {"Authorization": f"Bearer {token}"}
    began = time.monotonic()
    samples: list[Sample] = []
    observer = await asyncpg.connect(dsn)
    async with httpx.AsyncClient(base_url=url, headers=headers, trust_env=False, timeout=60) as http:
        mix = Mix(http, random.Random(1))

        async def call() -> None:
            while time.monotonic() - began < seconds:
                await mix.act()
                await asyncio.sleep(mix.chance.uniform(0, 2 * callers / rate))

        working = [asyncio.create_task(call()) for _ in range(callers)]
        while not all(task.done() for task in working):
            await asyncio.sleep(SAMPLE_SECONDS)
            samples.append(await _sample(process, observer, time.monotonic() - began))
            if len(samples) % 15 == 0:
                _show(samples[-1], sum(mix.statuses.values()))
        await asyncio.gather(*working)
    await observer.close()
    print("answers by status:", dict(sorted(mix.statuses.items())))
    return samples


async def _sample(process: psutil.Process, observer: asyncpg.Connection[asyncpg.Record], at: float) -> Sample:
    connections = await observer.fetchval(
        "select count(*) from pg_stat_activity where usename = current_user and pid <> pg_backend_pid()"
    )
    processes = [process, *process.children()]
    memory = sum(each.memory_info().rss for each in processes) / 2**20
    handles = sum(each.num_fds() for each in processes)
    return Sample(at, memory, handles, sum(each.num_threads() for each in processes), connections)


def _show(sample: Sample, answers: int) -> None:
    print(
        f"{sample.at:6.0f} s  {sample.memory:7.1f} MB  {sample.handles:4} handles  {sample.threads:3} threads  "
        f"{sample.connections:3} connections  {answers:7} answers",
        flush=True,
    )


def judge(samples: Sequence[Sample]) -> list[str]:
    """What grew from the middle third to the last."""
    third = len(samples) // 3
    middle, last = samples[third : 2 * third], samples[2 * third :]
    grown: list[str] = []
    for name in ("memory", "handles", "threads", "connections"):
        before, after = (mean(getattr(s, name) for s in part) for part in (middle, last))
        allowed = max(ALLOWED_MEGABYTES, ALLOWED_SHARE * before) if name == "memory" else ALLOWED_HANDLES
        print(f"{name:12} {before:8.1f} in the middle third, {after:8.1f} in the last")
        if after - before > allowed:
            grown.append(name)
    return grown


def main() -> int:
    """Run the program; returns 1 when something grew."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--callers", type=int, default=4)
    parser.add_argument("--rate", type=float, default=20.0, help="requests a second, at most")
    parser.add_argument("--provider", default="local", choices=("local", "mock"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        samples = asyncio.run(soak(options.minutes * 60, options.callers, options.rate, options.provider, Path(folder)))
    grown = judge(samples)
    print("grew: " + ", ".join(grown) if grown else "flat")
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
