"""The data files of Postgres after an erasure."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.assets import Upload
from app.contract.entries import EntryDraft
from app.contract.erasures import NewErasure
from app.contract.saved_searches import NewSavedSearch
from app.contract.search import SearchQuery
from app.contract.settings import SettingsPatch
from app.db.schema.owner import rewrite_files
from tests.fixtures.database.cluster import TestDatabase, connected

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
    while await services.worker.run_once():
        pass
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
        *("assets", "entries", "embeddings", "searches", "saved_searches", "tag_statistics", "pg_statistic"),
    }
    assert set().union(*before.values()) == set(patterns)

    for target in ({"entry_id": entry.id}, {"asset_id": asset.id}, {"subject": MARKER}):
        erasure = await services.erasures.erase(tenant.id, NewErasure(**target))
        assert erasure.state == "erased"
    async with connected(dsn) as superuser:
        await superuser.execute("update jobs set run_at = now() where kind = 'erase'")
    while await services.worker.run_once():
        pass
    async with connected(dsn) as superuser:
        await superuser.execute("vacuum")
    left = await read_files(dsn, patterns)
    assert "pg_statistic" in left
    assert any("lexemes_" in name for name in left)  # words stay in the index as keys
    told: list[str] = []
    files = await rewrite_files(fresh_database.admin_dsn, tenant.id, "DATABASE_ADMIN_URL", told.append)
    assert files.refused == []
    assert set(files.rewritten) <= set(told)
    assert await read_files(dsn, patterns) == {}
