"""Migrations up and down, run the way a managed Postgres makes one run them: nobody is superuser."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

import pytest
from alembic.script import ScriptDirectory

from app.composition.database import SERVICE, check_database, prepare
from app.db.schema.migration import configuration, current_revision, latest_revision, migrate
from app.db.schema.registration import register_model
from app.embedded import EmbeddedAddress, EmbeddedPostgres
from tests.fixtures.database.cluster import FAST, MODEL, PASSWORDS, TestDatabase, connected

ROLES = Path(__file__).resolve().parents[3] / "deploy" / "roles.sql"
ADMINISTRATOR = "administrator"
REVISIONS = [
    r.revision for r in reversed(list(ScriptDirectory.from_config(configuration()).walk_revisions()))
]

# Everything that a migration makes, and every right that it gives; what belongs to extensions is left out.
FINGERPRINT = """
with ours as (
  select oid, nspname, nspowner, nspacl from pg_namespace
   where nspname !~ '^pg_' and nspname <> 'information_schema'
), rights as (
  select 'schema ' || nspname as thing, nspowner as owner, coalesce(nspacl, acldefault('n', nspowner)) as acl from ours
  union all
  select 'relation ' || n.nspname || '.' || c.relname
         || ' ' || c.relkind::text || c.relrowsecurity || c.relforcerowsecurity,
         c.relowner, coalesce(c.relacl, acldefault('r', c.relowner))
    from pg_class c join ours n on n.oid = c.relnamespace
   where not exists (select from pg_depend d where d.objid = c.oid and d.deptype = 'e')
  union all
  select 'function ' || p.oid::regprocedure, p.proowner, coalesce(p.proacl, acldefault('f', p.proowner))
    from pg_proc p join ours n on n.oid = p.pronamespace
   where not exists (select from pg_depend d where d.objid = p.oid and d.deptype = 'e')
)
select thing || ' ' || coalesce(a.grantee::regrole::text, '') || ' ' || coalesce(a.privilege_type, '')
  from rights r left join lateral aclexplode(r.acl) a on a.grantee <> r.owner
union all
select 'policy ' || polrelid::regclass || ' ' || polname from pg_policy
union all
select 'constraint ' || conrelid::regclass || ' ' || pg_get_constraintdef(oid)
  from pg_constraint where connamespace in (select oid from ours) and contype in ('c', 'f', 'u', 'p')
union all
select 'body of ' || p.oid::regprocedure || ' ' || md5(pg_get_functiondef(p.oid))
  from pg_proc p join ours n on n.oid = p.pronamespace
 where p.prokind = 'f' and not exists (select from pg_depend d where d.objid = p.oid and d.deptype = 'e')
union all
select 'index ' || pg_get_indexdef(i.indexrelid) from pg_index i join pg_class c on c.oid = i.indrelid
 where c.relnamespace in (select oid from ours) and not c.relispartition
union all
select 'extension ' || extname from pg_extension
order by 1"""


@pytest.fixture(scope="module")
async def bare_cluster(cluster_folder: Path) -> AsyncIterator[EmbeddedAddress]:
    """A server with an administrator as managed services give one: CREATEROLE, and no superuser."""
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
    """deploy/roles.sql as the administrator."""
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


async def fingerprint(database: TestDatabase) -> list[str]:
    async with connected(database.superuser_dsn) as superuser:
        return [row[0] for row in await superuser.fetch(FINGERPRINT)]


async def test_each_migration_goes_up_down_and_up_again(bare_cluster: EmbeddedAddress) -> None:
    assert REVISIONS[-1] == latest_revision()
    async with managed_database(bare_cluster, "stepwise") as database:
        states = [await fingerprint(database)]
        for revision in REVISIONS:
            await migrate(database.admin_dsn, revision)
            states.append(await fingerprint(database))
            assert states[-1] != states[-2], revision
        for place in range(len(REVISIONS) - 1, 0, -1):
            await migrate(database.admin_dsn, REVISIONS[place - 1], down=True)
            assert await fingerprint(database) == states[place], REVISIONS[place]
        await migrate(database.admin_dsn, "base", down=True)
        left = set(await fingerprint(database)) - set(states[0])
        assert {thing for thing in left if "alembic_version" not in thing} == set()
        for place, revision in enumerate(REVISIONS, start=1):
            await migrate(database.admin_dsn, revision)
            assert await fingerprint(database) == states[place], revision


@pytest.mark.slow
async def test_nothing_but_the_version_table_is_left_after_a_full_downgrade(
    bare_cluster: EmbeddedAddress,
) -> None:
    async with managed_database(bare_cluster, "emptied") as database:
        await prepare(database.admin_dsn, service_role=SERVICE, model=MODEL)
        await migrate(database.admin_dsn, "base", down=True)
        async with connected(database.superuser_dsn) as superuser:
            left = await superuser.fetch("""
                select c.relname from pg_class c where c.relnamespace = 'public'::regnamespace and c.relkind <> 'i'
                   and not exists (select from pg_depend d where d.objid = c.oid and d.deptype = 'e')
                union all
                select p.proname from pg_proc p where p.pronamespace = 'public'::regnamespace
                   and not exists (select from pg_depend d where d.objid = p.oid and d.deptype = 'e')
                union all
                select nspname from pg_namespace where nspname in ('keyword', 'queue', 'tenancy')""")
        assert [row["relname"] for row in left] == ["alembic_version"]
        assert await current_revision(database.admin_dsn) is None


@pytest.mark.slow
async def test_two_databases_of_one_server_are_migrated_and_served(bare_cluster: EmbeddedAddress) -> None:
    """Roles belong to the server: the second database finds them already made."""
    async with (
        managed_database(bare_cluster, "one") as one,
        managed_database(bare_cluster, "two") as two,
    ):
        for database in (one, two):
            await prepare(database.admin_dsn, service_role=SERVICE, model=MODEL)
            await check_database(database.service_dsn)
            assert await current_revision(database.service_dsn) == latest_revision()
        await migrate(one.admin_dsn, "base", down=True)
        await check_database(two.service_dsn)


async def test_preparing_again_changes_nothing(bare_cluster: EmbeddedAddress) -> None:
    async with managed_database(bare_cluster, "twice") as database:
        await prepare(database.admin_dsn, service_role=SERVICE, model=MODEL)
        first = await fingerprint(database)
        await apply_roles(bare_cluster, "twice")
        await prepare(database.admin_dsn, service_role=SERVICE, model=MODEL)
        assert await fingerprint(database) == first
        assert await register_model(database.admin_dsn, MODEL) == (1, False)


@pytest.mark.slow
async def test_model_registration_that_was_interrupted_is_completed(bare_cluster: EmbeddedAddress) -> None:
    async with managed_database(bare_cluster, "interrupted") as database:
        await prepare(database.admin_dsn, service_role=SERVICE, model=MODEL)
        whole = await fingerprint(database)
        async with connected(database.admin_dsn) as owner:
            await owner.execute("drop index embeddings_hnsw_1")
            await owner.execute(
                "create index embeddings_hnsw_1 on only embeddings"
                " using hnsw ((embedding::halfvec(16)) halfvec_cosine_ops) with (m = 16, ef_construction = 128)"
                " where model_id = 1 and in_index"
            )
            await owner.execute("alter table embeddings drop constraint embeddings_model_1")
        await register_model(database.admin_dsn, MODEL)
        assert await fingerprint(database) == whole
        async with connected(database.admin_dsn) as owner:
            assert await owner.fetchval(
                "select indisvalid from pg_index where indexrelid = 'embeddings_hnsw_1'::regclass"
            )


async def test_entries_from_before_lose_the_signs_in_their_words(bare_cluster: EmbeddedAddress) -> None:
    words = "select tsvector_to_array(lexemes) as words from entries order by tenant_id, content"
    stamps = "select updated_at, version, xmin::text as written from entries order by id"
    texts = ((None, "harbour"), ("On “quotas”", "plain"), (None, "„words“ – here"))
    async with (
        managed_database(bare_cluster, "signs") as database,
        connected(database.superuser_dsn) as superuser,
    ):
        await migrate(database.admin_dsn, "0006")
        await register_model(database.admin_dsn, MODEL)
        for slug in ("first", "second"):
            tenant = uuid4()
            await superuser.execute(
                "insert into tenants (id, slug, name, model_id) values ($1, $2, $2, 1)", tenant, slug
            )
            for title, content in texts:
                await superuser.execute(
                    "insert into entries (tenant_id, id, entry_type, title, content, language, content_hash, text_hash)"
                    " values ($1, gen_random_uuid(), 'fact', $2, $3, 'english', $4, $4)",
                    *(tenant, title, content, sha256(content.encode()).digest()),
                )
        before, old = await superuser.fetch(words), await superuser.fetch(stamps)
        assert any("„words“" in row["words"] for row in before)
        await migrate(database.admin_dsn, "0007")
        new = await superuser.fetch(stamps)
        assert [set(row["words"]) for row in await superuser.fetch(words)] == 2 * [
            {"harbour"}, {"plain", "quota"}, {"word"},
        ]  # fmt: skip
        # Only the entries that need it are written again, and none counts as changed by its author.
        assert sum(a["written"] != b["written"] for a, b in zip(old, new, strict=True)) == 4
        assert [row[:2] for row in old] == [row[:2] for row in new]
        counted = await superuser.fetch("select entries, characters from corpus_statistics")
        assert [tuple(row) for row in counted] == 2 * [(3, 48)]
        await migrate(database.admin_dsn, "0006", down=True)
        assert await superuser.fetch(words) == before
