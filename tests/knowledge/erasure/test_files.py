"""Erasures of files, also while they are uploaded."""

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.assets import Upload
from app.contract.entries import EntryDraft
from app.contract.erasures import NewErasure
from app.contract.saved_searches import NewSavedSearch
from app.contract.search import SearchQuery
from app.contract.settings import SettingsPatch
from app.db.queries import jobs
from app.db.schema.owner import rewrite_files
from app.errors import AssetNotFound
from tests.fixtures.database.cluster import TestDatabase, connected, execute, fetch
from tests.fixtures.workers import run_due

MARKER = "zqxvquokka7"


async def read_files(dsn: str, patterns: Sequence[bytes]) -> dict[str, set[bytes]]:
    """The data files of a database that contain one of the patterns, by the relation or the file's name."""
    async with connected(dsn) as superuser:
        await superuser.execute("checkpoint")
        folder = Path(await superuser.fetchval("show data_directory"))
        own = (
            folder
            / "base"
            / str(await superuser.fetchval("select oid from pg_database where datname = current_database()"))
        )
        names = {
            str(row["file"]): row["name"]
            for row in await superuser.fetch(
                "select pg_relation_filenode(oid) as file, oid::regclass::text as name from pg_class"
                " where pg_relation_filenode(oid) is not null"
            )
        }
    found: dict[str, set[bytes]] = {}
    for path in own.iterdir():
        data = path.read_bytes()
        if here := {pattern for pattern in patterns if pattern in data}:
            found[names.get(path.name.split(".")[0].split("_")[0], path.name)] = here
    return found


async def test_rewritten_files_have_nothing_of_what_was_erased(
    services: Services, tenant: Tenant, fresh_database: TestDatabase
) -> None:
    await services.tenants.change_settings(tenant.id, SettingsPatch(keep_query_text=True), actor="ada")
    for n in range(30):
        await services.entries.create(tenant.id, EntryDraft(content=f"The harbour {n}", tags=["sea"]))
    entry, _ = await services.entries.create(
        tenant.id,
        EntryDraft(
            content=f"The {MARKER} sings", title=f"About {MARKER}", tags=[MARKER], metadata={MARKER: MARKER},
            external_id=MARKER,
        ),
    )  # fmt: skip
    asset, _ = await services.assets.upload(
        tenant.id, Upload(f"{MARKER}.txt", f"A file of {MARKER}.".encode(), tags=[MARKER])
    )
    await run_due(services.worker)
    await services.search.search(tenant.id, SearchQuery(query=f"{MARKER} harbour"), subject=MARKER)
    await services.saved_searches.save(tenant.id, MARKER, NewSavedSearch(MARKER, {"query": MARKER}))
    dsn = fresh_database.superuser_dsn
    async with connected(dsn) as superuser:
        vector = await superuser.fetchval(
            "select embedding::vector::real[] from embeddings where entry_id = $1", entry.id
        )
        await services.journal.flush()
        await superuser.execute("vacuum (analyze)")
    patterns = [MARKER.encode(), struct.pack(f"<{len(vector)}e", *vector)]
    before = await read_files(dsn, patterns)
    assert {name.rpartition("_p")[0] or name for name in before} >= {
        *("assets", "entries", "embeddings", "searches", "saved_searches", "tag_statistics", "pg_statistic")
    }
    assert set().union(*before.values()) == set(patterns)

    for target in ({"entry_id": entry.id}, {"asset_id": asset.id}, {"subject": MARKER}):
        erasure = await services.erasures.erase(tenant.id, NewErasure(**target))
        assert erasure.state == "erased"
    await execute(dsn, "update jobs set run_at = now() where kind = 'erase'")
    await run_due(services.worker)
    await execute(dsn, "vacuum")
    left = await read_files(dsn, patterns)
    assert "pg_statistic" in left
    assert any("lexemes_" in name for name in left)  # words stay in the index as keys
    told: list[str] = []
    files = await rewrite_files(fresh_database.admin_dsn, tenant.id, "DATABASE_ADMIN_URL", told.append)
    assert files.refused == []
    assert set(files.rewritten) <= set(told)
    assert await read_files(dsn, patterns) == {}


WAITING = """
select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
"""
Removal = Callable[[Services, UUID, UUID], Awaitable[Any]]


async def _erase(services: Services, tenant_id: UUID, asset_id: UUID) -> None:
    await services.erasures.erase(tenant_id, NewErasure(asset_id=asset_id), actor="ada")


async def _delete(services: Services, tenant_id: UUID, asset_id: UUID) -> None:
    await services.assets.delete(tenant_id, asset_id)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("remove", [_erase, _delete])
@pytest.mark.parametrize("data", [b"The harbour closes.", b"The harbour opens."], ids=["other", "same"])
async def test_an_upload_to_an_asset_that_is_removed_waits_and_stores_it_again(
    services: Services,
    tenant: Tenant,
    superuser_dsn: str,
    monkeypatch: pytest.MonkeyPatch,
    remove: Removal,
    data: bytes,
) -> None:
    old, _ = await services.assets.upload(tenant.id, Upload("a.txt", b"The harbour opens.", external_id="a"))
    cancel = jobs.cancel_jobs
    uploads: list[asyncio.Task[Any]] = []

    async def cancel_and_meet(*given: Any) -> None:
        """Remove the job, and go on once an upload waits for what the removal holds."""
        await cancel(*given)
        if not uploads:
            upload = Upload("a.txt", data, external_id="a")
            uploads.append(asyncio.create_task(services.assets.upload(tenant.id, upload)))
            async with connected(superuser_dsn) as superuser:
                while not await superuser.fetchval(WAITING):
                    assert not uploads[0].done()
                    await asyncio.sleep(0.01)

    monkeypatch.setattr(jobs, "cancel_jobs", cancel_and_meet)
    async with asyncio.timeout(60):
        await remove(services, tenant.id, old.id)
        stored, work = await uploads[0]
    assert work
    assert stored.id != old.id
    with pytest.raises(AssetNotFound):
        await services.assets.get(tenant.id, old.id)


async def test_an_upload_is_answered_although_its_asset_is_deleted_at_once(
    services: Services, tenant: Tenant, superuser_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = services.database.tenant_session
    deleted: list[UUID] = []

    @asynccontextmanager
    async def open_and_delete(*given: Any, **options: Any) -> AsyncIterator[Any]:
        """A transaction; as soon as it has stored an asset, another caller deletes it."""
        async with opened(*given, **options) as session:
            yield session
        found = await fetch(superuser_dsn, "delete from assets where tenant_id = $1 returning id", tenant.id)
        deleted.extend(row["id"] for row in found)

    monkeypatch.setattr(services.database, "tenant_session", open_and_delete)
    stored, work = await services.assets.upload(tenant.id, Upload("a.txt", b"The harbour opens."))
    assert ([stored.id], stored.status, work) == (deleted, "pending", True)
