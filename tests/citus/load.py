"""Writers and searchers of some tenants, what was acknowledged to them, and what they saw."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from uuid import UUID

from app.composition.services import Services
from app.contract.entries import EntryDraft
from app.contract.search import SearchQuery
from app.errors import DatabaseUnavailable, EntryNotFound

PAUSE = 0.01
"""Seconds between two requests of a caller."""


class Load:
    """For each tenant, a caller that creates, changes and deletes entries, and one that searches for them.

    Attributes:
        stored: by tenant, the last acknowledged content of each entry, or None once it is deleted.
        wrong: answers that lack an acknowledged entry or have one of another tenant.
        refused: requests that were not answered.
        longest: seconds of the longest request.
    """

    def __init__(self, services: Services, tenants: Sequence[UUID]) -> None:
        self._services = services
        self._tenants = tenants
        self.stored: dict[UUID, dict[UUID, str | None]] = {tenant: {} for tenant in tenants}
        self.wrong: list[str] = []
        self.refused: list[str] = []
        self.requests = 0
        self.longest = 0.0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Make requests until the block ends. Errors other than refusals end it."""
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(caller(tenant)) for tenant in self._tenants for caller in (self._write, self._search)
            ]
            await self._wait_for(60)
            yield
            await self._wait_for(self.requests + 60)
            for task in tasks:
                task.cancel()

    async def _wait_for(self, requests: int) -> None:
        while self.requests < requests:  # noqa: ASYNC110
            await asyncio.sleep(PAUSE)

    async def _write(self, tenant: UUID) -> None:
        """Two of three entries are changed afterwards, and one of six is deleted."""
        stored = self.stored[tenant]
        entries = self._services.entries
        number = 0
        while True:
            number += 1
            text = f"harbour word{number}of{tenant.int}"
            async with self._request():
                entry, _ = await entries.create(tenant, EntryDraft(content=text))
                stored[entry.id] = text
                if number % 3:
                    stored[entry.id] = "changing"
                    await entries.change(tenant, entry.id, EntryDraft(content=f"{text} changed"))
                    stored[entry.id] = f"{text} changed"
                elif number % 2:
                    stored[entry.id] = None
                    await entries.delete(tenant, entry.id)
            await asyncio.sleep(PAUSE)

    async def _search(self, tenant: UUID) -> None:
        """Look for the newest acknowledged entry, and for a word that all entries of all tenants have."""
        stored = self.stored[tenant]
        while True:
            sure = [(i, t) for i, t in list(stored.items())[-5:] if t is not None and t != "changing"]
            async with self._request():
                found = await self._services.search.search(
                    tenant, SearchQuery(query="harbour", mode="keyword", limit=50)
                )
                own = f"of{tenant.int}"
                self.wrong += [f"foreign {hit.snippet!r}" for hit in found if own not in hit.snippet]
                for entry_id, text in sure[-1:]:
                    found = await self._services.search.search(
                        tenant, SearchQuery(query=text.split()[1], mode="keyword")
                    )
                    if entry_id not in {hit.id for hit in found} and stored[entry_id] == text:
                        self.wrong.append(f"{text!r} was not found")
            await asyncio.sleep(PAUSE)

    @asynccontextmanager
    async def _request(self) -> AsyncIterator[None]:
        began = time.monotonic()
        try:
            yield
        except DatabaseUnavailable as error:
            self.refused.append(str(error))
        self.requests += 1
        self.longest = max(self.longest, time.monotonic() - began)

    async def find_lost(self) -> list[str]:
        """The acknowledged entries whose content is not stored, and the deleted ones that are."""
        lost = []
        for tenant, stored in self.stored.items():
            for entry_id, text in stored.items():
                content = None
                with contextlib.suppress(EntryNotFound):
                    content = (await self._services.entries.get(tenant, entry_id)).content
                if text != "changing" and content != text:
                    lost.append(f"{entry_id}: {content!r} instead of {text!r}")
        return lost
