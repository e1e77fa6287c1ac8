"""The matrix of isolation: each table and partition × each command × the tenant that is set.

No command has a condition on the tenant, so the policies alone must hold. Tables come from the catalog, so new ones
are included automatically.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

import asyncpg

from tests.fixtures.database.cluster import Connection

ROLE = "kb_service"
SERVICE = "{*,everyone}"
"""The principals of the service itself: the policies on readers are probed in `tests/isolation/readers`."""

COMMANDS = ("select", "insert", "update", "give away", "delete")
SETTINGS = ("own", "other", "none")

SHARED = {
    "alembic_version": {"select"},
    "embedding_models": {"select", "update (paused_until)"},
    "platform_audit": frozenset[str](),
    "revoked_platform_tokens": frozenset[str](),
    "send_turns": frozenset[str](),
    "tenant_slugs": frozenset[str](),
}
"""Tables without a tenant, and the service's rights on them: every tenant shares every row."""

UNTENANTED = """
select c.oid::regclass::text as name,
       array(select x.right from unnest(array['select', 'insert', 'update', 'delete']) x ("right")
              where has_table_privilege($1, c.oid, x.right))
       || array(select format('%s (%s)', x.right, a.attname)
                  from pg_attribute a cross join unnest(array['select', 'insert', 'update']) x ("right")
                 where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
                   and has_column_privilege($1, c.oid, a.attnum, x.right)
                   and not has_table_privilege($1, c.oid, x.right)) as rights
  from pg_class c
 where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p', 'f', 'v', 'm') and c.relname <> 'tenants'
   and not exists (select from pg_attribute a
                    where a.attrelid = c.oid and a.attname = 'tenant_id' and not a.attisdropped)"""

RELATIONS = """
select c.oid::regclass::text as name, a.attname as tenant_column, c.relispartition as is_partition,
       case when c.oid = 'tenants'::regclass then 'name' else a.attname end as update_column,
       (select string_agg(quote_ident(w.attname), ', ' order by w.attnum) from pg_attribute w
         where w.attrelid = c.oid and w.attnum > 0 and not w.attisdropped and w.attgenerated = ''
           and w.attidentity = '') as columns
  from pg_class c
  join pg_attribute a on a.attrelid = c.oid and not a.attisdropped
   and a.attname = case when c.oid = 'tenants'::regclass then 'id' else 'tenant_id' end
 where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
 order by c.relispartition, 1"""


@dataclass(frozen=True, slots=True)
class Relation:
    """A table or partition that holds rows of tenants."""

    name: str
    tenant_column: str
    is_partition: bool
    update_column: str
    columns: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a command: how many rows of the current tenant and of others it reached, or why it failed."""

    own: int = 0
    foreign: int = 0
    refused: bool = False
    failure: str | None = None


async def list_relations(superuser: Connection) -> list[Relation]:
    """Every table and partition with a tenant, tables first."""
    return [Relation(**row) for row in await superuser.fetch(RELATIONS)]


async def find_shared_faults(superuser: Connection) -> list[str]:
    """Rights of the service role on tables and views without a tenant, beyond those of the known shared tables."""
    return [
        f"{row['name']}: {right} where nothing keeps tenants apart"
        for row in await superuser.fetch(UNTENANTED, ROLE)
        for right in row["rights"]
        if right not in SHARED.get(row["name"], ())
    ]


async def probe_matrix(
    superuser: Connection, tenant: UUID, other: UUID, relations: Iterable[Relation], commands: Sequence[str] = COMMANDS
) -> tuple[int, list[str]]:
    """Try every cell as the service's role; returns the number of cells, and one line for each fault.

    `superuser` is in a transaction; all changes of the commands are undone. `tenant` and `other` have rows in every
    table. The target is always a row of `tenant`; `tenant`, `other` or no tenant is set.
    """
    cells, faults = 0, []
    for relation in relations:
        truth = Counter(
            row[0] for row in await superuser.fetch(f"select {relation.tenant_column} from {relation.name}")
        )
        for command in commands:
            for setting in SETTINGS:
                allowed = {"own": tenant, "other": other, "none": None}[setting]
                outcome = await _try(superuser, relation, command, allowed, tenant, other, truth)
                cells += 1
                fault = _judge(relation, command, allowed, tenant, truth, outcome)
                if fault is not None:
                    faults.append(f"{relation.name}: {command} with {setting} tenant set: {fault}")
    return cells, faults


def _judge(
    relation: Relation, command: str, allowed: UUID | None, target: UUID, truth: Counter[UUID], outcome: Outcome
) -> str | None:
    if outcome.failure is not None:
        return outcome.failure
    if outcome.foreign:
        return f"reached {outcome.foreign} rows of another tenant"
    if outcome.refused or relation.is_partition or allowed is None or command == "give away":
        return None
    if command == "insert":
        return "the own row was refused" if allowed == target and not outcome.own else None
    if outcome.own != truth[allowed]:
        return f"reached {outcome.own} of {truth[allowed]} own rows"
    return None


async def _try(
    superuser: Connection,
    relation: Relation,
    command: str,
    allowed: UUID | None,
    target: UUID,
    other: UUID,
    truth: Counter[UUID],
) -> Outcome:
    may = await _is_granted(superuser, relation, command)
    await superuser.execute("savepoint cell")
    try:
        row = None
        if command == "insert":
            row = await _take_row(superuser, relation, target, remove=allowed == target and may)
        await superuser.execute(
            f"select set_config('app.current_tenant', '{allowed or ''}', true);"
            f" set local app.current_principals = '{SERVICE}'; set local role {ROLE}"
        )
        outcome = await _run(superuser, relation, command, row, allowed, target, other, truth)
    except asyncpg.InsufficientPrivilegeError as error:
        # A right that exists must not turn out useless: the matrix would prove nothing.
        by_policy = "row-level security" in str(error)
        crossing = command in ("insert", "give away") and allowed != (target if command == "insert" else other)
        expected = not may or (by_policy and (crossing or relation.is_partition))
        return Outcome(refused=True, failure=None if expected else str(error))
    except asyncpg.PostgresError as error:
        # The row does not belong to this partition: nothing was reached.
        return Outcome(refused=True, failure=None if relation.is_partition else f"{type(error).__name__}: {error}")
    finally:
        await superuser.execute("rollback to savepoint cell")
    if not may:
        return Outcome(failure="was not refused, though the role has no right to it")
    return outcome


async def _is_granted(superuser: Connection, relation: Relation, command: str) -> bool:
    if command in ("update", "give away"):
        column = relation.update_column if command == "update" else relation.tenant_column
        sql = "select has_column_privilege($1, $2, $3, 'update')"
        granted: bool = await superuser.fetchval(sql, ROLE, relation.name, column)
    else:
        granted = await superuser.fetchval("select has_table_privilege($1, $2, $3)", ROLE, relation.name, command)
    return granted


async def _take_row(superuser: Connection, relation: Relation, owner: UUID, *, remove: bool) -> str | None:
    """A row of the tenant as JSON, removed so that it can be written again."""
    # A partition of other tenants has no such row; its row would have the same form.
    sql = f"select to_jsonb(t)::text from {relation.name} t where {relation.tenant_column} = $1 limit 1"
    row: str | None = await superuser.fetchval(sql, owner)
    if remove and row is not None:
        # Dependent rows are removed as the owner of the tables, which the policies bind.
        await superuser.execute("select set_config('app.current_tenant', $1, true)", str(owner))
        await superuser.execute(f"set local app.current_principals = '{SERVICE}'")
        await superuser.execute(f"delete from {relation.name} t where to_jsonb(t) = $1::jsonb", row)
    return row


async def _run(
    connection: Connection,
    relation: Relation,
    command: str,
    row: str | None,
    allowed: UUID | None,
    target: UUID,
    other: UUID,
    truth: Counter[UUID],
) -> Outcome:
    """Run one command. Commands that write do not read columns: otherwise the policy for reading would hide a fault in
    theirs.
    """
    name, column = relation.name, relation.tenant_column
    own = truth[allowed] if allowed is not None else 0
    match command:
        case "select":
            seen = Counter(r[0] for r in await connection.fetch(f"select {column} from {name}"))
            mine = seen.pop(allowed, 0) if allowed is not None else 0
            return Outcome(mine, seen.total())
        case "insert":
            values = row if row is not None else f'{{"{column}": "{target}"}}'
            record = f"jsonb_populate_record(null::{name}, $1::jsonb)"
            sql = f"insert into {name} ({relation.columns}) select {relation.columns} from {record}"
            written = _count(await connection.execute(sql, values))
            return Outcome(written, 0) if allowed == target else Outcome(0, written)
        case "update":
            value = "same" if relation.update_column == "name" else allowed or target
            touched = _count(await connection.execute(f"update {name} set {relation.update_column} = '{value}'"))
        case "give away":
            touched = _count(await connection.execute(f"update {name} set {column} = '{other}'"))
            own = own if allowed == other else 0
        case _:
            touched = _count(await connection.execute(f"delete from {name}"))
    return Outcome(min(touched, own), max(0, touched - own))


def _count(status: str) -> int:
    return int(status.rpartition(" ")[2])
