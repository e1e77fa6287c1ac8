"""Waiting until what was written is searchable, with progress on stderr."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING
from uuid import UUID

from app.cli.terminal import remark, show_progress
from app.errors import AssetNotFound

if TYPE_CHECKING:
    from app.composition import Services
    from app.knowledge.assets import Asset

POLL_SECONDS = 0.25
LOOK_AHEAD = 20
"""Unfinished assets asked about in one round: work is done about in the order in which it was handed in."""
STALLED_SECONDS = 60.0
UPKEEP_SECONDS = 3.0
"""How long a large tenant waits for its word statistics too; some jobs are due later, and any worker does them."""


class _Patience:
    """Says once, after a while without any progress, why that may be."""

    def __init__(self) -> None:
        self._seen: object = None
        self._since = time.monotonic()
        self._told = False

    def note(self, state: object) -> None:
        if state != self._seen:
            self._seen, self._since = state, time.monotonic()
        elif not self._told and time.monotonic() - self._since > STALLED_SECONDS:
            self._told = True
            remark(
                "nothing has moved for a while: the embedding provider may be away (knowledge doctor);"
                " everything is kept, and Ctrl-C loses nothing"
            )


class AssetWatch:
    """Assets that are still being read: `waiting` by id with their names; `failed` with names and reasons."""

    def __init__(self, services: Services, tenant_id: UUID) -> None:
        self._services = services
        self._tenant_id = tenant_id
        self._patience = _Patience()
        self.waiting: dict[UUID, str] = {}
        self.failed: list[tuple[str, str]] = []
        self.indexed = 0

    async def look(self) -> bool:
        """Ask about those that were handed in first; returns whether any of them is done."""
        head = list(self.waiting)[:LOOK_AHEAD]
        states = [await _look(self._services, self._tenant_id, asset_id) for asset_id in head]
        for asset_id, asset in zip(head, states, strict=True):
            if asset is not None and asset.status not in ("indexed", "failed"):
                continue
            name = self.waiting.pop(asset_id)
            if asset is None:
                self.failed.append((name, "was deleted meanwhile"))
            elif asset.status == "failed":
                self.failed.append((name, asset.error or "no reason was given"))
            else:
                self.indexed += 1
        self._patience.note((len(self.waiting), [asset.progress for asset in states if asset]))
        return list(self.waiting)[:LOOK_AHEAD] != head

    async def finish(self, report: Callable[[], None]) -> None:
        """Wait until every asset is indexed or failed. A worker must be at work, here or elsewhere."""
        while self.waiting:
            if not await self.look():
                await asyncio.sleep(POLL_SECONDS)
            report()


async def wait_for_assets(
    services: Services, tenant_id: UUID, names: Mapping[UUID, str], label: str
) -> list[tuple[str, str]]:
    """Wait until every asset is indexed or failed; returns name and reason of those that failed."""
    watch = AssetWatch(services, tenant_id)
    watch.waiting |= names
    with show_progress(label, len(names)) as report:
        await watch.finish(lambda: report(len(names) - len(watch.waiting)))
    return watch.failed


async def _look(services: Services, tenant_id: UUID, asset_id: UUID) -> Asset | None:
    try:
        return await services.assets.get(tenant_id, asset_id)
    except AssetNotFound:
        return None


async def wait_for_embeddings(services: Services, tenant_id: UUID) -> int:
    """Wait until no entry waits for its vector; returns how many the provider refused.

    A worker must be at work, here or elsewhere.
    """
    from app.knowledge.upkeep import LEAST_ENTRIES

    statistics = await services.administration.stats(tenant_id)
    total = pending = int(statistics["pending_embeddings"])
    patience = _Patience()
    if total:
        with show_progress("embeddings", total) as report:
            while pending:
                await asyncio.sleep(POLL_SECONDS)
                statistics = await services.administration.stats(tenant_id)
                pending = int(statistics["pending_embeddings"])
                total = max(total, pending)
                report(total - pending)
                patience.note(pending)
                if not statistics["jobs"]:
                    break  # nobody will try the rest again
    large = statistics["entries"] >= LEAST_ENTRIES
    deadline = time.monotonic() + UPKEEP_SECONDS
    while large and statistics["jobs"] and time.monotonic() < deadline:
        await asyncio.sleep(POLL_SECONDS)
        statistics = await services.administration.stats(tenant_id)
    return pending
