"""Wait until writes are searchable, with progress on stderr."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING
from uuid import UUID

from app.cli.output.progress import show_progress
from app.cli.output.text import remark
from app.errors import AssetNotFound, Forbidden

if TYPE_CHECKING:
    from app.cli.knowledge import Knowledge
    from app.contract.assets import Asset

POLL_SECONDS = 0.25
LOOK_AHEAD = 20
"""Unfinished assets to check per round: jobs finish roughly in the order of submission."""
STALLED_SECONDS = 60.0
UPKEEP_SECONDS = 3.0
"""Seconds to also wait for the word statistics of a large tenant; some jobs are due later, and any worker runs them."""


class Patience:
    """The limit of a wait without progress; after a while, it reports a possible reason once.

    It ends `away` seconds after the last progress if the provider was down since, and otherwise after `still` seconds.
    """

    def __init__(
        self,
        services: Knowledge,
        tenant_id: UUID,
        *,
        away: float = STALLED_SECONDS,
        still: float = math.inf,
    ) -> None:
        self._services = services
        self._tenant_id = tenant_id
        self._away = away
        self._still = still
        self._least = math.inf
        self._since = time.monotonic()
        self._told = False

    async def is_over(self, left: float) -> bool:
        """Check with the remaining work. Only a new minimum is progress: postponed jobs start again."""
        now = time.monotonic()
        if left < self._least:
            self._least, self._since = left, now
            return False
        waited = now - self._since
        if waited >= self._still:
            return True
        if waited >= self._away and await self._services.embedder.is_provider_away(self._tenant_id, within=self._away):
            return True
        if not self._told and waited > STALLED_SECONDS:
            self._told = True
            remark("no progress for a while; all uploads are stored, so Ctrl-C is safe")
        return False


class AssetWatch:
    """Assets in progress: `waiting` by id with their names; `failed` with names and reasons; `without_text` with names
    and numbers of pages."""

    def __init__(self, services: Knowledge, tenant_id: UUID) -> None:
        self._services = services
        self._tenant_id = tenant_id
        self._left = 0.0
        self.waiting: dict[UUID, str] = {}
        self.failed: list[tuple[str, str]] = []
        self.without_text: list[tuple[str, list[int]]] = []
        self.indexed = 0

    async def look(self) -> bool:
        """Check the oldest ones; return whether any of them has finished."""
        head = list(self.waiting)[:LOOK_AHEAD]
        states = [await _look(self._services, self._tenant_id, asset_id) for asset_id in head]
        for asset_id, asset in zip(head, states, strict=True):
            if asset is not None and asset.status not in ("indexed", "failed"):
                continue
            name = self.waiting.pop(asset_id)
            if asset is None:
                self.failed.append((name, "was deleted in the meantime"))
            elif asset.status == "failed":
                self.failed.append((name, asset.error or "no reason is known"))
            else:
                self.indexed += 1
                if asset.pages_without_text:
                    self.without_text.append((name, list(asset.pages_without_text)))
        self._left = len(self.waiting) - sum(
            asset.progress for asset in states if asset is not None and asset.id in self.waiting
        )
        return list(self.waiting)[:LOOK_AHEAD] != head

    async def finish(self, report: Callable[[], None], patience: Patience | None = None) -> None:
        """Wait until every asset is indexed or failed, for as long as `patience` lasts, by default for ever.

        A worker must be running, here or elsewhere.
        """
        patience = patience or Patience(self._services, self._tenant_id, away=math.inf)
        while self.waiting:
            if not await self.look():
                await asyncio.sleep(POLL_SECONDS)
            report()
            if self.waiting and await patience.is_over(self._left):
                return


async def wait_for_assets(
    services: Knowledge, tenant_id: UUID, names: Mapping[UUID, str], label: str, patience: Patience
) -> bool:
    """Wait until every asset is indexed or failed; False when patience ran out first."""
    watch = AssetWatch(services, tenant_id)
    watch.waiting |= names
    with show_progress(label, len(names)) as report:
        await watch.finish(lambda: report(len(names) - len(watch.waiting)), patience)
    return not watch.waiting


async def _look(services: Knowledge, tenant_id: UUID, asset_id: UUID) -> Asset | None:
    try:
        return await services.assets.get(tenant_id, asset_id)
    except AssetNotFound:
        return None


async def wait_for_embeddings(services: Knowledge, tenant_id: UUID, patience: Patience | None = None) -> int | None:
    """Wait until no entry waits for its vector, for as long as `patience` lasts; returns how many have none: the
    provider refused them, or is down. None if the token of a service elsewhere may not read the tenant's statistics.

    A worker must be running, here or elsewhere.
    """
    patience = patience or Patience(services, tenant_id)
    try:
        statistics = await services.administration.stats(tenant_id)
    except Forbidden:
        return None
    total = pending = statistics.pending_embeddings
    if total:
        with show_progress("embeddings", total) as report:
            while pending:
                await asyncio.sleep(POLL_SECONDS)
                statistics = await services.administration.stats(tenant_id)
                pending = statistics.pending_embeddings
                total = max(total, pending)
                report(total - pending)
                if not statistics.jobs:
                    break  # the rest will not be retried
                if pending and await patience.is_over(pending):
                    remark(
                        "the embedding provider does not answer: a running service, or knowledge worker, creates the"
                        " vectors when it answers again"
                    )
                    break
    return pending


async def wait_for_upkeep(services: Knowledge, tenant_id: UUID) -> None:
    """Wait a moment for the word statistics of a large tenant."""
    from app.knowledge.upkeep import LEAST_ENTRIES

    deadline = time.monotonic() + UPKEEP_SECONDS
    while time.monotonic() < deadline:
        statistics = await services.administration.stats(tenant_id)
        if statistics.entries < LEAST_ENTRIES or not statistics.jobs:
            return
        await asyncio.sleep(POLL_SECONDS)
