"""Two versions of the service on one database: this one, and a later one with one more revision."""

import re
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from app.cli.doctor.database import check_schema
from app.composition.database import SERVICE, check_database, prepare
from app.composition.services import Services, build_services
from app.contract.administration import NewTenant
from app.contract.assets import Upload
from app.contract.entries import EntryDraft
from app.contract.search import SearchQuery
from app.db.database import Database
from app.db.schema import catalog, scripts
from app.db.schema.definitions import read_definitions, read_record
from app.db.schema.lineage import list_objects, render_record
from app.db.schema.migration import migrate
from app.db.schema.scripts import SCRIPTS, latest_revision
from app.errors import ConfigurationError
from tests.fixtures.database.cluster import MODEL, TestDatabase, connected, execute, fetchval
from tests.fixtures.providers.failing import FailingProvider
from tests.fixtures.workers import run_due

OWN = latest_revision()
LATER = f"{int(OWN) + 1:04}"
REVISION = f'''
from alembic import op

from app.db.schema.migration import execute_script, load_function, run_file

revision, down_revision = "{LATER}", "{OWN}"


def upgrade() -> None:
    run_file("notes")
    run_file("tenant_isolation")
    execute_script("""
        alter table feedback add column remark text;
        alter table jobs drop constraint jobs_kind_check;
        alter table jobs add constraint jobs_kind_check check (kind <> '')
    """)
    load_function("statistics", "count_tags")
    with op.get_context().autocommit_block():
        op.execute("create index concurrently feedback_by_remark on feedback (tenant_id, remark)")
'''
NOTES = """
create table notes (
  tenant_id uuid not null references tenants on delete cascade,
  id uuid not null,
  text text not null,
  primary key (tenant_id, id)
);
"""


BROKEN = (
    (
        "alter table notes disable row level security",
        "alter table notes enable row level security",
        "table notes has row-level security switched off",
    ),
    (
        "alter function count_tags() stable",
        "alter function count_tags() volatile",
        f"differ from those that revision {LATER} left",
    ),
    (
        "alter table feedback rename relevant to useful",
        "alter table feedback rename useful to relevant",
        "feedback.relevant is missing",
    ),
    (
        "update alembic_version set version_num = '0009'",
        f"update alembic_version set version_num = '{LATER}'",
        "at revision 0009",
    ),
)
"""Statements after which the old version does not start, those that undo them, and what it says."""


class LaterVersion:
    """The code of the later version: its revision, its text of a function, and its records."""

    def __init__(self, folder: Path) -> None:
        self._scripts = folder / "alembic"
        self._record: dict[str, str] | None = None
        shutil.copytree(SCRIPTS, self._scripts, ignore=shutil.ignore_patterns("__pycache__"))
        (self._scripts / "versions" / f"{LATER}_later.py").write_text(REVISION, "utf-8")
        (self._scripts / "sql" / "notes.sql").write_text(NOTES, "utf-8")
        changed = self._scripts / "sql" / "statistics.sql"
        before, name, after = changed.read_text("utf-8").partition("create or replace function count_tags(")
        changed.write_text(before + name + after.replace("as $$", "as $$ /* later */", 1), "utf-8")

    @contextmanager
    def running(self) -> Iterator[None]:
        """What starts in the block is of the later version."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(scripts, "SCRIPTS", self._scripts)
            if self._record is not None:
                patch.setattr("app.db.schema.definitions.read_record", lambda **_: self._record)
            yield

    async def migrate(self, made: TestDatabase) -> None:
        """Run `knowledge migrate`; the records of the later version are those of what its revision makes."""
        with self.running():
            await migrate(made.admin_dsn)
            async with connected(made.admin_dsn) as owner:
                found, objects = await read_definitions(owner), await list_objects(owner)
        own = read_record()
        self._record = {name: found[name] for name in found if name in own or name.endswith(" on public.notes")}
        (self._scripts / "objects" / f"{LATER}.txt").write_text(render_record(objects), "utf-8")
        with self.running():
            await prepare(made.admin_dsn, service_role=SERVICE, model=MODEL)


@asynccontextmanager
async def serving(made: TestDatabase) -> AsyncIterator[Services]:
    """Start a service, with all checks of the database."""
    database = Database(made.service_dsn, pool_size=3)
    await check_database(made.service_dsn)
    services = await build_services(database, FailingProvider(MODEL))
    try:
        yield services
    finally:
        await services.close()
        await database.close()


async def find(services: Services, tenant: str, query: str) -> list[str]:
    tenant_id = (await services.tenants.find(tenant)).id
    found = await services.search.search(tenant_id, SearchQuery(query=query, mode="keyword"))
    return [hit.content for hit in found.results]


async def work(services: Services, tenant: str, words: str) -> None:
    """Write, change, ingest and delete something, and leave one entry."""
    tenant_id = (await services.tenants.find(tenant)).id
    entry, _ = await services.entries.create(tenant_id, EntryDraft(content=f"An entry about {words}.", tags=["all"]))
    await services.entries.change(tenant_id, entry.id, EntryDraft(title=words))
    other, _ = await services.entries.create(tenant_id, EntryDraft(content=f"A draft about {words}.", tags=["all"]))
    await services.entries.delete(tenant_id, other.id)
    asset, _ = await services.assets.upload(tenant_id, Upload(f"{words}.txt", f"A file about {words}.".encode()))
    await run_due(services.worker)
    await services.assets.delete(tenant_id, asset.id)


async def test_two_versions_serve_one_database(own_database: TestDatabase, tmp_path: Path) -> None:
    made, later = own_database, LaterVersion(tmp_path)
    async with serving(made) as old:
        await old.tenants.create(NewTenant("harbour"), actor="test")
        await work(old, "harbour", "lanterns")
        await later.migrate(made)
        assert await fetchval(made.superuser_dsn, "select version_num from alembic_version") == LATER
        await work(old, "harbour", "anchors")  # the old one goes on
        await catalog.check_readiness(old.database)
        with later.running():
            async with serving(made) as new:
                await work(new, "harbour", "sextants")
                assert await find(new, "harbour", "anchors") == ["An entry about anchors."]
        assert await find(old, "harbour", "sextants") == ["An entry about sextants."]

    async with serving(made) as restarted:  # e.g. on another machine, before the roll-out ends
        await work(restarted, "harbour", "compasses")
        for words in ("lanterns", "anchors", "sextants", "compasses"):
            assert await find(restarted, "harbour", words) == [f"An entry about {words}."]
    async with connected(made.service_dsn) as service:
        finding = await check_schema(service, embedded=False)
    assert finding.status == "ok"
    assert "of a later release" in finding.detail

    # The old version never migrates it, and trusts it only as the later one left it.
    with pytest.raises(ConfigurationError, match=rf"at revision {LATER}, which this version \(revision {OWN}\)"):
        await prepare(made.admin_dsn, service_role=SERVICE, model=MODEL)
    for change, undo, refusal in BROKEN:
        await execute(made.superuser_dsn, change)
        with pytest.raises(ConfigurationError, match=re.escape(refusal)):
            await check_database(made.service_dsn)
        await execute(made.superuser_dsn, undo)
    await check_database(made.service_dsn)


@pytest.mark.parametrize(("major", "accepted"), [("1", True), ("2", False)])
async def test_an_older_version_starts_within_its_major_version_only(
    own_database: TestDatabase, major: str, accepted: bool
) -> None:
    dsn = own_database.superuser_dsn
    seal = await fetchval(dsn, "select obj_description('alembic_version'::regclass)")
    assert re.fullmatch(rf"revision {OWN} of version 1\.\d+\.\d+: definitions [0-9a-f]{{64}}", seal)
    changed = seal.replace(OWN, LATER).replace("version 1.", f"version {major}.")
    await execute(
        dsn, f"comment on table alembic_version is '{changed}'; update alembic_version set version_num = '{LATER}'"
    )
    if accepted:
        await check_database(own_database.service_dsn)
        return
    with pytest.raises(ConfigurationError, match=f"at revision {LATER}, which this version"):
        await check_database(own_database.service_dsn)
