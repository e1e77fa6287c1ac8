"""What each principal reaches: in every table by every verb, and by each function with its owner's rights."""

import itertools
from collections.abc import Iterable

import asyncpg

from tests.fixtures.database.cluster import Connection
from tests.isolation.readers.holdings import (
    CLOSED_ROWS,
    HIDDEN,
    OF_THE_SERVICE,
    PRINCIPALS,
    SEES,
    Held,
    as_service_role,
)

VERBS = ("select", "update", "delete")

FUNCTIONS = {
    "keyword.search": """select array_agg(s.entry_id::text || s.score || array_to_string(s.unknown, ' '))
        from keyword.search(current_tenant(),
        array['quokka', 'harbour'], array['english', 'english'], null, 1, 40, {filter}, 10, 100) s""",
    "keyword.search of phrases": """select array_agg(s.entry_id::text || s.score) from keyword.search(
        current_tenant(), array['harbour'], array['english'], null, 1, 40, {filter}, 10, 100, null,
        array['quokka <-> guard', 'harbour'], array['english', 'english'], array['quokka', 'harb:*'],
        array[null, null]::text[], array['harbour', 'harbour'], array[0.5, 0.5]) s""",
    "keyword.search of frequent words": """select array_agg(s.entry_id::text || s.score) from keyword.search(
        current_tenant(), array['harbour', 'quokka'], array['english', 'english'], array[5000, 5000], 6000,
        40, {filter}, 10, 2) s""",
    "keyword.search with a filter": """select array_agg(s.entry_id::text || s.score) from keyword.search(
        current_tenant(), array['harbour', 'quokka'], array['english', 'english'], array[5000, 5000], 6000, 40,
        {tagged}, 10, 50) s""",
    "keyword.filtered_ids": "select keyword.filtered_ids({filter}, 100)::text",
    "keyword.matching_entries": """select array_agg(m.entry_id) from keyword.matching_entries(
        array['quokka', 'harbour'], array['english', 'english'], null, null, {filter}, null, 100) m""",
    "keyword.matching_entries of ids": """select array_agg(m.entry_id) from keyword.matching_entries(
        array['quokka', 'harbour'], array['english', 'english'], null, null, {filter}, '{{{ids}}}'::uuid[], 100) m""",
    "keyword.tag_overlaps": """select array_agg(t.entry_id)
        from keyword.tag_overlaps(array['sea', 'night'], gen_random_uuid(), 100) t""",
    "keyword.derived_entries": """select array_agg(d.entry_id) from keyword.derived_entries('{parent}', 100) d""",
    "keyword.matched_queries": """select keyword.matched_queries(current_tenant(), null,
        array['vector', 'harbour'])::text""",
    "keyword.entries_with_parts": "select keyword.entries_with_parts(current_tenant(), 'uokka', 100)::text",
    "keyword.former_ids": "select keyword.former_ids({then}, 100)::text",
    "keyword.search of the past": """select array_agg(s.entry_id::text || s.score) from keyword.search(
        current_tenant(), array['quokka'], array['english'], null, 1, 40, {then}, 10, 100) s""",
}
"""A call of each function whose answer tells of hidden entries, if it does not compare readers."""


async def probe_tables(
    superuser: Connection, held: Held, tables: Iterable[str] = tuple(HIDDEN), verbs: Iterable[str] = VERBS
) -> list[str]:
    """One line for each cell of table × verb × principal that reaches a wrong row, or misses one."""
    faults: list[str] = []
    for table in tables:
        total = await superuser.fetchval(
            f"select count(*) from {table} where tenant_id = $1 and {HIDDEN[table]}", held.tenant_id
        )
        assert total, f"{table} has no hidden rows"
        for verb, (name, principals) in itertools.product(verbs, PRINCIPALS.items()):
            sees = name == "the service" if table in OF_THE_SERVICE else name in SEES
            expected = await _expected(superuser, held, table, principals) if sees else 0
            async with as_service_role(superuser, held.tenant_id, principals):
                reached = await _reach(superuser, table, verb, HIDDEN[table])
            if reached != expected and not (table == "audit" and verb != "select"):
                faults.append(f"{table}: {verb} by {name} reached {reached} of {total} hidden rows")
        if table not in ("audit", "corpus_statistics"):
            faults += await _probe_inserts(superuser, held, table, HIDDEN[table])
    return faults


async def probe_writers(
    superuser: Connection, held: Held, tables: Iterable[str] = tuple(CLOSED_ROWS), verbs: Iterable[str] = VERBS
) -> list[str]:
    """One line for each cell of table × verb × principal that reads a wrong row that is closed, or changes one."""
    faults: list[str] = []
    for table in tables:
        rows = CLOSED_ROWS[table].format(held)
        total = await superuser.fetchval(
            f"select count(*) from {table} where tenant_id = $1 and {rows}", held.tenant_id
        )
        assert total, f"{table} has no closed rows"
        for verb, (name, principals) in itertools.product(verbs, PRINCIPALS.items()):
            expected = total if verb == "select" or name in SEES else 0
            async with as_service_role(superuser, held.tenant_id, principals):
                reached = await _reach(superuser, table, verb, rows)
            if reached != expected:
                faults.append(f"{table}: {verb} by {name} reached {reached} of {total} closed rows")
        faults += await _probe_inserts(superuser, held, table, rows)
    return faults


async def _probe_inserts(superuser: Connection, held: Held, table: str, rows: str) -> list[str]:
    """Faults of inserting one of these rows again that was removed."""
    faults = []
    columns = await superuser.fetchval(
        "select string_agg(quote_ident(attname), ', ' order by attnum) from pg_attribute"
        " where attrelid = $1::text::regclass and attnum > 0 and not attisdropped and attgenerated = ''",
        table,
    )
    row = await superuser.fetchval(
        f"select to_jsonb(t)::text from {table} t where tenant_id = $1 and {rows} limit 1", held.tenant_id
    )
    for name, principals in PRINCIPALS.items():
        sees = name == "the service" if table in OF_THE_SERVICE else name in SEES
        await superuser.execute("savepoint inserting; set local session_replication_role = replica")
        await superuser.execute(f"delete from {table} t where to_jsonb(t) = $1::jsonb", row)
        await superuser.execute("set local session_replication_role = origin")
        try:
            async with as_service_role(superuser, held.tenant_id, principals):
                await superuser.execute(
                    f"insert into {table} ({columns}) select {columns}"
                    f" from jsonb_populate_record(null::{table}, $1::jsonb)",
                    row,
                )
            inserted = True
        except (asyncpg.InsufficientPrivilegeError, asyncpg.ForeignKeyViolationError):
            inserted = False
        await superuser.execute("rollback to savepoint inserting")
        if inserted is not sees:
            faults.append(f"{table}: insert by {name} was {'accepted' if inserted else 'refused'}")
    return faults


async def _expected(superuser: Connection, held: Held, table: str, principals: tuple[str, ...]) -> int:
    counted = " and ('*' = any ($2) or principal = any ($2))" if table == "corpus_statistics" else ""
    count: int = await superuser.fetchval(
        f"select count(*) from {table} where tenant_id = $1 and $2::text[] is not null and {HIDDEN[table]}{counted}",
        held.tenant_id,
        list(principals),
    )
    return count


async def _reach(connection: Connection, table: str, verb: str, rows: str) -> int | None:
    where = f"where tenant_id = current_tenant() and {rows}"
    if verb == "select":
        found: int = await connection.fetchval(f"select count(*) from {table} {where}")
        return found
    if table == "audit":
        return None  # the service has no right to change the trail
    change = f"update {table} set tenant_id = tenant_id" if verb == "update" else f"delete from {table}"
    try:
        done = await connection.execute(f"{change} {where}")
    except asyncpg.InsufficientPrivilegeError:
        return 0
    return int(done.rpartition(" ")[2])


async def probe_functions(superuser: Connection, held: Held, only: str | None = None) -> list[str]:
    """One line for each function that tells a caller more than it tells in a tenant without the hidden rows.

    The answers for callers who may not read them must be the same before and after the hidden rows are deleted, and
    those for a reader must not: otherwise the call proves nothing.
    """
    calls = {name: await _fill(superuser, held, sql) for name, sql in FUNCTIONS.items() if only in (None, name)}
    told = {
        (call, name): await _ask(superuser, held, sql, principals)
        for call, sql in calls.items()
        for name, principals in PRINCIPALS.items()
    }
    await superuser.execute("savepoint without")
    await superuser.execute("set local session_replication_role = replica")
    for table in ("entries", "assets", "former_entries", "embeddings"):
        await superuser.execute(f"delete from {table} where tenant_id = $1 and readers is not null", held.tenant_id)
    await superuser.execute("set local session_replication_role = origin")
    faults = []
    for (call, name), answer in told.items():
        alone = await _ask(superuser, held, calls[call], PRINCIPALS[name])
        if name not in SEES and answer != alone:
            faults.append(f"{call} tells {name} of hidden rows: {answer} instead of {alone}")
        if name == "a reader" and answer == alone:
            faults.append(f"{call} tells {name} nothing")
    await superuser.execute("rollback to savepoint without")
    return faults


async def _fill(superuser: Connection, held: Held, sql: str) -> str:
    row = await superuser.fetchrow(
        "select parent_id, (select string_agg(id::text, ',') from entries where tenant_id = $1) as ids"
        " from entries where tenant_id = $1 and id = $2",
        *(held.tenant_id, held.entry_id),
    )
    assert row is not None
    fields = ",".join(["false", *["null"] * 15])
    return sql.format(
        filter=f"row({fields},null,null,null,null)::entry_filter",
        tagged=f"row(false,null,'{{sea}}',false,{','.join(['null'] * 12)},null,null,null,null)::entry_filter",
        then=f"row({fields},'{held.then.isoformat()}',null,null,null)::entry_filter",
        parent=row["parent_id"],
        ids=row["ids"],
    )


async def _ask(superuser: Connection, held: Held, sql: str, principals: tuple[str, ...]) -> str:
    async with as_service_role(superuser, held.tenant_id, principals):
        return str(await superuser.fetchval(sql))
