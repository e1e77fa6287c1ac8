"""Wait until writes are searchable, with progress on stderr."""

import time
from collections.abc import Callable
from uuid import UUID

from app.cli.door import Door
from app.cli.output.progress import show_progress
from app.cli.output.text import remark
from app.concurrency.patience import POLL_SECONDS, STALLED_SECONDS, Patience
from app.errors import AssetNotFound, Forbidden
from knowledge_client import administration, assets
from knowledge_client.models import Asset

LOOK_AHEAD = 20
"""Unfinished assets to check per round: jobs finish roughly in the order of submission."""
UPKEEP_SECONDS = 3.0
"""Seconds to also wait for the word statistics of a large tenant; some jobs are due later, and any worker runs them."""


class AssetWatch:
    """Assets in progress: `waiting` by id with their names; `failed` with names and reasons; `without_text` with
    names."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._left = 0.0
        self.waiting: dict[UUID, str] = {}
        self.failed: list[tuple[str, str]] = []
        self.without_text: list[tuple[str, Asset]] = []
        self.indexed = 0

    def look(self) -> bool:
        """Check the oldest ones; return whether any of them has finished."""
        head = list(self.waiting)[:LOOK_AHEAD]
        states = [_look(self._door, asset_id) for asset_id in head]
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
                if asset.pages_without_text or asset.places_without_text:
                    self.without_text.append((name, asset))
        self._left = len(self.waiting) - sum(
            asset.progress for asset in states if asset is not None and asset.id in self.waiting
        )
        return list(self.waiting)[:LOOK_AHEAD] != head

    def finish(self, report: Callable[[], None]) -> None:
        """Wait until every asset is indexed or failed. A worker must be running, here or elsewhere."""
        patience = Patience(tell=_reassure)
        while self.waiting:
            if not self.look():
                time.sleep(POLL_SECONDS)
            report()
            patience.is_over(self._left)


def _reassure() -> None:
    remark("no progress for a while; all uploads are stored, so Ctrl-C is safe")


def _look(door: Door, asset_id: UUID) -> Asset | None:
    try:
        return door.run(assets.get_asset(asset_id))
    except AssetNotFound:
        return None


def count_pending(door: Door) -> int | None:
    """How many entries have no vector yet; None if the token may not read the tenant's statistics."""
    try:
        return door.look(administration.get_statistics()).pending_embeddings
    except Forbidden:
        return None


def wait_for_embeddings(door: Door, still: float = STALLED_SECONDS) -> int | None:
    """Wait until no entry waits for its vector, or for `still` seconds without progress; returns how many have none:
    the provider refused them, or is down. None if the token may not read the tenant's statistics.

    A worker must be running, here or elsewhere.
    """
    patience = Patience(still, _reassure)
    pending = count_pending(door)
    if pending:
        total = pending
        with show_progress("embeddings", total) as report:
            while pending:
                time.sleep(POLL_SECONDS)
                statistics = door.look(administration.get_statistics())
                pending = statistics.pending_embeddings
                total = max(total, pending)
                report(total - pending)
                if not statistics.jobs:
                    break  # the rest will not be retried
                if pending and patience.is_over(pending):
                    remark(
                        "the embedding provider does not answer: a running service, or knowledge worker, creates the"
                        " vectors when it answers again"
                    )
                    break
    return pending


def wait_for_upkeep(door: Door) -> None:
    """Wait a moment for the word statistics of a large tenant."""
    from app.knowledge.upkeep import LEAST_ENTRIES

    deadline = time.monotonic() + UPKEEP_SECONDS
    while time.monotonic() < deadline:
        statistics = door.look(administration.get_statistics())
        if statistics.entries < LEAST_ENTRIES or not statistics.jobs:
            return
        time.sleep(POLL_SECONDS)
