"""What an installation costs while no caller needs it: `python -m benchmarks.idle [--tenants N] [--again]`.

The service is started with an empty folder and all defaults, tenants with a few entries each are created, and it is
left alone until it has nothing more to do. Then the processor time of all its processes is measured, also of those that
end in the meantime: those that serve, the embedded Postgres with its connections and background processes, and its
supervisor. `--again` measures the installation of the last run, which takes less time.
"""

import argparse
import asyncio
import shutil
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import psutil

from app.auth.principal import Role
from app.cli.token import make_token
from app.composition.services import Services, open_services
from app.contract.administration import NewTenant
from app.db.queries.jobs import count_jobs
from app.embedded.data_folder import DataFolder, read_state
from app.settings import Settings
from benchmarks.contenders.over_http import Client
from benchmarks.place import KEPT, bench_settings
from benchmarks.processor import measure_processor
from benchmarks.serving import serve_installation

FOLDER = KEPT / "idle"
TENANTS = 1_000
ENTRIES = 3
"""Of each tenant."""

LEFT_ALONE = 960.0
"""Seconds before the measurement, so that no tenant counts as active and autovacuum is done."""
LEFT_ALONE_AGAIN = 120.0
"""And for tenants of the last run: the first sweep is of all tenants."""

MEASURED = 600.0
"""Seconds: two sweeps of all tenants."""

BOUND = 0.5
"""Percent of one core."""


async def measure(tenants: int, left_alone: float, seconds: float) -> Mapping[str, float]:
    """The processor time of each kind of process, in percent of one core, with this number of new tenants."""
    if tenants:
        await asyncio.to_thread(shutil.rmtree, FOLDER, ignore_errors=True)
    settings = bench_settings(FOLDER)
    async with serve_installation(settings) as (port, pid):
        # Opened for this only: its connections would be measured too.
        async with open_services(settings) as services:
            for number in range(tenants):
                await _create_tenant(services, settings, port, number)
            while await count_jobs(services.database):  # noqa: ASYNC110  # those of another process
                await asyncio.sleep(1)
        state = read_state(DataFolder(settings.database.data_dir.resolve()))
        assert state is not None
        await asyncio.sleep(left_alone)
        before = _read_times((pid, state.supervisor_pid))
        await asyncio.sleep(seconds)
        after = _read_times((pid, state.supervisor_pid))
    return {kind: 100 * (after[kind] - before.get(kind, 0.0)) / seconds for kind in after}


async def _create_tenant(services: Services, settings: Settings, port: int, number: int) -> None:
    tenant = await services.tenants.create(NewTenant(f"idle-{number}"), actor="benchmark")
    token = make_token(settings, tenant.id, [Role.CREATOR], "benchmark", 600)
    client = Client(f"http://127.0.0.1:{port}/knowledge/entries/bulk", token)
    await client.post({"entries": [{"content": f"Note {n} of tenant {number} on moorings."} for n in range(ENTRIES)]})
    client.close()


def _read_times(roots: Sequence[int]) -> dict[str, float]:
    """The seconds of these processes and all below them, by kind.

    A process that has ended counts for the one that started it.
    """
    seconds: defaultdict[str, float] = defaultdict(float)
    for process in _list_processes(roots):
        try:
            times, command = process.cpu_times(), process.cmdline()
        except psutil.NoSuchProcess:
            continue
        kind = _name_kind(command)
        seconds[kind] += times.user + times.system
        seconds[f"ended, started by {kind}"] += times.children_user + times.children_system
    return seconds


def _list_processes(roots: Sequence[int]) -> Iterator[psutil.Process]:
    for pid in roots:
        root = psutil.Process(pid)
        yield root
        yield from root.children(recursive=True)


def _name_kind(command: Sequence[str]) -> str:
    """Postgres shows the kind of a process, and for a connection its role and state, in its title."""
    title = " ".join(command)
    if title.startswith("postgres: "):
        words = title.removeprefix("postgres: ").split()
        return "postgres: connections" if "[local]" in words else f"postgres: {' '.join(words)}"
    for part, kind in (("app.embedded.supervisor", "supervisor"), ("bin/postgres", "postgres: main process")):
        if part in title:
            return kind
    return "knowledge serve"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the share of a core of each kind of process; returns 1 when all together use more than the bound."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tenants", type=int, default=TENANTS)
    parser.add_argument("--seconds", type=float, default=MEASURED, help="how long the measurement takes")
    parser.add_argument("--again", action="store_true", help="measure the installation of the last run")
    chosen = parser.parse_args(arguments)
    again: bool = chosen.again
    left_alone = LEFT_ALONE_AGAIN if again else LEFT_ALONE
    shares = asyncio.run(measure(0 if again else chosen.tenants, left_alone, chosen.seconds))
    print(f"a fixed loop of Python: {measure_processor(time.process_time):.1f} ms of processor time")
    for kind, share in sorted(shares.items(), key=lambda item: -item[1]):
        if share >= 0.0005:
            print(f"{share:7.3f} %  {kind}")
    total = sum(shares.values())
    print(f"{total:7.3f} %  of one core in all; the bound for {TENANTS:,} tenants is {BOUND} %")
    return 1 if total > BOUND else 0


if __name__ == "__main__":
    raise SystemExit(main())
