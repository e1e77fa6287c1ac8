"""Copies of the entries in the peers' own stores, created once and kept under `.bench/`."""

import shutil
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path

import asyncpg

from benchmarks.corpus.dataset import RECIPE
from benchmarks.corpus.population import Population
from benchmarks.corpus.stock import BATCH, Stock, StockEntry
from benchmarks.place import alone
from benchmarks.texts import find_kind


class Copy:
    """One peer's folder, and whether its copy of the entries is complete."""

    def __init__(self, name: str, version: int, kept: Path) -> None:
        """Increase `version` when the way to build the copy changes."""
        self._kept = kept
        self.folder = kept / "peers" / name
        self._mark = self.folder / "complete"
        self._made_by = f"recipe {RECIPE}, {find_kind()}, copy {version}"

    @property
    def complete(self) -> bool:
        """Whether the copy exists and was built in this version."""
        return self._mark.is_file() and self._mark.read_text(encoding="ascii") == self._made_by

    async def ensure(self, make: Callable[[Path], Awaitable[None]]) -> None:
        """Let `make` fill the empty folder unless the copy is complete. It is complete when `make` ends
        without an error.
        """
        async with alone(self._kept):
            if self.complete:
                return
            self.discard()
            self.folder.mkdir(parents=True)
            await make(self.folder)
            self._mark.write_text(self._made_by, encoding="ascii")

    def discard(self) -> None:
        """Remove the copy, complete or not."""
        shutil.rmtree(self.folder, ignore_errors=True)


def iterate_batches(stock: Stock, tenants: Sequence[Population]) -> Iterator[tuple[Population, Sequence[StockEntry]]]:
    """All entries of the tenants, in batches of up to BATCH entries of one tenant."""
    for tenant in tenants:
        for start in range(0, tenant.size, BATCH):
            yield tenant, stock.make_batch(tenant, start)


async def database_exists(superuser_dsn: str, name: str) -> bool:
    """Whether the server has a database of this name, for a peer that is on the service's server."""
    connection = await asyncpg.connect(superuser_dsn)
    try:
        exists = await connection.fetchval("select exists (select from pg_database where datname = $1)", name)
        return bool(exists)
    finally:
        await connection.close()


async def recreate_database(superuser_dsn: str, name: str) -> None:
    """Create an empty database of this name in place of an incomplete one."""
    connection = await asyncpg.connect(superuser_dsn)
    try:
        await connection.execute(f"drop database if exists {name}")
        await connection.execute(f"create database {name}")
        # Graphs that do not fit take many times as long to build.
        await connection.execute(f"alter database {name} set maintenance_work_mem = '1GB'")
    finally:
        await connection.close()
