"""How fast searches are on a fresh installation: `python -m benchmarks.fresh [--entries N]`.

The service is started with an empty folder and all defaults, entries are sent to it over HTTP, and it is left alone
until it has nothing more to do. Measured over HTTP with one caller and known embeddings: searches a second as the
installation is then, and again after `vacuum analyze` of the whole database. What the second gains, users never get.
"""

import argparse
import asyncio
import itertools
import shutil
from collections.abc import Sequence
from uuid import UUID

import asyncpg
import orjson

from app.auth.principal import Role
from app.cli.token import make_token
from app.composition.database import open_database
from app.composition.services import Services, open_services
from app.contract.administration import NewTenant
from app.db.principals import acting_for_service
from benchmarks.contenders.over_http import Client
from benchmarks.load import Timings, apply_load
from benchmarks.place import KEPT, bench_settings
from benchmarks.processor import measure_processor
from benchmarks.serving import LEFT_ALONE, serve_installation
from benchmarks.texts import Library, make_queries, read_library

FOLDER = KEPT / "fresh"
BATCH = 200
QUERIES = 40
"""Fewer than the service's query cache holds."""


async def measure(library: Library, left_alone: float, seconds: float) -> tuple[Timings, Timings]:
    """The searches of a fresh installation with these texts, and those after the database was prepared by hand."""
    await asyncio.to_thread(shutil.rmtree, FOLDER, ignore_errors=True)
    settings = bench_settings(FOLDER)
    async with (
        open_database(settings) as addresses,
        open_services(settings) as services,
        serve_installation(settings) as (port, _),
    ):
        assert addresses.admin is not None
        tenant = await services.tenants.create(NewTenant("fresh"), actor="benchmark")
        token = make_token(settings, tenant.id, [Role.CREATOR, Role.READER], "benchmark", 7200)
        admin = await asyncpg.connect(addresses.admin)
        try:
            await _fill(Client(f"http://127.0.0.1:{port}/knowledge/entries/bulk", token), library)
            await _wait_for_jobs(services, tenant.id)
            await asyncio.sleep(left_alone)
            client = Client(f"http://127.0.0.1:{port}/knowledge/search", token)
            queries = itertools.cycle(list(itertools.islice(make_queries(library.documents, seed=0), QUERIES)))

            async def search() -> None:
                await client.post({"query": next(queries)})

            for _ in range(QUERIES):
                await search()
            as_it_is = await apply_load(search, 1, seconds)
            await admin.execute("vacuum analyze")
            prepared = await apply_load(search, 1, seconds)
            client.close()
        finally:
            await admin.close()
    return as_it_is, prepared


async def _wait_for_jobs(services: Services, tenant_id: UUID) -> None:
    with acting_for_service():
        while (await services.administration.stats(tenant_id)).jobs:  # noqa: ASYNC110  # those of another process
            await asyncio.sleep(0.5)


async def _fill(client: Client, library: Library) -> None:
    for start in range(0, len(library.documents), BATCH):
        batch = library.documents[start : start + BATCH]
        entries = [{"title": d.title, "content": d.text, "external_id": d.id} for d in batch]
        answer = orjson.loads(await client.post({"entries": entries}))
        assert all(result["status"] == "created" for result in answer["results"]), answer
    client.close()


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the searches a second before and after the preparation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=10.0, help="how long each measurement takes")
    parser.add_argument("--left-alone", type=float, default=LEFT_ALONE, help="seconds without callers before")
    chosen = parser.parse_args(arguments)
    began = measure_processor()
    as_it_is, prepared = asyncio.run(measure(read_library(chosen.entries), chosen.left_alone, chosen.seconds))
    print(f"a fixed loop of Python: {began:.1f} ms before, {measure_processor():.1f} ms after")
    for name, timings in (("as the installation is", as_it_is), ("after `vacuum analyze`", prepared)):
        print(f"{name}: {timings.throughput:.0f} searches a second, p50 {timings.p50:.1f} ms, p95 {timings.p95:.1f} ms")
    print(f"ratio {prepared.throughput / as_it_is.throughput:.2f}")


if __name__ == "__main__":
    main()
