"""Histories of sources, also random ones whose runs and workers are killed between statements."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from app.composition.services import Services, build_services
from app.contract.administration import NewTenant, Tenant
from app.contract.assets import Upload
from app.contract.results import Hit
from app.contract.search import SearchQuery
from app.contract.settings import SettingsPatch
from app.contract.sources import Manifest
from app.db.database import Database
from app.db.queries import assets, sources
from app.db.session import TenantSession
from app.embedded import EmbeddedAddress
from app.errors import AssetNotFound, InvalidInput, TooManyDeletions
from app.knowledge.sources.run import RunOptions
from tests.fixtures.database.cluster import MODEL, TestDatabase, connected, execute, fetchval, new_database
from tests.fixtures.providers.failing import FailingProvider
from tests.fixtures.workers import run_due
from tests.knowledge.sources.origins import FIVE, Shelf, assets_of, find, run_source

pytestmark = pytest.mark.own_tenants


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
            await execute(self.superuser_dsn, "update jobs set lease_until = now() - interval '1 second'")
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
        await run_due(self.services.worker)

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


MOST_STATEMENTS = 70
"""Statements of a run with the ingestion of its files, or a few more."""


async def run_history(cluster: EmbeddedAddress, template: str, seed: int, runs: int) -> int:
    killed = 0
    async with new_database(cluster, template=template) as made, open_history(made, seed) as history:
        for _ in range(runs):
            history.edit()
            if await history.run_and_kill(history.random.randrange(MOST_STATEMENTS)):
                killed += 1
                await history.check_nothing_is_lost()
                if history.random.random() < 0.3:
                    history.edit()
                    killed += await history.run_and_kill(history.random.randrange(MOST_STATEMENTS))
            await history.run_and_check()
    return killed


async def test_runs_that_are_killed_lose_nothing(cluster: EmbeddedAddress, template: str) -> None:
    assert await run_history(cluster, template, seed=7, runs=2) > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
async def test_runs_that_are_killed_lose_nothing_in_long_histories(
    cluster: EmbeddedAddress, template: str, seed: int
) -> None:
    assert await run_history(cluster, template, seed=seed, runs=15) > 0


@pytest.mark.slow
async def test_a_run_can_be_killed_before_each_of_its_statements(cluster: EmbeddedAddress, template: str) -> None:
    """A run that adds, changes, moves and deletes files: each time with a kill one statement later."""
    async with new_database(cluster, template=template) as made, open_history(made, 1) as history:
        statements, killed = 0, True
        while killed:
            files = history.shelf.files
            files.clear()
            files.update({p: history.new_text() for p in ("one.md", "two.md", "three.md", "a/one.md")})
            await history.run_and_check()
            files["a/two.md"] = files.pop("one.md")
            del files["two.md"]
            files["three.md"] = history.new_text()
            files["b/c/one.md"] = history.new_text()
            killed = await history.run_and_kill(statements)
            await history.check_nothing_is_lost()
            await history.run_and_check()
            statements += 1
        assert statements > 30


async def test_run_that_deletes_more_than_a_fifth_needs_a_confirmation(services: Services, tenant: Tenant) -> None:
    shelf = Shelf(dict(FIVE))
    await run_source(services, tenant, shelf)
    del shelf.files["amber.md"], shelf.files["basalt.md"]
    with pytest.raises(TooManyDeletions) as refused:
        await run_source(services, tenant, shelf)
    assert (refused.value.deletions, refused.value.assets) == (2, 5)
    assert len(await assets_of(services, tenant, "shelf")) == 5
    assert (await services.sources.get(tenant.id, "shelf")).run == 1
    await run_source(services, tenant, shelf, options=RunOptions(confirm_deletions=True))
    assert len(await assets_of(services, tenant, "shelf")) == 3


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("bytes_now", "reason"), [(b"", "5 of 5"), (b"\x00\x01\x02" * 99, "is not supported")])
async def test_files_that_can_no_longer_be_read_keep_their_assets_without_a_confirmation(
    services: Services, tenant: Tenant, bytes_now: bytes, reason: str
) -> None:
    shelf = Shelf(dict(FIVE))
    await run_source(services, tenant, shelf)
    agreed = (await services.sources.get(tenant.id, "shelf")).agreed_at
    shelf.files = dict.fromkeys(FIVE, bytes_now) | {"new.md": b"The fluorite is here."}
    if bytes_now:
        outcome = await run_source(services, tenant, shelf)
        assert sorted(path for path, _ in outcome.failed) == sorted(FIVE)
        assert all(reason in text and "--confirm-deletions" in text for _, text in outcome.failed)
        assert await find(services, tenant, "fluorite")
    else:
        with pytest.raises(TooManyDeletions, match=reason):
            await run_source(services, tenant, shelf)
    (hit,) = await find(services, tenant, "basalt")
    assert hit.origin is not None
    assert hit.origin.agreed_at == agreed
    confirmed = await run_source(services, tenant, shelf, options=RunOptions(confirm_deletions=True))
    assert sorted(path for path, _ in confirmed.refused) == sorted(FIVE)
    assert not await find(services, tenant, "basalt")
    status = await services.sources.get(tenant.id, "shelf")
    assert (status.agrees, status.indexed, status.refused) == (True, 1, 5)


async def test_one_file_of_many_that_can_no_longer_be_read_loses_its_asset(services: Services, tenant: Tenant) -> None:
    shelf = Shelf(dict(FIVE))
    await run_source(services, tenant, shelf)
    shelf.files["basalt.md"] = b"\x00\x01\x02" * 99
    outcome = await run_source(services, tenant, shelf)
    assert [path for path, _ in outcome.refused] == ["basalt.md"]
    assert not await find(services, tenant, "basalt")
    assert (await services.sources.get(tenant.id, "shelf")).agrees


@pytest.mark.parametrize("options", [RunOptions(), RunOptions(confirm_deletions=True)])
async def test_empty_manifest_deletes_nothing_without_its_own_confirmation(
    services: Services, tenant: Tenant, options: RunOptions
) -> None:
    await run_source(services, tenant, Shelf({"amber.md": b"The amber is here."}))
    with pytest.raises(TooManyDeletions, match="--allow-empty"):
        await run_source(services, tenant, Shelf(), options=options)
    assert await assets_of(services, tenant, "shelf")
    await run_source(services, tenant, Shelf(), options=RunOptions(allow_empty=True))
    assert not await assets_of(services, tenant, "shelf")


WAITING = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"


async def test_a_retry_during_the_removal_of_its_asset_leaves_no_job(
    services: Services, tenant: Tenant, superuser_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await run_source(services, tenant, Shelf({"amber.md": b"The amber is here.", "basalt.md": b"Basalt."}))
    asset_id = UUID((await assets_of(services, tenant, "shelf"))["amber.md"])
    cancel = sources.cancel_ingestions
    retried: list[UUID] = []

    async def cancel_and_retry(session: Any, ids: Sequence[UUID]) -> None:
        """Another caller retries the asset, once its jobs are removed and it is not."""
        await cancel(session, ids)
        if not retried:
            retried.append(asset_id)
            await execute(superuser_dsn, "update assets set status = 'failed' where id = $1", asset_id)
            await services.assets.retry(tenant.id, asset_id)

    monkeypatch.setattr(sources, "cancel_ingestions", cancel_and_retry)
    shelf = Shelf({"basalt.md": b"Basalt."})
    await run_source(services, tenant, shelf, options=RunOptions(confirm_deletions=True))
    assert retried
    with pytest.raises(AssetNotFound):
        await services.assets.get(tenant.id, asset_id)
    assert await fetchval(superuser_dsn, "select count(*) from jobs where kind = 'ingest_asset'") == 0


async def test_a_refused_and_an_accepted_upload_of_an_item_wait_for_each_other(
    services: Services, tenant: Tenant, superuser_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = Manifest(items=[{"external_id": "a", "name": "a.txt", "digest": "1"}])
    run = (await services.sources.accept(tenant.id, "shelf", manifest))[0].run
    upload = Upload("a.txt", b"The amber is here.", external_id="a")
    await services.sources.upload(tenant.id, "shelf", run, upload)
    manifest = Manifest(items=[{"external_id": "a", "name": "a.txt", "digest": "2"}])
    run = (await services.sources.accept(tenant.id, "shelf", manifest))[0].run
    lock = assets.lock_asset
    refused: list[asyncio.Task[Any]] = []

    async def lock_and_meet(*given: Any) -> Any:
        """Lock the asset, and go on once an upload that is refused waits."""
        found = await lock(*given)
        if not refused:
            empty = Upload("a.txt", b"", external_id="a")
            refused.append(asyncio.create_task(services.sources.upload(tenant.id, "shelf", run, empty)))
            async with connected(superuser_dsn) as superuser:
                while not await superuser.fetchval(WAITING):
                    assert not refused[0].done()
                    await asyncio.sleep(0.01)
        return found

    monkeypatch.setattr(assets, "lock_asset", lock_and_meet)
    changed = Upload("a.txt", b"The zircon is here.", external_id="a")
    async with asyncio.timeout(60):
        await services.sources.upload(tenant.id, "shelf", run, changed)
        with pytest.raises(InvalidInput):
            await refused[0]
    assert await assets_of(services, tenant, "shelf") == {}


async def test_hit_of_a_past_time_has_an_origin_unless_it_was_replaced(services: Services, tenant: Tenant) -> None:
    """The text of a former version was not the origin's when the source last agreed."""
    await services.tenants.change_settings(tenant.id, SettingsPatch(keep_versions_days=30))
    shelf = Shelf({"amber.md": b"The amber is old.", "basalt.md": b"The amber stays."})
    await run_source(services, tenant, shelf)
    then = datetime.now(UTC)
    shelf.files["amber.md"] = b"The amber is new."
    await run_source(services, tenant, shelf)
    agreed_at = (await services.sources.get(tenant.id, "shelf")).agreed_at
    query = SearchQuery(query="amber", mode="keyword", as_of=then)
    hits = {hit.content: hit for hit in await services.search.search(tenant.id, query)}
    assert set(hits) == {"The amber is old.", "The amber stays."}
    assert hits["The amber is old."].origin is None
    still = hits["The amber stays."].origin
    assert still is not None
    assert (still.source, still.agreed_at) == ("shelf", agreed_at)
