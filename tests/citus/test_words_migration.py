"""The migration that changes the words of stored entries, on a cluster: each node has the functions in time."""

from __future__ import annotations

import pytest

from app.composition.database import SERVICE, prepare
from app.db.rows import new_id
from app.db.schema.migration import migrate
from tests.fixtures.database.citus import CitusCluster, create_citus_database, drop_citus_database
from tests.fixtures.database.cluster import MODEL, connected

pytestmark = pytest.mark.slow

BEFORE = """
    set citus.enable_ddl_propagation = off;
    create or replace function paired_text(content text) returns text language sql immutable parallel safe
      return content;
    create or replace function folded_words(language text, words text) returns text
      language sql immutable parallel safe return words;
    create or replace function character_lexemes(content text) returns tsvector
      language sql immutable parallel safe return ''::tsvector;
"""


async def test_stored_entries_of_all_tenants_get_their_words(citus_cluster: CitusCluster) -> None:
    database = await create_citus_database(citus_cluster, "kb_words")
    owner = database.coordinator.admin_dsn
    await prepare(owner, service_role=SERVICE, model=MODEL, shards=4)
    await migrate(owner, "0014", down=True)
    for node in database.nodes:
        async with connected(node.superuser_dsn) as superuser:
            await superuser.execute(BEFORE)
    async with connected(database.coordinator.superuser_dsn) as superuser:
        for number in range(6):
            tenant = new_id()
            await superuser.execute(
                "select tenancy.create_tenant($1, $2, 'A tenant', 1, 'test')", tenant, f"t{number}"
            )
            await superuser.execute(
                """
                insert into entries (tenant_id, id, entry_type, content, language, content_hash, text_hash,
                                     created_at, updated_at)
                values ($1, $2, 'fact', '機械学習 café', 'simple', '', '', now(), now())""",
                tenant,
                new_id(),
            )
            await superuser.execute(
                "insert into lexeme_statistics (tenant_id, lexeme, entries) values ($1, 'café', 2)", tenant
            )
        count = "select count(*) from entries where lexemes @@ '機械 & cafe'::tsquery"
        assert await superuser.fetchval(count) == 0
        await prepare(owner, service_role=SERVICE, model=MODEL)
        assert await superuser.fetchval(count) == 6
        assert await superuser.fetchval("select count(*) from lexeme_statistics where lexeme = 'café'") == 0
        assert not await superuser.fetchval("select count(*) from entry_changes")
        assert (
            await superuser.fetchval(
                "select count(*) from pg_trigger where tgname like 'watch_updated%' and tgenabled <> 'O'"
            )
            == 0
        )
    await drop_citus_database(citus_cluster, "kb_words")
