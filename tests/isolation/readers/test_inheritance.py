"""Chunks have the lists of their asset, and vectors the readers of their entry, whatever code writes them."""

import asyncio

import asyncpg
import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.assets import Upload
from app.contract.entries import EntryDraft
from app.db.principals import SERVICE, acting_as
from app.db.rows import new_id
from app.db.schema.isolation import find_faults
from app.db.statements import parse_statement
from tests.fixtures.database.cluster import Connection, connected
from tests.isolation.readers.holdings import GROUP, INSIDER, Held, as_service_role

INSERT_CHUNKS = """
insert into entries (tenant_id, id, entry_type, content, language, asset_id, chunk_index, content_hash, text_hash,
                     readers, writers)
select current_tenant(), gen_random_uuid(), case when a.id is null then 'fact' else 'chunk' end,
       'inherited ' || r.number, 'english', a.id, case when a.id is not null then 900 + r.number end,
       sha256('x'), sha256('y'), r.readers, r.writers
  from unnest($1::uuid[]) a (id)
 cross join (values (1, null::text[], null::text[]), (2, '{group:finance}', null), (3, null, '{group:finance}'))
            r (number, readers, writers)
 where a.id is not null or r.number = 1
"""
INSERT_VECTORS = """
insert into embeddings (tenant_id, entry_id, model_id, passage, text_hash, char_start, char_end, in_index, embedding,
                        readers)
select k.tenant_id, k.entry_id, k.model_id, 900 + r.number, k.text_hash, 0, 1, false, k.embedding, r.readers
  from embeddings k cross join (values (1, null::text[]), (2, '{group:finance}')) r (number, readers)
 where k.tenant_id = current_tenant() and k.passage = 0
"""
ADD_TO = {
    "assets": """
        insert into entries (tenant_id, id, entry_type, content, language, asset_id, chunk_index, content_hash,
                             text_hash)
        values (current_tenant(), gen_random_uuid(), 'chunk', 'x', 'english', $1, 900, sha256('x'), sha256('y'))""",
    "entries": """
        insert into embeddings (tenant_id, entry_id, model_id, passage, text_hash, char_start, char_end, in_index,
                                embedding)
        select current_tenant(), $1, min(id), 900, sha256('y'), 0, 1, false, array_fill(1, array[16])::halfvec
          from embedding_models""",
}
"""Statements that add a chunk to an asset, and a vector to an entry."""
WRONG_CHUNKS = """
select count(*) from entries e join assets a on a.tenant_id = e.tenant_id and a.id = e.asset_id
 where (e.readers, e.writers) is distinct from (a.readers, a.writers)
"""
WRONG_VECTORS = """
select count(*) from embeddings k join entries e on e.tenant_id = k.tenant_id and e.id = k.entry_id
 where k.readers is distinct from e.readers
"""
OPEN = "set readers = null, writers = null"
ASSETS = "select array_agg(id) || null::uuid from assets where tenant_id = $1"
TRIGGERS = [(name, table) for name in ("inherit_added", "inherit_readers") for table in ("entries", "embeddings")]


async def find_wrong_copies(superuser: Connection, held: Held) -> list[str]:
    """Write rows with the lists of something else in every way; a line for each that kept them."""
    faults = []
    assets = await superuser.fetchval(ASSETS, held.tenant_id)
    ways = {
        "chunks are inserted": (INSERT_CHUNKS, (assets,), WRONG_CHUNKS),
        "chunks change": (
            "update entries set readers = null, writers = null where asset_id is not null",
            (),
            WRONG_CHUNKS,
        ),
        "vectors are inserted": (INSERT_VECTORS, (), WRONG_VECTORS),
        "vectors change": ("update embeddings set readers = null", (), WRONG_VECTORS),
        "vectors change more": ("update embeddings set readers = '{group:finance}'", (), WRONG_VECTORS),
    }
    for way, (statement, values, wrong) in ways.items():
        async with as_service_role(superuser, held.tenant_id, INSIDER):
            await superuser.execute(statement, *values)
            if left := await superuser.fetchval(wrong):
                faults.append(f"{left} wrong rows when {way}")
    return faults


async def test_no_statement_leaves_a_wrong_copy(breaking: tuple[Connection, Held]) -> None:
    superuser, held = breaking
    assert await superuser.fetchval(WRONG_CHUNKS) == await superuser.fetchval(WRONG_VECTORS) == 0
    assert await find_wrong_copies(superuser, held) == []


@pytest.mark.one_server
@pytest.mark.parametrize(("trigger", "table"), TRIGGERS, ids=str)
async def test_a_missing_trigger_is_noticed(breaking: tuple[Connection, Held], trigger: str, table: str) -> None:
    superuser, held = breaking
    await superuser.execute(f"drop trigger {trigger} on {table}")
    assert await find_wrong_copies(superuser, held) != []
    async with as_service_role(superuser, held.tenant_id, ()):
        faults = [fault.text for fault in await find_faults(superuser)]
    assert [f for f in faults if trigger in f and table in f], faults


@pytest.mark.parametrize("table", ADD_TO)
async def test_what_may_not_be_read_is_refused_as_what_does_not_exist(
    breaking: tuple[Connection, Held], table: str
) -> None:
    superuser, held = breaking
    errors = set()
    for target in (held.asset_id if table == "assets" else held.entry_id, new_id()):
        async with as_service_role(superuser, held.tenant_id, ("everyone", "user:cleo")):
            with pytest.raises(asyncpg.ForeignKeyViolationError) as refused:
                await superuser.execute(ADD_TO[table], target)
        error = refused.value
        errors.add((str(error), error.detail, error.schema_name, error.table_name, error.constraint_name))
    assert len(errors) == 1, errors


@pytest.mark.parametrize("table", ADD_TO)
async def test_what_may_only_be_read_is_not_added_to(breaking: tuple[Connection, Held], table: str) -> None:
    superuser, held = breaking
    closed = await superuser.fetchval(
        f"select id from {table} where tenant_id = $1 and readers is null and writers is not null", held.tenant_id
    )
    refusals = (asyncpg.ForeignKeyViolationError, asyncpg.InsufficientPrivilegeError)
    async with as_service_role(superuser, held.tenant_id, ("everyone", "user:cleo")):
        with pytest.raises(refusals):
            await superuser.execute(ADD_TO[table], closed)


@pytest.mark.one_server
async def test_a_chunk_that_meets_a_change_of_its_asset_gets_the_new_readers(
    services: Services, tenant: Tenant, superuser_dsn: str
) -> None:
    """The statement has read the former readers, and waits for the change."""
    with acting_as(SERVICE):
        asset, _ = await services.assets.upload(tenant.id, Upload("a.md", b"The amber is here."))
        while await services.worker.run_once():
            pass
        insert = parse_statement("test.insert", INSERT_CHUNKS.replace("$1::uuid[]", ":ids::uuid[]"))

        async def add_chunks() -> None:
            async with services.database.tenant_session(tenant.id) as session:
                await session.execute(insert, ids=[asset.id])

        async with connected(superuser_dsn) as superuser:
            async with superuser.transaction():
                await superuser.execute("update assets set readers = $1 where id = $2", [GROUP], asset.id)
                adding = asyncio.create_task(add_chunks())
                await wait_for_a_lock(superuser_dsn)
            await adding
            found = await superuser.fetch(
                "select readers, writers, count(*) from entries where asset_id = $1 group by 1, 2", asset.id
            )
            assert [tuple(row) for row in found] == [([GROUP], None, 4)]
            assert await superuser.fetchval(WRONG_VECTORS) == 0


REFUSE = """
create function refuse() returns trigger language plpgsql as $$ begin raise exception 'a row was written twice'; end $$;
create trigger refuse before update of readers on entries for each row execute function refuse();
create trigger refuse before update of readers on embeddings for each row execute function refuse();
"""


@pytest.mark.one_server
async def test_the_service_inserts_rows_with_their_lists(
    services: Services, tenant: Tenant, superuser_dsn: str
) -> None:
    """So that none has to be written again at the end of the statement."""
    async with connected(superuser_dsn) as superuser:
        await superuser.execute(REFUSE)
        with acting_as(SERVICE):
            for name in ("first.md", "again.md"):
                upload = Upload(name, b"The amber is here.", readers=[GROUP], writers=[GROUP], external_id=name)
                await services.assets.upload(tenant.id, upload)
            drafts = [EntryDraft(content=f"Amber {n}", readers=[GROUP]) for n in range(3)]
            await services.entries.create(tenant.id, EntryDraft(content="Amber", readers=[GROUP]))
            await services.entries.create_many(tenant.id, drafts)
            while await services.worker.run_once():
                pass
        for table in ("entries", "embeddings"):
            found = await superuser.fetch(f"select readers, count(*) from {table} group by 1")
            assert [tuple(row) for row in found] == [([GROUP], 6)]
        assert await superuser.fetchval("select count(*) from assets where status = 'indexed'") == 2


async def wait_for_a_lock(superuser_dsn: str) -> None:
    waiting = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    async with connected(superuser_dsn) as another, asyncio.timeout(60):
        while not await another.fetchval(waiting):  # noqa: ASYNC110 - the event is in the database
            await asyncio.sleep(0.01)
