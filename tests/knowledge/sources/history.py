"""Random histories of a source whose runs and workers are killed between statements, and what must hold after each."""

import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

from app.composition.services import Services, build_services
from app.contract.administration import NewTenant, Tenant
from app.contract.assets import Upload
from app.contract.results import Hit
from app.db.database import Database
from app.db.session import TenantSession
from app.knowledge.sources.run import RunOptions
from tests.fixtures.database.cluster import MODEL, TestDatabase, connected
from tests.fixtures.providers.failing import FailingProvider
from tests.knowledge.sources.origins import Shelf, find, run_source

PATHS = tuple(f"{folder}{name}.md" for folder in ("", "a/", "b/c/") for name in ("one", "two", "three"))
ALL = RunOptions(confirm_deletions=True, allow_empty=True)
OTHERS = {"two.md": "harbourmaster", "a/one.md": "lighthousekeeper"}
"""What a caller has uploaded, and another source has, under paths of the source."""


class Killed(BaseException):
    """The process ends here, as far as the database can tell."""


class FragileDatabase(Database):
    """A database whose user is killed before a statement: the transaction of the statement is rolled back."""

    statements_left: int | None = None

    def open_tenant(
        self,
        tenant_id: UUID,
        setup: str = "",
        background: timedelta | None = None,
        *,
        entrance: str = "",
        write: Callable[[str], str] | None = None,
    ) -> Any:
        opened: AbstractAsyncContextManager[TenantSession] = super().open_tenant(
            tenant_id, setup, background, entrance=entrance, write=self._count
        )
        return opened

    def _count(self, sql: str) -> str:
        if self.statements_left is not None:
            self.statements_left -= 1
            if self.statements_left < 0:
                raise Killed
        return sql


@dataclass
class History:
    """A source, its origin, and the words that each file has had."""

    database: FragileDatabase
    services: Services
    tenant: Tenant
    superuser_dsn: str
    random: random.Random
    shelf: Shelf = field(default_factory=Shelf)
    words: dict[bytes, str] = field(default_factory=dict)
    agreed: dict[str, bytes] = field(default_factory=dict)
    ids: dict[str, UUID] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    """Paths that have an asset since a run that was killed: a file that moves there replaces it."""

    async def begin(self) -> None:
        """Store what must never change."""
        others = {path: self._text(word) for path, word in OTHERS.items()}
        await run_source(self.services, self.tenant, Shelf(dict(others)), "other")
        for path, data in others.items():
            await self.services.assets.upload(self.tenant.id, Upload(path, data, external_id=path))
        await self._work()

    def edit(self) -> None:
        """Change the origin: add, change, move, copy, exchange and delete files."""
        files = self.shelf.files
        for _ in range(self.random.randint(1, 4)):
            step = self.random.choice(("add", "add", "change", "move", "copy", "exchange", "delete"))
            place = self.random.choice(PATHS)
            old = self.random.choice(sorted(files)) if files else None
            if step == "add" or old is None:
                files[place] = self.new_text()
            elif step == "change":
                files[old] = self.new_text()
            elif step == "move":
                files[place] = files.pop(old)
            elif step == "copy":
                files[place] = files[old]
            elif step == "exchange":
                other = self.random.choice(sorted(files))
                files[old], files[other] = files[other], files[old]
            else:
                del files[old]

    async def run_and_kill(self, statements: int) -> bool:
        """One run with its ingestion, killed after a number of statements; whether it was."""
        self.database.statements_left = statements
        try:
            await run_source(self.services, self.tenant, self.shelf, "shelf", ALL)
        except Killed:
            return True
        finally:
            self.database.statements_left = None
            async with connected(self.superuser_dsn) as superuser:
                await superuser.execute("update jobs set lease_until = now() - interval '1 second'")
            self.taken |= (await self._list_ids()).keys()
        return False

    async def check_nothing_is_lost(self) -> None:
        """After a killed run, files that have not changed since the last agreement are found."""
        for path, data in self.agreed.items():
            if self.shelf.files.get(path) == data:
                found = await self._find(self.words[data])
                assert found, f"{path} was lost"
        await self._check_others()

    async def run_and_check(self) -> None:
        """A run that nothing interrupts, after which the index equals the origin."""
        outcome = await run_source(self.services, self.tenant, self.shelf, "shelf", ALL)
        await self._work()
        assert (outcome.failed, outcome.refused) == ([], [])
        status = await self.services.sources.get(self.tenant.id, "shelf")
        files = self.shelf.files
        assert (status.agrees, status.items, status.indexed) == (True, len(files), len(files))
        assert status.agreed_at == status.listed_at
        ids = await self._list_ids()
        assert ids.keys() == files.keys()
        for path, asset_id in ids.items():
            assert (await self.services.assets.text(self.tenant.id, asset_id)).encode().strip() == files[path].strip()
        for data, word in self.words.items():
            if word in OTHERS.values():
                continue
            found = await self._find(word)
            assert bool(found) == (data in files.values()), word
            assert all(hit.origin is not None and hit.origin.agreed_at == status.agreed_at for hit in found)
        self._check_moves(ids)
        self.agreed, self.ids, self.taken = dict(files), ids, set()
        await self._check_others()

    def _check_moves(self, ids: dict[str, UUID]) -> None:
        """A file that is in one place before and in another after has kept its id."""
        now = self.shelf.files
        for path, asset_id in self.ids.items():
            if path in now and now[path] == self.agreed[path]:
                assert ids[path] == asset_id
            data = self.agreed[path]
            places = [p for p, d in now.items() if d == data]
            single = list(self.agreed.values()).count(data) == 1 and len(places) == 1
            if path not in now and single and places[0] not in {*self.agreed, *self.taken}:
                assert ids[places[0]] == asset_id, f"{path} has moved to {places[0]} with another id"

    async def _list_ids(self) -> dict[str, UUID]:
        page = await self.services.assets.list_assets(self.tenant.id, limit=200)
        return {a.external_id or "": a.id for a in page.items if a.source == "shelf"}

    async def _check_others(self) -> None:
        page = await self.services.assets.list_assets(self.tenant.id, limit=200)
        for source in (None, "other"):
            assert {a.external_id for a in page.items if a.source == source} == OTHERS.keys()
        for word in OTHERS.values():
            assert await self._find(word)

    async def _find(self, word: str) -> list[Hit]:
        """The hits that have the word, without those of the words that the search takes it for."""
        return [hit for hit in await find(self.services, self.tenant, word) if word in hit.content]

    async def _work(self) -> None:
        while await self.services.worker.run_once():
            pass

    def new_text(self) -> bytes:
        number, letters = len(self.words) + 1, ""
        while number:
            number, rest = divmod(number, 20)
            letters += "bcdfghjklmnpqrtvwxyz"[rest]
        return self._text(f"zq{letters}ox")

    def _text(self, word: str) -> bytes:
        data = f"The {word} is here.".encode()
        self.words[data] = word
        return data


@asynccontextmanager
async def open_history(made: TestDatabase, seed: int) -> AsyncIterator[History]:
    """A new tenant with a history that has not begun."""
    database = FragileDatabase(made.service_dsn, pool_size=5)
    services = await build_services(database, FailingProvider(MODEL))
    tenant = await services.tenants.create(NewTenant(f"history-{seed}"), actor="test")
    history = History(database, services, tenant, made.superuser_dsn, random.Random(seed))  # noqa: S311
    await history.begin()
    yield history
    await services.close()
    await database.close()
