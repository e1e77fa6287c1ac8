"""Creating and migrating databases under the rules of a managed Postgres: no role is superuser."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path

import pytest
from alembic.script import ScriptDirectory

from app.composition.database import SERVICE, check_database, prepare
from app.contract.vocabulary import LANGUAGES
from app.db.schema import scripts
from app.db.schema.lineage import read_revision
from app.db.schema.migration import configuration, migrate
from app.db.schema.owner import register_model
from app.db.schema.scripts import SCRIPTS, known_revisions, latest_revision
from app.embedded import EmbeddedAddress, EmbeddedPostgres
from app.errors import ConfigurationError
from tests.db.schema.fingerprint import RECORDED, digests, fingerprint, read_recorded, render
from tests.fixtures.database.cluster import FAST, MODEL, PASSWORDS, TestDatabase, connected

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
        async with connected(address.dsn(database="postgres")) as superuser:
            await superuser.execute(
                f"create role {ADMINISTRATOR} login createrole createdb password 'administrator-password'"
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
    async with connected(address.dsn(database="postgres")) as superuser:
        await superuser.execute(f"create database {name} owner {ADMINISTRATOR}")
    made = TestDatabase(name, address)
    async with connected(made.superuser_dsn) as superuser:
        await superuser.execute("create extension vector")
    await apply_roles(address, name)
    try:
        yield made
    finally:
        async with connected(address.dsn(database="postgres")) as superuser:
            await superuser.execute(f"drop database {name} with (force)")


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
                "select text_lexemes($1, 'x') @@ text_phrase($1, 'x') and numnode(text_phrase($1, 'x')) = 1",
                language,
            )
    assert [tuple(re.findall(r"'(\w+)'::text", text)) for text in texts] == [LANGUAGES]


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
    async with (
        managed_database(bare_cluster, "one") as one,
        managed_database(bare_cluster, "two") as two,
    ):
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
        async with connected(database.admin_dsn) as owner:
            await owner.execute("alter table embeddings drop constraint embeddings_model_1")
        await register_model(database.admin_dsn, MODEL)
        assert await fingerprint(database) == whole


def test_file_names_are_the_revisions_that_alembic_finds() -> None:
    found = ScriptDirectory.from_config(configuration())
    assert latest_revision() == found.get_current_head()
    assert known_revisions() == {script.revision for script in found.walk_revisions()}
