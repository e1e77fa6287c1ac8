"""How long the first search takes, compared with a later one: `python -m benchmarks.first_search [--rounds N]`.

In each round the service is started again. Measured over HTTP, one caller, each query for the first time: the first
search after `/readyz` is ready, the first of a tenant that was just created, and the first after every database
connection was ended.
"""

import argparse
import asyncio
import itertools
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator
from uuid import UUID

import asyncpg
import orjson

from app.auth.principal import Role
from app.cli.token import make_token
from app.composition.database import open_database
from app.composition.demo import load_demo
from app.composition.services import Services, open_services
from app.contract.administration import NewTenant
from app.db.rows import new_id
from app.settings import Settings
from benchmarks.connection import Connection
from benchmarks.place import KEPT, bench_settings
from benchmarks.serving import serve_installation

PAUSE = 3.0
"""Seconds after the connections were ended; one that is needed at once is waited for."""

WARM = 30
"""Searches of which the median is the time of a later one."""

END = "select pg_terminate_backend(pid) from pg_stat_activity where usename = current_user and pid <> pg_backend_pid()"
SUBJECTS = ("backups", "payments", "deployments", "incidents", "passwords", "caches", "releases", "limits")
QUESTIONS = ("how do we handle {}", "who decides about {}", "when were {} changed", "rules for {} and {}")


def make_queries() -> Iterator[str]:
    """Queries of a few words, none of them twice."""
    for number in itertools.count():
        for question, subject in itertools.product(QUESTIONS, SUBJECTS):
            yield question.format(subject, f"step {number}") + (f" {number}" if number else "")


class Caller:
    """One caller of the service, with the token of one tenant."""

    def __init__(self, settings: Settings, port: int, tenant_id: UUID, queries: Iterator[str]) -> None:
        token = make_token(settings, tenant_id, [Role.READER], "benchmark", 3600)
        self._connection = Connection(f"http://127.0.0.1:{port}", token)
        self._queries = queries

    async def search(self) -> float:
        """The milliseconds of one search."""
        body = orjson.dumps({"query": next(self._queries)})
        began = time.perf_counter()
        status, answer = await self._connection.ask("/knowledge/search", body)
        took = 1000 * (time.perf_counter() - began)
        if status != 200:
            raise RuntimeError(f"the service answered {status}: {answer[:200].decode()}")
        return took

    async def search_warm(self) -> float:
        """The median of later searches."""
        return statistics.median([await self.search() for _ in range(WARM)])


async def measure(settings: Settings, services: Services, demo: UUID) -> dict[str, tuple[float, float]]:
    """The milliseconds of each first search and of a later one, in one start of the service."""
    queries = make_queries()
    async with open_database(settings) as addresses, serve_installation(settings) as (port, _):
        caller = Caller(settings, port, demo, queries)
        first = await caller.search()
        warm = await caller.search_warm()
        tenant = await services.tenants.create(NewTenant(f"first-{new_id().hex}"), actor="benchmark")
        newcomer = Caller(settings, port, tenant.id, queries)
        found = {
            "after the start": (first, warm),
            "of a new tenant": (await newcomer.search(), await newcomer.search_warm()),
        }
        connection = await asyncpg.connect(addresses.service)
        await connection.fetch(END)
        await connection.close()
        await asyncio.sleep(PAUSE)
        found["on a new connection"] = (await caller.search(), warm)
        await services.tenants.delete(tenant.id, actor="benchmark")
        return found


async def main(rounds: int) -> None:
    """Print the medians of all rounds."""
    settings = bench_settings(KEPT / "first")
    found = defaultdict[str, list[tuple[float, float]]](list)
    async with open_services(settings) as services:
        demo = await load_demo(services)
        for number in range(rounds):
            for name, times in (await measure(settings, services, demo.id)).items():
                found[name].append(times)
                print(f"round {number + 1}, first search {name}: {times[0]:.1f} ms, later {times[1]:.1f}", flush=True)
    for name, pairs in found.items():
        first, warm = (statistics.median(times) for times in zip(*pairs, strict=True))
        print(f"first search {name}: {first:.1f} ms, later {warm:.1f} ms, ratio {first / warm:.1f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    asyncio.run(main(parser.parse_args().rounds))
