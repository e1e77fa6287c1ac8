"""Distribute the tables of a Citus cluster by tenant, and prepare each node's roles and functions."""

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from graphlib import TopologicalSorter
from typing import Any

from app.db.cluster.definitions import find_false_copies
from app.db.cluster.metadata import at_node, connected, list_nodes, read_metadata
from app.db.cluster.sessions import SHOW_SHARDS, TAKES_ROW, mark
from app.db.rows import Connection
from app.db.schema.definitions import find_changed_functions, read_record, short_name
from app.db.schema.scripts import SCRIPTS, function_files, function_script, list_files, read_file
from app.db.statements import load_statements
from app.errors import ConfigurationError

Template = tuple[int, str, str | None, str]
"""The place in the order of creation, the name, the owner if it differs from the tables' owner, and the marked text."""


def shard_templates(tables: Iterable[str]) -> Sequence[Template]:
    """The templates; `tables` are those with shards, and the reference tables."""
    files = function_files(distributed=True)
    scripts = {name: function_script(file, name, distributed=True) for name, file in files.items()}
    copied = find_copied(scripts, tables)
    return [
        (place, name if "." in name else f"public.{name}", *_template(name, scripts[name], tables, copied))
        for place, name in enumerate(copied)
    ]


def find_copied(scripts: Mapping[str, str], tables: Iterable[str]) -> Sequence[str]:
    """The functions that every group has copies of, each after those that it calls.

    They read or write a table with shards, or call such a function. Others can be shared by all groups.
    """
    calls = {name: scripts.keys() & {*_CALL.findall(script)} - {name} for name, script in scripts.items()}
    copied = {name for name, script in scripts.items() if mark(script, tables, (), casts=False) != script}
    while more := {name for name in scripts.keys() - copied if calls[name] & copied}:
        copied |= more
    return [name for name in TopologicalSorter(calls).static_order() if name in copied]


_CALL = re.compile(r"(?<![\w.])(?:public\.)?([\w.]+)\(")


def _template(name: str, script: str, tables: Iterable[str], copied: Iterable[str]) -> tuple[str | None, str]:
    role = re.search(r"set local role (\w+);\n", script)
    if role is not None:
        script = script[role.end() :].partition("\nreset role;")[0]
    # A function of TAKES_ROW has a row of the table already.
    return role and role[1], mark(script, tables, copied, casts=name not in TAKES_ROW)


async def load_templates(connection: Any) -> None:
    """Store the templates on a node and adopt its groups, in one transaction; the caller is the tables' owner.

    Does nothing if the node has them already.
    """
    tables = [row["name"] for row in await connection.fetch(SQL["list_tables_of_groups"].sql)]
    wanted = shard_templates(tables)
    async with connection.transaction():
        await connection.execute("lock table shards.templates in share row exclusive mode")
        rows = await connection.fetch("select place, name, owner, definition from shards.templates order by place")
        former, own = ({name for _, name, _, _ in templates} for templates in (rows, wanted))
        changed = [tuple(row) for row in rows] != wanted
        if changed:
            await _drop_copies(connection, former | own, needed=True)
            await connection.execute("delete from shards.templates; delete from shards.adopted")
            await connection.executemany(
                "insert into shards.templates (place, name, owner, definition) values ($1, $2, $3, $4)", wanted
            )
        await connection.execute("select shards.adopt(g) from shards.local_groups() g")
        if changed:
            await _drop_copies(connection, former - own, needed=False)


async def _drop_copies(connection: Any, names: Iterable[str], *, needed: bool) -> None:
    """Drop the copies of all groups, including groups that have left; those that triggers run only if not `needed`."""
    for name, owner, is_run in await connection.fetch(SQL["list_copies"].sql, list(names)):
        if not (needed and is_run):
            await _execute_as(connection, owner, f"drop function if exists {name} cascade")


SQL = load_statements(__name__)
OWN_STATEMENTS = "set local citus.enable_ddl_propagation = off; set local check_function_bodies = off"
"""Citus copies tables, their rights and policies, and the functions that a table needs. Functions are loaded on each
node from here; those on a worker may name tables that only the coordinator has."""


async def _create_roles(connection: Connection) -> None:
    """Create the roles without login, the extensions, and the schemas and types of functions, if they are missing."""
    async with connection.transaction():
        await connection.execute(OWN_STATEMENTS)
        await connection.execute(read_file("roles"))
        for statement in _declarations():
            await connection.execute(statement)


def _declarations() -> Iterator[str]:
    for file in list_files():
        text = read_file(file, distributed=True)
        for name in re.findall(r"^create schema (\w+)", text, re.M):
            yield f"create schema if not exists {name}"
        yield from re.findall(r"^grant usage on schema \w+ to [^;]+;", text, re.M)
        for statement, name in re.findall(r"^(create type (\w+) as \([^;]+;)", text, re.M):
            yield f"do $$ begin if to_regtype('public.{name}') is null then {statement} end if; end $$"


async def load_functions(connection: Connection) -> None:
    """Load missing and changed functions, drop those that this version lacks, and restore their rights."""
    async with connection.transaction():
        await connection.execute(OWN_STATEMENTS)
        for function in await find_changed_functions(connection, distributed=True):
            file = function_files(distributed=True)[function]
            await connection.execute(function_script(file, function, distributed=True))
        await load_node_files(connection)
        await connection.execute(read_file("access_policies"))
        await connection.execute(SHOW_SHARDS)
        await connection.execute(SQL["forget_incomplete_groups"].sql)
        await _drop_false_copies(connection)
        await load_templates(connection)
        await _drop_outdated(connection)
        for name, owner in await connection.fetch(SQL["list_open_functions"].sql):
            await _execute_as(connection, owner, f"revoke execute on function {name} from public")


async def load_node_files(connection: Connection) -> None:
    """Run the files that only the nodes of a cluster have."""
    async with connection.transaction():
        await connection.execute(OWN_STATEMENTS)
        for path in sorted((SCRIPTS / "sql" / "citus").glob("*.sql")):
            await connection.execute(read_file(f"citus/{path.stem}"))


async def _drop_false_copies(connection: Connection) -> None:
    """Drop the copies that differ from their functions; the node then makes those again that its groups lack."""
    for name, group in (await find_false_copies(connection, await read_metadata(connection))).items():
        owner = await connection.fetchval(SQL["owner_of"].sql, name.removeprefix("function "))
        # Other functions of the group may call it, and policies. The copy that a trigger runs is replaced.
        if owner is not None and not await connection.fetchval(
            SQL["is_of_triggers"].sql, name.removeprefix("function ")
        ):
            await _execute_as(connection, owner, f"drop {name} cascade")
        await connection.execute("delete from shards.adopted where shard = $1", group)


async def _drop_outdated(connection: Connection) -> None:
    known = read_record(distributed=True)
    own_names = {short_name(name) for name in known if name.startswith("function ")}
    await connection.execute("set local search_path = pg_catalog")
    for name, owner in await connection.fetch(SQL["list_functions"].sql):
        short = short_name(name)
        if f"function {name}" not in known and ("." in short or short in own_names):
            await _execute_as(connection, owner, f"drop function {name}")
    await connection.execute("reset search_path")


async def _execute_as(connection: Connection, role: str, statement: str) -> None:
    await connection.execute(f"set local role {role}; {statement}; reset role")


DEFAULT_SHARDS = 32
"""Shards of each table: a shard is the smallest part that a move takes to another node."""

# Sequentially: after a change of a reference table, Citus cannot use several connections.
SETTINGS = """
    set local citus.enable_ddl_propagation = on;
    set local citus.multi_shard_modify_mode = 'sequential';
    set local citus.shard_replication_factor = 1;
    set local client_min_messages = warning;
"""


async def prepare_nodes(
    coordinator: Connection, dsn: str, shards: int, setting: str, finish: Callable[[Connection], Awaitable[None]]
) -> None:
    """Distribute new tables, and give each node the roles and functions; `finish` ends the work on each.

    `dsn` is the address of the coordinator as the tables' owner. Raises ConfigurationError and DatabaseUnavailable.
    """
    nodes = await list_nodes(coordinator)
    for node in nodes:
        if not node.is_coordinator:
            async with connected(dsn, node, setting) as worker:
                await _create_roles(worker)
    await distribute(coordinator, shards, setting)
    for node in nodes:
        async with connected(dsn, node, setting) as connection:
            await connection.execute("set citus.enable_ddl_propagation = off")
            await load_functions(connection)
            try:
                await finish(connection)
            except ConfigurationError as error:
                raise at_node(node, error) from error


SPREAD = """
    set local citus.enable_ddl_propagation = on;
    do $script$ begin
      SCRIPT;
    end $script$;
    set local citus.enable_ddl_propagation = off;
"""
"""Citus sends the text of a whole string of statements to its nodes, but each statement of a block by itself."""


def spread(script: str) -> str:
    """The statements as a text that changes the shards of distributed tables too."""
    return SPREAD.replace("SCRIPT", script.strip().removesuffix(";"))


async def distribute(connection: Connection, shards: int, setting: str) -> bool:
    """Distribute the tables that are still local, as their owner, in one transaction; returns whether there were any.

    `shards` is the number of shards of each table; it cannot be changed later. Raises ConfigurationError.
    """
    async with connection.transaction():
        await connection.execute(SETTINGS)
        tables = await connection.fetch(SQL["list_undistributed"].sql)
        references = await connection.fetch(SQL["list_local_references"].sql)
        if not tables and not references:
            return False
        await _refuse_partitions(connection, setting)
        await _lift_force(connection)
        keys = await connection.fetch(SQL["list_keys"].sql)
        for key in keys:
            await connection.execute(f"alter table {key['place']} drop constraint {key['name']}")
        functions = await connection.fetchval(SQL["list_row_functions"].sql)
        if functions is not None:
            await connection.execute(f"set local citus.enable_ddl_propagation = off; drop function {functions}")
            await connection.execute("set local citus.enable_ddl_propagation = on")
        for table in references:
            await connection.execute("select create_reference_table($1::text::regclass)", table["name"])
        for table in tables:
            if table["name"] == "tenants":
                await connection.execute("select create_distributed_table('tenants', 'id', shard_count => $1)", shards)
            else:
                await connection.execute(
                    "select create_distributed_table($1::text::regclass, $2, colocate_with => 'tenants')",
                    table["name"],
                    table["key"],
                )
        for key in keys:
            await connection.execute(f"alter table {key['place']} add constraint {key['name']} {key['definition']}")
    return True


async def _lift_force(connection: Connection) -> None:
    """Let the owner read the tables' rows, and write those of new shards; `shards.adopt` ends that for each shard.

    Otherwise Citus, which acts as the owner, would copy no row to the shards, and a move of a shard to which rows are
    written would not end.
    """
    for table in await connection.fetch(SQL["list_forced"].sql):
        await connection.execute(f"alter table {table['name']} no force row level security")


async def _refuse_partitions(connection: Connection, setting: str) -> None:
    if await connection.fetchval("select relkind = 'p' from pg_class where oid = to_regclass('public.entries')"):
        raise ConfigurationError(
            setting,
            "the database was created without Citus, and its tables cannot be distributed",
            "export each tenant and import it into a new database: knowledge export, knowledge import",
        )
