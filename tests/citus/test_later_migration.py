"""A later migration in a cluster: a new table, a column and functions reach every node and all shards."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.composition.database import SERVICE, prepare
from app.db.rows import new_id
from app.db.schema import definitions, scripts
from app.db.schema.definitions import read_definitions
from app.db.schema.isolation import find_faults
from app.db.schema.migration import migrate
from app.db.schema.scripts import SCRIPTS, function_script, latest_revision, read_file
from tests.fixtures.database.citus import CitusCluster, CitusDatabase, create_citus_database, drop_citus_database
from tests.fixtures.database.cluster import MODEL, connected

pytestmark = pytest.mark.slow

NEWEST = latest_revision()
NEXT = f"{int(NEWEST) + 1:04}"
CHANGED = {"keyword_lookups": "keyword.filtered_ids", "statistics": "count_tags", "tenants": "tenancy.list_tenants"}
"""A function that groups of shards have copies of, one of triggers, and one of the coordinator."""

REVISION = f'''
from app.db.schema.migration import execute_script, load_function, run_file, update_each_tenant

revision = "{NEXT}"
down_revision = "{NEWEST}"


def upgrade() -> None:
    run_file("notes")
    run_file("tenant_isolation")
    execute_script("""
        alter table feedback add column if not exists remark text;
        comment on column feedback.remark is 'What the reader; added';
        create index if not exists feedback_by_subject on feedback (tenant_id, subject);
    """)
    update_each_tenant("update saved_searches set name = name || '!' where tenant_id = tenant")
    update_each_tenant("insert into notes (tenant_id, id, text) values (tenant, gen_random_uuid(), 'A note')")
    for file, function in {CHANGED}.items():
        load_function(file, function)


def downgrade() -> None:
    execute_script("drop table notes; alter table feedback drop column remark; drop index feedback_by_subject")
'''
NOTES = """
create table notes (
  tenant_id uuid not null references tenants on delete cascade,
  id uuid not null,
  entry_id uuid,
  text text not null,
  primary key (tenant_id, id),
  foreign key (tenant_id, entry_id) references entries (tenant_id, id) on delete cascade
);
"""


@pytest.fixture
async def database(citus_cluster: CitusCluster) -> AsyncIterator[CitusDatabase]:
    """A cluster at the newest revision, with a saved search of each of eight tenants."""
    made = await create_citus_database(citus_cluster, "kb_later")
    await prepare(made.coordinator.admin_dsn, service_role=SERVICE, model=MODEL, shards=4)
    async with connected(made.coordinator.superuser_dsn) as superuser:
        for n in range(8):
            await superuser.execute("select tenancy.create_tenant($1, $2, 'A tenant', 1, 'test')", new_id(), f"t{n}")
        for tenant in await superuser.fetch("select id from tenants"):
            await superuser.execute(
                "insert into saved_searches (tenant_id, id, owner, name, request) values ($1, $2, 'anna', 'N', '{}')",
                tenant["id"],
                new_id(),
            )
    yield made
    await drop_citus_database(citus_cluster, "kb_later")


@pytest.fixture
async def later_version(
    database: CitusDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[None]:
    """The next version: its migrations, its files of the schema, and its record of definitions."""
    folder = tmp_path / "alembic"
    shutil.copytree(SCRIPTS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "versions" / f"{NEXT}_later.py").write_text(REVISION, encoding="utf-8")
    (folder / "sql" / "notes.sql").write_text(NOTES, encoding="utf-8")
    for suffix in (".txt", "_citus.txt"):
        shutil.copy(folder / "objects" / f"{NEWEST}{suffix}", folder / "objects" / f"{NEXT}{suffix}")
    for file, function in CHANGED.items():
        path = folder / "sql" / f"{file}.sql"
        before, name, after = path.read_text("utf-8").partition(f"create or replace function {function}(")
        path.write_text(before + name + after.replace("as $$", "as $$ /* changed */", 1), encoding="utf-8")
    monkeypatch.setattr(scripts, "SCRIPTS", folder)
    recorded = definitions._read_lines(definitions.RECORD)
    async with connected(database.coordinator.admin_dsn) as owner:
        await owner.execute("set citus.enable_ddl_propagation = off")
        undo = owner.transaction()
        await undo.start()
        for file, function in CHANGED.items():
            await owner.execute(function_script(file, function))
        for file in ("notes", "tenant_isolation"):
            await owner.execute(read_file(file, distributed=True))
        found = await read_definitions(owner)
        await undo.rollback()
    recorded = {
        **{name: found.get(name, digest) for name, digest in recorded.items()},
        **{name: digest for name, digest in found.items() if name.endswith(" on public.notes")},
    }
    citus = definitions._read_lines(definitions.CITUS_RECORD)
    monkeypatch.setattr(
        definitions, "_read_lines", lambda file: dict(recorded if file == definitions.RECORD else citus)
    )
    definitions.read_record.cache_clear()
    yield
    definitions.read_record.cache_clear()


@pytest.mark.usefixtures("later_version")
async def test_a_later_migration_reaches_every_node_and_all_shards(database: CitusDatabase) -> None:
    await prepare(database.coordinator.admin_dsn, service_role=SERVICE, model=MODEL)
    async with connected(database.coordinator.superuser_dsn) as superuser:
        assert await superuser.fetchval("select version_num from alembic_version") == NEXT
        assert await superuser.fetchval("""
            select a.colocationid = b.colocationid from pg_dist_partition a, pg_dist_partition b
             where a.logicalrelid = 'notes'::regclass and b.logicalrelid = 'tenants'::regclass""")
        assert [row[0] for row in await superuser.fetch("select distinct name from saved_searches")] == ["N!"]
        assert await superuser.fetchval("select count(distinct tenant_id) from notes") == 8
    for node in database.nodes:
        async with connected(node.superuser_dsn) as superuser:
            await superuser.execute("set citus.override_table_visibility = off")
            for pattern, what in ((r"^feedback(_\d+)?$", "remark"), (r"^notes(_\d+)?$", "text")):
                lacking = await superuser.fetch(
                    "select c.relname from pg_class c where c.relkind = 'r' and c.relname ~ $1 and not exists"
                    " (select from pg_attribute a where a.attrelid = c.oid and a.attname = $2)",
                    pattern,
                    what,
                )
                assert lacking == []
            changed = await superuser.fetchval(
                "select count(*) filter (where prosrc ~ '/. changed') from pg_proc where proname = any ($1)",
                [function.partition(".")[2] or function for function in CHANGED.values()],
            )
            copies = await superuser.fetch(
                r"select prosrc ~ '/. changed' as changed from pg_proc where proname ~ '^filtered_ids_\d+$'"
            )
            groups = await superuser.fetchval("select count(*) from shards.local_groups()")
            assert (changed, [row["changed"] for row in copies]) == (len(CHANGED), [True] * groups)
        async with connected(node.service_dsn) as service:
            assert await find_faults(service) == []
    await migrate(database.coordinator.admin_dsn, NEWEST, down=True)
    for node in database.nodes:
        async with connected(node.superuser_dsn) as superuser:
            await superuser.execute("set citus.override_table_visibility = off")
            left = await superuser.fetch(
                "select relname from pg_class where relname ~ '^(notes|feedback_by_subject)'"
                " union all select attname from pg_attribute where attname = 'remark'"
            )
            assert left == []
