"""Write what requests note in the background, the notes of a tenant in one transaction."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sized
from typing import Generic, TypeVar
from uuid import UUID

from app.concurrency.background import start_background
from app.db.database import Database
from app.db.principals import SERVICE, act_as
from app.db.session import TenantSession
from app.errors import DatabaseUnavailable, TenantNotFound

log = logging.getLogger("app.knowledge.background")

Notes = TypeVar("Notes", bound=Sized)

CLOSE_SECONDS = 5.0

SETUP = "set local synchronous_commit=off;"
"""What may be lost anyway need not wait for the disk."""


class BackgroundWriter(Generic[Notes]):
    """Writes notes some seconds after the first of them, so that others join them.

    Notes are lost when the process is killed, when the database refuses them, and with their tenant.
    """

    def __init__(
        self,
        database: Database,
        take: Callable[[], Mapping[UUID, Notes]],
        write: Callable[[TenantSession, Notes], Awaitable[object]],
        *,
        linger: float,
        lost: str,
        unit: str,
        on_lost: Callable[[Notes], None] | None = None,
    ) -> None:
        """`take` returns and removes the notes of each tenant that wait, and `write` writes those of one tenant.

        `lost` is the message of the log if that fails, and `unit` what its number counts.
        """
        self._database = database
        self._take = take
        self._write = write
        self._linger = linger
        self._lost, self._unit = lost, unit
        self._on_lost = on_lost
        self._writing: asyncio.Task[None] | None = None
        self._wanted = asyncio.Event()

    def start(self) -> None:
        """Have the notes written; call it after each note."""
        if self._writing is None or self._writing.done():
            self._wanted.clear()
            self._writing = start_background(self._run())

    async def flush(self) -> None:
        """Wait until the notes before this call are written."""
        while self._writing is not None and not self._writing.done():
            self._wanted.set()
            await asyncio.wait([self._writing])

    async def close(self) -> None:
        """Write the notes that wait, within a few seconds."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.flush(), CLOSE_SECONDS)

    async def _run(self) -> None:
        act_as(SERVICE)
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wanted.wait(), self._linger)
            taken = self._take()
            if not taken:
                return
            for tenant_id, notes in taken.items():
                await self._write_tenant(tenant_id, notes)

    async def _write_tenant(self, tenant_id: UUID, notes: Notes) -> None:
        try:
            async with self._database.tenant_session(tenant_id, setup=SETUP, aside=True) as session:
                await self._write(session, notes)
        except TenantNotFound:
            return
        except Exception as error:  # lost notes must not stop the writer, nor fail a request
            if self._on_lost is not None:
                self._on_lost(notes)
            log.warning(
                self._lost,
                extra={"tenant_id": str(tenant_id), self._unit: len(notes)},
                # An unavailable database has already been logged.
                exc_info=None if isinstance(error, DatabaseUnavailable) else error,
            )
