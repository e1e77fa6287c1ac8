"""Count how often entries are read, for the `access` boost. A read never waits for its count."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import defaultdict
from uuid import UUID

from app.concurrency.background import start_background
from app.db.database import Database
from app.db.principals import SERVICE, act_as
from app.db.queries import hits as db
from app.errors import DatabaseUnavailable, TenantNotFound

log = logging.getLogger("app.knowledge.entries")

LINGER = 2.0
"""Seconds after a read until it is counted; further reads of the entry in this time, such as polling, are not."""

MAX_NOTED = 10_000
"""Reads that wait to be counted; further ones are not counted."""

SETUP = "set local synchronous_commit=off;"


class AccessCounter:
    """Counts reads in the background, in one statement for each tenant."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._noted: set[tuple[UUID, UUID]] = set()
        self._writer: asyncio.Task[None] | None = None
        self._wanted = asyncio.Event()

    def note(self, tenant_id: UUID, entry_id: UUID) -> None:
        """Note a read; returns at once."""
        if len(self._noted) < MAX_NOTED:
            self._noted.add((tenant_id, entry_id))
        if self._writer is None or self._writer.done():
            self._wanted.clear()
            self._writer = start_background(self._write())

    async def flush(self) -> None:
        """Wait until the reads noted before this call are counted."""
        while self._writer is not None and not self._writer.done():
            self._wanted.set()
            await asyncio.wait([self._writer])

    async def close(self) -> None:
        """Count what was noted, within a few seconds."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.flush(), 5)

    async def _write(self) -> None:
        act_as(SERVICE)
        while self._noted:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wanted.wait(), LINGER)
            by_tenant: dict[UUID, list[UUID]] = defaultdict(list)
            for tenant_id, entry_id in self._noted:
                by_tenant[tenant_id].append(entry_id)
            self._noted.clear()
            for tenant_id, entry_ids in by_tenant.items():
                await self._write_tenant(tenant_id, entry_ids)

    async def _write_tenant(self, tenant_id: UUID, entry_ids: list[UUID]) -> None:
        try:
            async with self._database.tenant_session(tenant_id, setup=SETUP, aside=True) as session:
                await db.count_accesses(session, dict.fromkeys(entry_ids, 1))
        except TenantNotFound:
            return  # the tenant was deleted with its entries
        except Exception as error:  # a lost count must not stop the writer
            log.warning(
                "accesses were not counted",
                extra={"tenant_id": str(tenant_id), "entries": len(entry_ids)},
                # An unavailable database has already been logged.
                exc_info=None if isinstance(error, DatabaseUnavailable) else error,
            )
