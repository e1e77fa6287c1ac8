"""The entries as peers keep them: copies in stores of their own, made once and kept under `.bench/`."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.dataset import RECIPE
from benchmarks.place import KEPT, alone
from benchmarks.population import Population
from benchmarks.stock import BATCH, Stock, StockEntry


class Copy:
    """One peer's folder, and whether its copy of the entries is complete."""

    def __init__(self, name: str, version: int, kept: Path = KEPT) -> None:
        """`version` goes up when the copy would be made otherwise."""
        self._kept = kept
        self.folder = kept / "peers" / name
        self._mark = self.folder / "complete"
        self._made_by = f"recipe {RECIPE}, copy {version}"

    @property
    def complete(self) -> bool:
        """Whether it is there, of this recipe."""
        return self._mark.is_file() and self._mark.read_text(encoding="ascii") == self._made_by

    async def ensure(self, make: Callable[[Path], Awaitable[None]]) -> None:
        """Let `make` fill the empty folder, unless the copy is complete; it is when `make` ends without an error."""
        async with alone(self._kept):
            if self.complete:
                return
            self.discard()
            self.folder.mkdir(parents=True)
            await make(self.folder)
            self._mark.write_text(self._made_by, encoding="ascii")

    def discard(self) -> None:
        """Remove it, complete or not."""
        shutil.rmtree(self.folder, ignore_errors=True)


def iterate_batches(
    stock: Stock, tenants: Sequence[Population]
) -> Iterator[tuple[Population, Sequence[StockEntry]]]:
    """All entries of the tenants, up to BATCH of one tenant at a time."""
    for tenant in tenants:
        for start in range(0, tenant.size, BATCH):
            yield tenant, stock.make_batch(tenant, start)
