"""Migrations and their lineage."""

import asyncio
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path

import pytest
from alembic.script import ScriptDirectory

from app.composition.database import SERVICE, check_database, create_roles, prepare
from app.contract.vocabulary import LANGUAGES
from app.db.schema import scripts
from app.db.schema.lineage import list_objects, read_record, read_revision, render_record
from app.db.schema.migration import configuration, migrate
from app.db.schema.owner import register_model
from app.db.schema.scripts import SCRIPTS, known_revisions, latest_revision
from app.embedded import EmbeddedAddress
from app.embedded.server import EmbeddedPostgres
from app.errors import ConfigurationError
from tests.db.schema.fingerprint import RECORDED, digests, fingerprint, read_recorded, render
from tests.fixtures.database.cluster import FAST, MODEL, PASSWORDS, TestDatabase, connected, execute, new_database

ROLES = Path(__file__).resolve().parents[3] / "deploy" / "roles.sql"
ADMINISTRATOR = "administrator"
FUNCTIONS = [
    (file, name)
    for file in scripts.list_files()
    for name in re.findall(r"^create (?:or replace )?function ([\w.]+)\(", scripts.read_file(file), re.M)
]
"""Each function in `alembic/sql`, after the name of its file."""
NEWEST = max(file.name[:4] for file in (SCRIPTS / "versions").glob("[0-9]*.py"))
NEXT = f"{int(NEWEST) + 1:04}"
# State left by an older version: functions with a higher cost, which a revision updates.
LATER = f"""
from app.db.schema.migration import execute_script, load_function

revision = "{NEXT}"
down_revision = "{NEWEST}"


def upgrade() -> None:
    execute_script("alter table feedback add column if not exists remark text")
    for file, function in {FUNCTIONS}:
        load_function(file, function)


def downgrade() -> None:
    execute_script("alter table feedback drop column remark")
"""


@pytest.fixture(scope="module")
async def bare_cluster(cluster_folder: Path) -> AsyncIterator[EmbeddedAddress]:
    """A server whose administrator has CREATEROLE but is not superuser, as in managed services."""
    server = EmbeddedPostgres(cluster_folder / "managed", settings=FAST)
    address = await asyncio.to_thread(server.start)
    try:
        await execute(
            address.dsn(database="postgres"),
            f"create role {ADMINISTRATOR} login createrole createdb password 'administrator-password'",
        )
        yield address
    finally:
        await asyncio.to_thread(server.stop)


async def apply_roles(address: EmbeddedAddress, name: str) -> None:
    """Run deploy/roles.sql as the administrator."""
    script = ROLES.read_text(encoding="utf-8")
    for variable, role in (("migrator_password", "kb_migrator"), ("service_password", "kb_service")):
        assert f":'{variable}'" in script
        script = script.replace(f":'{variable}'", f"'{PASSWORDS[role]}'")
    async with connected(address.dsn(ADMINISTRATOR, name, "administrator-password")) as administrator:
        assert not await administrator.fetchval("select rolsuper from pg_roles where rolname = current_user")
        await administrator.execute(script)


@asynccontextmanager
async def managed_database(address: EmbeddedAddress, name: str) -> AsyncIterator[TestDatabase]:
    """An empty database prepared by deploy/roles.sql; pgvector is installed as a provider's console would."""
    await execute(address.dsn(database="postgres"), f"create database {name} owner {ADMINISTRATOR}")
    made = TestDatabase(name, address)
    await execute(made.superuser_dsn, "create extension vector")
    await apply_roles(address, name)
    try:
        yield made
    finally:
        await execute(address.dsn(database="postgres"), f"drop database {name} with (force)")


async def test_the_schema_matches_the_recorded_fingerprint(bare_cluster: EmbeddedAddress, tmp_path: Path) -> None:
    """Fails at every change of the schema. The message describes how to record an intended change."""
    async with managed_database(bare_cluster, "recorded") as database:
        await prepare(database.admin_dsn, service_role=SERVICE, model=MODEL)
        parts = await fingerprint(database)
    made = digests(parts)
    changed = {thing for thing, _ in made.items() ^ read_recorded().items()}
    (tmp_path / RECORDED.name).write_text(render(made), encoding="utf-8")
    found = "\n".join(f"{thing}: {detail}" for thing, detail in parts if thing in changed)
    assert not changed, f"to record the schema: cp {tmp_path / RECORDED.name} {RECORDED}\n{found}"


async def test_each_function_is_defined_in_one_file(fresh_database: TestDatabase) -> None:
    async with connected(fresh_database.superuser_dsn) as superuser:
        rows = await superuser.fetch("""
            select case when n.nspname = 'public' then '' else n.nspname || '.' end || p.proname as name
              from pg_proc p join pg_namespace n on n.oid = p.pronamespace
             where n.nspname in ('public', 'tenancy', 'keyword', 'queue')
               and not exists (select from pg_depend d where d.objid = p.oid and d.deptype = 'e')""")
    assert sorted(name for _, name in FUNCTIONS) == sorted(row["name"] for row in rows)


async def test_languages_of_the_schema_match_the_services(fresh_database: TestDatabase) -> None:
    async with connected(fresh_database.superuser_dsn) as superuser:
        texts = [
            await superuser.fetchval(f"select {source}")
            for source in (
                "pg_get_constraintdef(oid) from pg_constraint"
                " where conrelid = 'entries'::regclass and conname = 'entries_language_check'",
            )
        ]
        for language in LANGUAGES:
            assert await superuser.fetchval(
                "select text_lexemes($1, 'x') @@ text_phrase($1, 'x') and numnode(text_phrase($1, 'x')) = 1", language
            )
        dictionaries = await superuser.fetch(
            """
            select c.cfgname, t.alias = 'asciiword' as is_ascii, m.mapdict::regdictionary::text as found,
                   stems_of(c.cfgname, t.alias = 'asciiword')::text as expected
              from pg_ts_config c join pg_ts_config_map m on m.mapcfg = c.oid
              join ts_token_type('default') t on t.tokid = m.maptokentype and t.alias in ('asciiword', 'word')
             where c.cfgname = any ($1::text[])""",
            LANGUAGES,
        )
    assert [tuple(re.findall(r"'(\w+)'::text", text)) for text in texts] == [LANGUAGES]
    assert len(dictionaries) == 2 * len(LANGUAGES)
    assert not [row for row in dictionaries if row["found"] != row["expected"]]


@pytest.fixture
def later_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The migrations with one more, which loads every function again."""
    shutil.copytree(SCRIPTS, tmp_path / "alembic", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "alembic" / "versions" / f"{NEXT}_later.py").write_text(LATER, encoding="utf-8")
    objects = tmp_path / "alembic" / "objects"
    recorded = (objects / f"{NEWEST}.txt").read_text(encoding="utf-8")
    remark = f"remark:{sha256(b'text').hexdigest()[:6]}"
    (objects / f"{NEXT}.txt").write_text(
        re.sub(r"^feedback .*$", rf"\g<0> {remark}", recorded, flags=re.M), encoding="utf-8"
    )
    monkeypatch.setattr(scripts, "SCRIPTS", tmp_path / "alembic")


@pytest.mark.usefixtures("later_revision")
async def test_a_later_migration_loads_functions_from_their_files(bare_cluster: EmbeddedAddress) -> None:
    async with managed_database(bare_cluster, "later") as database:
        await prepare(database.admin_dsn, service_role=SERVICE, model=MODEL)
        newest = await fingerprint(database)
        await migrate(database.admin_dsn, NEWEST, down=True)
        assert {thing for thing, _ in set(newest) ^ set(await fingerprint(database))} == {"relation feedback"}
        with pytest.raises(
            ConfigurationError, match=rf"at revision {NEWEST}, .* needs {NEXT}; run: knowledge migrate$"
        ):
            await check_database(database.service_dsn)
        async with connected(database.superuser_dsn) as superuser:
            for _, function in FUNCTIONS:
                await superuser.execute(f"alter function {function} cost 7")
        assert len(digests(newest).items() - digests(await fingerprint(database)).items()) > len(FUNCTIONS)
        await migrate(database.admin_dsn)
        assert await fingerprint(database) == newest
        await check_database(database.service_dsn)


async def test_the_baseline_cannot_be_undone(fresh_database: TestDatabase) -> None:
    with pytest.raises(ConfigurationError, match="to remove the schema, drop the database"):
        await migrate(fresh_database.admin_dsn, "base", down=True)
    assert await read_revision(fresh_database.admin_dsn, "DATABASE_ADMIN_URL") == "0001"


@pytest.mark.slow
async def test_two_databases_of_one_server_are_migrated_and_served(bare_cluster: EmbeddedAddress) -> None:
    """Roles belong to the server: they already exist when the second database is prepared."""
    async with managed_database(bare_cluster, "one") as one, managed_database(bare_cluster, "two") as two:
        for database in (one, two):
            await prepare(database.admin_dsn, service_role=SERVICE, model=MODEL)
            await check_database(database.service_dsn)
            assert await read_revision(database.service_dsn, "DATABASE_URL") == latest_revision()


async def test_preparing_again_changes_nothing(bare_cluster: EmbeddedAddress) -> None:
    async with managed_database(bare_cluster, "twice") as database:
        await prepare(database.admin_dsn, service_role=SERVICE, model=MODEL)
        first = await fingerprint(database)
        await apply_roles(bare_cluster, "twice")
        await prepare(database.admin_dsn, service_role=SERVICE, model=MODEL)
        assert await fingerprint(database) == first
        assert await register_model(database.admin_dsn, MODEL) == (1, False)


@pytest.mark.slow
async def test_interrupted_model_registration_is_completed(bare_cluster: EmbeddedAddress) -> None:
    async with managed_database(bare_cluster, "interrupted") as database:
        await prepare(database.admin_dsn, service_role=SERVICE, model=MODEL)
        whole = await fingerprint(database)
        await execute(database.admin_dsn, "alter table embeddings drop constraint embeddings_model_1")
        await register_model(database.admin_dsn, MODEL)
        assert await fingerprint(database) == whole


def test_file_names_are_the_revisions_that_alembic_finds() -> None:
    found = ScriptDirectory.from_config(configuration())
    assert latest_revision() == found.get_current_head()
    assert known_revisions() == {script.revision for script in found.walk_revisions()}


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
            for statement in ("select * from alembic_version", "select rolname, rolpassword from pg_authid order by 1")
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
        await execute(made.superuser_dsn, "create extension vector")
        await migrate(made.admin_dsn, citus=citus)
        async with connected(made.service_dsn) as service:
            found = await list_objects(service)
    assert render_record(found) == render_record(read_record(latest_revision(), citus=citus))


async def test_a_database_of_this_version_is_accepted_also_with_more_objects(fresh_database: TestDatabase) -> None:
    async with connected(fresh_database.superuser_dsn) as superuser:
        await superuser.execute("""
            create table notes_of_an_operator (text text);
            alter table feedback add column remark text unique""")
    assert await read_revision(fresh_database.admin_dsn, "DATABASE_ADMIN_URL") == latest_revision()


@pytest.mark.parametrize("revision", ["0033", "9999"])
async def test_a_database_at_an_unknown_revision_is_refused(fresh_database: TestDatabase, revision: str) -> None:
    await execute(fresh_database.superuser_dsn, "update alembic_version set version_num = $1", revision)
    await expect_refusal(fresh_database, f"the database is at revision {revision}, {UNKNOWN}; {REMEDY}")


@pytest.mark.parametrize(("statements", "name"), DIFFERENT.items())
async def test_a_known_revision_over_other_objects_is_refused(
    fresh_database: TestDatabase, statements: str, name: str
) -> None:
    await execute(fresh_database.superuser_dsn, statements)
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
    await execute(fresh_database.superuser_dsn, "drop table callers")
    before = await read_all(fresh_database)
    with pytest.raises(ConfigurationError, match=rf"^[A-Z_]+: .* revision {later_version}, but callers is "):
        await prepare(fresh_database.admin_dsn, service_role=SERVICE, model=MODEL)
    assert await read_all(fresh_database) == before
