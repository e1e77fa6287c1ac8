"""Run an erasure: remove, check in a new transaction, and repeat both a minute later.

    running → erased → done

Each step is a short transaction that holds the erasure, so an interrupted erasure continues where it stopped, and two
processes never work on the same one.
"""

from __future__ import annotations

import time
from datetime import timedelta
from uuid import UUID

from app.db.database import Database
from app.db.queries import erasures as db
from app.db.queries import removal as rows
from app.db.queries.erasures import HeldErasure
from app.db.queries.removal import Words
from app.db.session import TenantSession
from app.knowledge.erasure import removal
from app.knowledge.queue import JobQueue
from app.knowledge.search.journal import RECENT, SearchJournal

STEP = timedelta(minutes=10)
"""Time limit of a statement; most take milliseconds, the first reads the audit trail of a subject."""

SECOND_LOOK = RECENT + 5.0
"""Seconds between the two looks. A search that began before the removal may be recorded until then."""

AGAIN = 5.0
"""Seconds before the removal is repeated when a look has found something."""

TRAIL_ROWS = 20_000
"""Rows of the audit trail that one transaction changes."""

WORDS = ("tag_statistics", "lexeme_statistics")
"""Places that are checked after each batch, since their words are only known until then."""


class ErasureWork:
    """Works on erasures, for the request that asked and for the job that continues."""

    def __init__(self, database: Database, jobs: JobQueue, journal: SearchJournal) -> None:
        self._database = database
        self._jobs = jobs
        self._journal = journal

    async def advance(self, tenant_id: UUID, erasure_id: UUID, *, seconds: float) -> float | None:
        """Continue an erasure for about `seconds`.

        Returns None when it is finished, else the seconds to wait before the next call. Raises DatabaseUnavailable.
        """
        end = time.monotonic() + seconds
        await self._journal.flush()  # receipts of searches that this process has answered
        while True:
            pause = await self._step(tenant_id, erasure_id)
            if pause is None or pause > 0:
                return pause
            if time.monotonic() >= end:
                return 0.0

    async def _step(self, tenant_id: UUID, erasure_id: UUID) -> float | None:
        """Take one step; returns as `advance` does."""
        words: Words | None = None
        pause: float | None = 0.0
        async with self._database.tenant_session(tenant_id, background=STEP) as session:
            held = await db.hold_erasure(session, erasure_id)
            if held is None or held.state == "done":
                return None
            step = held.step
            match step:
                case "plan":
                    await removal.plan(session, held)
                    held.step = "remove"
                case "remove":
                    words = await removal.remove_some(session, held)
                    if words is None:
                        held.step = "receipts" if held.subject is None else "trail"
                case "receipts":
                    if not await removal.strip_receipts(session, held):
                        held.step, held.place = "look", db.FIRST
                case "look":
                    held.found = {place: held.found[place] for place in WORDS if place in held.found}
                    await removal.look(session, held)
                    held.step = "look_at_receipts"
                case "look_at_receipts":
                    if not await removal.look_at_receipts(session, held):
                        pause = await _conclude(session, held)
                        if pause == SECOND_LOOK and await rows.has_word_statistics(session):
                            # The words of items that were deleted or changed earlier are unknown: all are counted.
                            await self._jobs.enqueue(session, "refresh_statistics", "lexemes")
                case "trail":
                    pass
            await db.save_erasure(session, held, looked=pause != 0.0)
        if step == "trail":
            await self._change_trail(tenant_id, erasure_id)
        if words is not None:
            await self._look_for_words(tenant_id, erasure_id, words)
        return pause

    async def _change_trail(self, tenant_id: UUID, erasure_id: UUID) -> None:
        """Replace the subject in some rows of the audit trail."""
        async with self._database.shared_session(tenant_id) as session:
            changed = await rows.pseudonymise_actor(session, erasure_id, TRAIL_ROWS)
        await self._count(tenant_id, erasure_id, {"audit": changed}, {}, "trail" if changed else "receipts")

    async def _look_for_words(self, tenant_id: UUID, erasure_id: UUID, words: Words) -> None:
        """Look for the statistics of words and tags that a batch removed, in a transaction of its own."""
        if not words.lexemes and not words.tags:
            return
        async with self._database.tenant_session(tenant_id) as session:
            left = await rows.count_left_words(session, words)
        if left:
            await self._count(tenant_id, erasure_id, {}, left, "remove")

    async def _count(
        self, tenant_id: UUID, erasure_id: UUID, removed: dict[str, int], found: dict[str, int], step: db.Step
    ) -> None:
        async with self._database.tenant_session(tenant_id) as session:
            held = await db.hold_erasure(session, erasure_id)
            if held is not None:
                removal.add(held.removed, removed)
                removal.add(held.found, found)
                held.step = step
                await db.save_erasure(session, held)


async def _conclude(session: TenantSession, held: HeldErasure) -> float | None:
    """End a look: the next state, or the removal again if something was found; returns the pause before."""
    held.step, held.place = "remove", db.FIRST
    await db.look_for_all(session, held.id)
    if any(held.found.values()):
        # The words of the erased entries are no longer known; they are counted as new ones are removed.
        return AGAIN
    if held.state == "running":
        held.state = "erased"
        return SECOND_LOOK
    held.state = "done"
    await db.forget_items(session, held.id)
    return None
