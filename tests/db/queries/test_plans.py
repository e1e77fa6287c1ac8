"""Plans of queries."""

import re
from collections.abc import AsyncIterator
from uuid import UUID

import asyncpg
import numpy as np
import pytest
from pgvector import HalfVector
from pgvector.asyncpg import register_vector

from app.composition.services import build_services
from app.db.database import Database
from app.db.queries import vectors
from app.db.queries.search import SQL, EntryFilter
from app.db.queries.tenants import delete_tenant
from app.db.statements import Statement
from app.embedded import EmbeddedAddress
from app.knowledge.search.legs.semantic import session_setup
from app.knowledge.search.plan import KEYWORD_BUDGET
from tests.fixtures.database.cluster import MODEL, Connection, TestDatabase, connected, new_database
from tests.fixtures.database.filled import fill_tenant, make_tenant
from tests.fixtures.database.seeded import Seeded
from tests.fixtures.providers.failing import FailingProvider

ENTRIES = 2_000


class Filled:
    """Two large tenants in different partitions, and a connection as kb_service."""

    def __init__(self, service: Connection, superuser: Connection, first: UUID, partition: str) -> None:
        self.service, self.superuser, self.first, self.partition = service, superuser, first, partition

    async def choose(self) -> None:
        """Set the first tenant for the whole connection."""
        await self.service.execute(f"set app.current_tenant = '{self.first}'")

    async def explain(self, statement: Statement, types: str, *arguments: str, ef_search: int = 100) -> str:
        """The generic plan of a prepared statement for the first tenant, with the settings of the leg."""
        await self.service.execute(session_setup(ef_search).replace("set local", "set"))
        await self.choose()
        await self.service.execute(f"prepare probe ({types}) as {statement.sql}")
        try:
            rows = await self.service.fetch(f"explain (costs off) execute probe ({', '.join(arguments)})")
        finally:
            await self.service.execute("deallocate probe; reset all")
        return "\n".join(row[0] for row in rows)

    async def scans(self, parent: str) -> dict[str, int]:
        """How often the index of each partition has been scanned."""
        await self.service.execute("select pg_stat_force_next_flush()")
        rows = await self.superuser.fetch(
            "select s.relname, s.idx_scan from pg_stat_user_indexes s"
            " join pg_inherits i on i.inhrelid = s.indexrelid where i.inhparent = $1::text::regclass",
            parent,
        )
        return {row["relname"]: row["idx_scan"] for row in rows}


@pytest.fixture(scope="module")
async def filled(cluster: EmbeddedAddress, template: str) -> AsyncIterator[Filled]:
    async with new_database(cluster, template=template) as made:
        tenants = await make_tenants(made)
        async with connected(made.superuser_dsn) as superuser, connected(made.service_dsn) as service:
            for tenant in tenants:
                await fill_tenant(superuser, tenant, ENTRIES, indexed=True)
            # Autovacuum does this after a load. Without it, Postgres estimates the cost of the word index seven times
            # too high, and sometimes reads all of a table of this size instead.
            await superuser.execute("vacuum (analyze) entries, embeddings")
            partition = await superuser.fetchval(
                "select tableoid::regclass::text from entries where tenant_id = $1 limit 1", tenants[0]
            )
            await register_vector(service)
            yield Filled(service, superuser, tenants[0], partition)


async def make_tenants(made: TestDatabase) -> list[UUID]:
    """Two tenants whose entries are in different partitions."""
    database = Database(made.service_dsn)
    services = await build_services(database, FailingProvider(MODEL))
    found: dict[int, UUID] = {}
    async with connected(made.superuser_dsn) as superuser:
        while len(found) < 2:
            tenant, place = await make_tenant(services, superuser)
            found[place] = tenant
    await database.close()
    return list(found.values())


def scanned(plan: str, table: str) -> set[str]:
    """The partitions of a table that a plan reads."""
    return set(re.findall(rf"\b{table}_p\d\d(?=\s|$)", plan))


def vector_literal(seed: int) -> str:
    numbers = np.random.default_rng(seed).normal(size=16)
    return f"'{HalfVector(numbers.astype(np.float32)).to_text()}'"


async def test_keyword_leg_reads_the_word_index_of_one_partition(filled: Filled) -> None:
    await filled.choose()
    before = await filled.scans("entries_by_lexeme")
    rows = await filled.service.fetch(
        SQL["keyword_leg"].sql,
        *[
            {
                "tenant_id": filled.first,
                "query": "rare7 shared3",
                "spelt": [],
                "spellings": [],
                "synonym_terms": [],
                "synonyms": [],
                "synonym_weight": 1.0,
                "filter": EntryFilter().as_row(),
                "limit": 30,
                "budget": KEYWORD_BUDGET,
                "words": "rare7 shared3",
                "phrases": [],
                "misspelt": [],
                "corrections": [],
                "correction_weight": 1.0,
                "completions": [],
                "completed": [],
                "completion_weight": 1.0,
                "compound_words": [],
                "compound_weight": 1.0,
                "compound_limit": 4,
                "parts": ["shared"],
                "unknown_parts": [],
                "part_weight": 1.0,
            }[name]
            for name in SQL["keyword_leg"].parameters
        ],
    )
    assert len(rows) == 30
    after = await filled.scans("entries_by_lexeme")
    assert {name for name in after if after[name] > before[name]} == {filled.partition}


async def test_policy_alone_would_not_use_the_word_index(filled: Filled) -> None:
    """The reason for the keyword functions. If this fails, Postgres has improved, and they can be removed."""
    await filled.choose()
    plan = "\n".join(
        row[0]
        for row in await filled.service.fetch(
            "explain (costs off) select id from entries where tenant_id = $1 and lexemes @@ 'rare7'::tsquery",
            filled.first,
        )
    )
    assert "lexemes" not in "".join(re.findall(r"Index Cond: .*", plan))


async def test_filtered_ids_reads_the_tag_index_of_one_partition(filled: Filled) -> None:
    await filled.choose()
    before = await filled.scans("entries_by_tag")
    ids = await filled.service.fetchval(SQL["filtered_ids"].sql, EntryFilter(tags=("t17",)).as_row(), 1000)
    assert len(ids) == ENTRIES // 400
    after = await filled.scans("entries_by_tag")
    assert {name for name in after if after[name] > before[name]} == {filled.partition}


async def test_matching_entries_reads_the_word_index_of_one_partition(filled: Filled) -> None:
    await filled.choose()
    before = await filled.scans("entries_by_lexeme")
    rows = await filled.service.fetch(
        "select * from keyword.matching_entries('{rare7}', '{english}', null, null, null, null, 1000)"
    )
    assert rows
    after = await filled.scans("entries_by_lexeme")
    assert {name for name in after if after[name] > before[name]} == {filled.partition}


async def test_derived_entries_reads_the_index_of_sources(filled: Filled) -> None:
    found = await filled.superuser.fetchrow(
        "with two as (select id from entries where tenant_id = $1 limit 2)"
        " update entries e set source_ids = array[s.id] from (select min(id::text)::uuid as id from two) s"
        " where e.tenant_id = $1 and e.id = (select max(id::text)::uuid from two) returning s.id, e.id",
        filled.first,
    )
    assert found is not None
    source, derived = found
    await filled.choose()
    before = await filled.scans("entries_by_source")
    rows = await filled.service.fetch("select entry_id from keyword.derived_entries($1, 5)", source)
    assert [row["entry_id"] for row in rows] == [derived]
    after = await filled.scans("entries_by_source")
    assert {name for name in after if after[name] > before[name]} == {filled.partition}


async def test_tag_overlaps_reads_the_tag_index(filled: Filled) -> None:
    await filled.choose()
    before = await filled.scans("entries_by_tag")
    rows = await filled.service.fetch("select * from keyword.tag_overlaps('{t17,u2}', gen_random_uuid(), 5)")
    assert rows
    after = await filled.scans("entries_by_tag")
    assert {name for name in after if after[name] > before[name]} == {filled.partition}


@pytest.mark.parametrize("ef_search", [10, 100, 400])
async def test_indexed_uses_the_tenants_own_index_in_its_generic_plan(filled: Filled, ef_search: int) -> None:
    statement = vectors.SQL["indexed"].literal(tenant_id=filled.first, model_id=1, dimensions=16)
    assert statement.parameters == ("filter", "most_pending", "vector")
    plan = await filled.explain(
        statement, "entry_filter, integer, halfvec", "null", "100", vector_literal(1), ef_search=ef_search
    )
    partition = filled.partition.replace("entries", "embeddings")
    assert f"using embeddings_hnsw_1_{filled.first.hex} " in plan
    assert scanned(plan, "embeddings") == {partition}
    assert scanned(plan, "entries") == {filled.partition}
    assert "->  Sort" not in plan
    assert "Seq Scan" not in plan


async def test_exact_search_reads_only_the_tenants_partition(filled: Filled) -> None:
    for name, types, arguments in (
        ("exact_all", {"max_distance": ("float8", "1"), "filter": ("entry_filter", "null")}, ()),
        ("exact_ids", {"max_distance": ("float8", "1"), "ids": ("uuid[]", "'{}'")}, ()),
    ):
        known = {
            "vector": ("halfvec", vector_literal(2)),
            "tenant_id": ("uuid", f"'{filled.first}'"),
            "limit": ("bigint", "30"),
            "most_pending": ("integer", "100"),
            **types,
        }
        statement = vectors.SQL[name].literal(model_id=1, dimensions=16)
        chosen = [known[parameter] for parameter in statement.parameters]
        plan = await filled.explain(
            statement, ", ".join(kind for kind, _ in chosen), *[value for _, value in chosen], *arguments
        )
        partition = filled.partition.replace("entries", "embeddings")
        assert scanned(plan, "embeddings") == {partition}, name
        assert scanned(plan, "entries") == {filled.partition}, name


async def test_registered_model_guards_the_dimension(filled: Filled) -> None:
    with pytest.raises(asyncpg.CheckViolationError):
        await filled.superuser.execute(
            "insert into embeddings select tenant_id, entry_id, 1, 9, text_hash, 0, 1, false, '[1,2]'"
            " from embeddings limit 1"
        )


async def test_deleted_tenant_leaves_no_row_in_any_table(cluster: EmbeddedAddress, seeded_template: Seeded) -> None:
    async with (
        new_database(cluster, template=seeded_template.database.name) as made,
        connected(made.superuser_dsn) as superuser,
    ):

        async def counts() -> dict[str, dict[str, int]]:
            return {
                table: {
                    str(row["tenant_id"]): row["n"]
                    for row in await superuser.fetch(f"select tenant_id, count(*) as n from {table} group by 1")
                }
                for table in seeded_template.tables
            }

        before = await counts()
        database = Database(made.service_dsn)
        async with database.platform_session() as session:
            assert await delete_tenant(session, seeded_template.first, "test")
            assert not await delete_tenant(session, seeded_template.first, "test")
        await database.close()
        kept = str(seeded_template.second)
        assert await counts() == {table: {kept: rows[kept]} for table, rows in before.items()}
        audit = await superuser.fetch("select action, subject_tenant from platform_audit order by id desc limit 1")
        assert [tuple(row) for row in audit] == [("tenant.delete", seeded_template.first)]


async def test_deletion_that_would_leave_a_row_fails_completely(
    cluster: EmbeddedAddress, seeded_template: Seeded
) -> None:
    """A table of a later revision whose author forgot the foreign key."""
    async with (
        new_database(cluster, template=seeded_template.database.name) as made,
        connected(made.superuser_dsn) as superuser,
        connected(made.admin_dsn) as migrator,
    ):
        await migrator.execute("create table forgotten (tenant_id uuid not null)")
        await superuser.execute("insert into forgotten values ($1)", seeded_template.first)
        before = await superuser.fetchval("select count(*) from entries")
        database = Database(made.service_dsn)
        with pytest.raises(asyncpg.RaiseError, match="forgotten still has rows of the deleted tenant"):
            async with database.platform_session() as session:
                await delete_tenant(session, seeded_template.first, "test")
        assert await superuser.fetchval("select count(*) from entries") == before
        async with database.platform_session() as session:
            assert await delete_tenant(session, seeded_template.second, "test")
        await database.close()
