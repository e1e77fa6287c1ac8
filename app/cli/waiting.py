"""Waiting until what was written is searchable, with progress on stderr."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
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


async def wait_for_assets(
    services: Services, tenant_id: UUID, names: Mapping[UUID, str], label: str, total: int | None = None
) -> list[tuple[str, str]]:
    """Wait until every asset is indexed or failed; returns name and reason of those that failed.

    A worker must be at work, here or elsewhere. `total` counts others that were done before.
    """
    total = total if total is not None else len(names)
    waiting = list(names)
    failed: list[tuple[str, str]] = []
    patience = _Patience()
    with show_progress(label, total) as report:
        report(total - len(waiting))
        while waiting:
            head = waiting[:LOOK_AHEAD]
            states = [await _look(services, tenant_id, asset_id) for asset_id in head]
            for asset_id, asset in zip(head, states, strict=True):
                if asset is None:
                    failed.append((names[asset_id], "was deleted meanwhile"))
                elif asset.status == "failed":
                    failed.append((names[asset_id], asset.error or "no reason was given"))
                elif asset.status != "indexed":
                    continue
                waiting.remove(asset_id)
            report(total - len(waiting))
            patience.note((len(waiting), [asset.progress for asset in states if asset]))
            if waiting[:LOOK_AHEAD] == head:
                await asyncio.sleep(POLL_SECONDS)
    return failed


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
