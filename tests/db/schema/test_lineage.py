"""A database that another development version created is refused, and stays as it is."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from app.composition.database import SERVICE, check_database, create_roles, prepare
from app.db.schema import scripts
from app.db.schema.lineage import list_objects, read_record, read_revision, render_record
from app.db.schema.migration import migrate
from app.db.schema.scripts import SCRIPTS, latest_revision
from app.embedded import EmbeddedAddress
from app.errors import ConfigurationError
from tests.db.schema.fingerprint import fingerprint
from tests.fixtures.database.cluster import MODEL, PASSWORDS, TestDatabase, connected, new_database

REMEDY = "use that version, or export with it and import into an empty database (embedded: another KB_DATA_DIR)"
UNKNOWN = (
    f"which this version (revision {latest_revision()}) does not have: its data is of another development version or of"
    " a newer release"
)
OTHER = "its data is of another development version"
KINDS = "alter table jobs drop constraint jobs_kind_check; alter table jobs add constraint jobs_kind_check check"
DIFFERENT = {
    "drop table callers": "callers",
    "alter table feedback drop column relevant": "feedback.relevant",
    "alter table feedback alter column search_id type text": "feedback.search_id",
    "alter table sources alter column listed_at drop not null": "sources.listed_at",
    "alter type entry_filter drop attribute as_of cascade": "entry_filter.as_of",
    f"{KINDS} (kind in ('ingest_asset', 'erase'))": "jobs.jobs_kind_check",
    "drop index entries_by_content": "entries.entries_by_content",
}
"""Statements that leave what another development version would have, and the object that is named."""


async def read_all(database: TestDatabase) -> list[tuple[str, ...]]:
    """The catalog with all roles, and what preparation would write."""
    async with connected(database.superuser_dsn) as superuser:
        rows = [
            tuple(map(str, row))
            for statement in (
                "select * from alembic_version",
                "select rolname, rolpassword from pg_authid order by 1",
            )
            for row in await superuser.fetch(statement)
        ]
    return [*await fingerprint(database), *rows]


async def expect_refusal(database: TestDatabase, line: str) -> None:
    """Every way to open the database ends in this line, and changes nothing."""
    before = await read_all(database)
    with pytest.raises(ConfigurationError) as prepared:
        await prepare(database.admin_dsn, service_role=SERVICE, model=MODEL)
    assert str(prepared.value) == f"DATABASE_ADMIN_URL: {line}"
    with pytest.raises(ConfigurationError) as served:
        await check_database(database.service_dsn)
    assert str(served.value) == f"DATABASE_URL: {line}"
    with pytest.raises(ConfigurationError) as looked:
        await read_revision(database.admin_dsn, "DATABASE_ADMIN_URL")
    assert str(looked.value) == f"DATABASE_ADMIN_URL: {line}"
    with pytest.raises(ConfigurationError) as embedded:
        await create_roles(database.superuser_dsn, dict.fromkeys(PASSWORDS, "another password"))
    assert str(embedded.value) == f"KB_DATA_DIR: {line}"
    assert await read_all(database) == before


@pytest.mark.parametrize("citus", [False, True])
async def test_the_objects_of_a_new_database_are_recorded(cluster: EmbeddedAddress, template: str, citus: bool) -> None:
    async with new_database(cluster) as made:
        async with connected(made.superuser_dsn) as superuser:
            await superuser.execute("create extension vector")
        await migrate(made.admin_dsn, citus=citus)
        async with connected(made.service_dsn) as service:
            found = await list_objects(service)
    assert render_record(found) == render_record(read_record(latest_revision(), citus=citus))


async def test_a_database_of_this_version_is_accepted_also_with_more_objects(
    fresh_database: TestDatabase,
) -> None:
    async with connected(fresh_database.superuser_dsn) as superuser:
        await superuser.execute("""
            create table notes_of_an_operator (text text);
            alter table feedback add column remark text unique""")
    assert await read_revision(fresh_database.admin_dsn, "DATABASE_ADMIN_URL") == latest_revision()


@pytest.mark.parametrize("revision", ["0033", "9999"])
async def test_a_database_at_an_unknown_revision_is_refused(fresh_database: TestDatabase, revision: str) -> None:
    async with connected(fresh_database.superuser_dsn) as superuser:
        await superuser.execute("update alembic_version set version_num = $1", revision)
    await expect_refusal(fresh_database, f"the database is at revision {revision}, {UNKNOWN}; {REMEDY}")


@pytest.mark.parametrize(("statements", "name"), DIFFERENT.items())
async def test_a_known_revision_over_other_objects_is_refused(
    fresh_database: TestDatabase, statements: str, name: str
) -> None:
    async with connected(fresh_database.superuser_dsn) as superuser:
        await superuser.execute(statements)
    await expect_refusal(
        fresh_database,
        f"the database is at revision {latest_revision()}, but {name} is missing or different: {OTHER}; {REMEDY}",
    )


async def test_a_known_revision_without_any_object_is_refused(cluster: EmbeddedAddress, template: str) -> None:
    async with new_database(cluster) as made:
        async with connected(made.superuser_dsn) as superuser:
            await superuser.execute(f"""
                create extension vector;
                create table alembic_version (version_num varchar(32) primary key);
                insert into alembic_version values ('{latest_revision()}');
                alter table alembic_version owner to kb_migrator;
                grant select on alembic_version to kb_app""")
        await expect_refusal(
            made,
            f"the database is at revision {latest_revision()}, but access_counts is missing or different: {OTHER};"
            f" {REMEDY}",
        )


@pytest.fixture
def later_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A version with one more revision, which would add a column; gives the former revision."""
    newest = latest_revision()
    following = f"{int(newest) + 1:04}"
    folder = tmp_path / "alembic"
    shutil.copytree(SCRIPTS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(folder / "objects" / f"{newest}.txt", folder / "objects" / f"{following}.txt")
    (folder / "versions" / f"{following}_later.py").write_text(
        f"""
from app.db.schema.migration import execute_script

revision, down_revision = "{following}", "{newest}"


def upgrade() -> None:
    execute_script("alter table feedback add column remark text")
""",
        encoding="utf-8",
    )
    monkeypatch.setattr(scripts, "SCRIPTS", folder)
    return newest


async def test_an_earlier_revision_over_other_objects_is_not_migrated(
    fresh_database: TestDatabase, later_version: str
) -> None:
    async with connected(fresh_database.superuser_dsn) as superuser:
        await superuser.execute("drop table callers")
    before = await read_all(fresh_database)
    with pytest.raises(ConfigurationError, match=rf"^[A-Z_]+: .* revision {later_version}, but callers is "):
        await prepare(fresh_database.admin_dsn, service_role=SERVICE, model=MODEL)
    assert await read_all(fresh_database) == before
