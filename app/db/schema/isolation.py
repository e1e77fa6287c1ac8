"""The catalog gate: check that the database still isolates tenants as the migrations set it up."""

import contextlib
from typing import Literal

import asyncpg

from app.db.cluster.definitions import find_changes_of_node
from app.db.cluster.metadata import adopt_groups, is_distributed, list_differences, read_metadata
from app.db.cluster.sessions import SHOW_SHARDS
from app.db.rows import Connection
from app.db.schema.definitions import Fault, digest_definitions, find_changed_definitions
from app.db.schema.seal import find_later
from app.db.statements import load_statements
from app.errors import ConfigurationError

LOOKS = 3
"""How often a node of a cluster is checked before its faults count: faults during a move of shards end with it."""

SQL = {
    **load_statements(__name__),
    **load_statements("app.db.schema.privileges"),
    **load_statements("app.db.schema.readers"),
}


async def find_faults(connection: Connection) -> list[Fault]:
    """Find all faults of tenant isolation for the login role; takes about 50 ms.

    On a node of a Citus cluster, its shards are checked too; those that have just come are completed first.
    """
    if not await is_distributed(connection):
        return await _find_faults(connection)
    for _ in range(LOOKS):
        await adopt_groups(connection)
        # Postgres cannot write the definition of an object that was just dropped.
        with contextlib.suppress(asyncpg.InternalServerError):
            if not await _find_faults(connection):
                return []
    return await _find_faults(connection)


async def _find_faults(connection: Connection) -> list[Fault]:
    # One view of the catalog, as far as its functions allow: Citus creates and drops tables of shards at any time.
    isolation: Literal["repeatable_read"] | None = None if connection.is_in_transaction() else "repeatable_read"
    async with connection.transaction(isolation=isolation):
        # Otherwise the catalog of a node hides its shards. One server ignores the setting.
        await connection.execute(SHOW_SHARDS)
        cluster = await read_metadata(connection)
        values = {
            "distributed": cluster.is_distributed,
            "shards": [shard.oid for shard in cluster.shards],
            "bases": [shard.base for shard in cluster.shards],
            "unforced": [*cluster.distributed, *(shard.oid for shard in cluster.shards if not shard.is_here)],
        }
        faults = [
            Fault(rule, row["fault"], row["remedy"])
            for rule, statement in SQL.items()
            for row in await connection.fetch(statement.sql, *(values[name] for name in statement.parameters))
        ]
        if cluster.is_distributed:
            differences = await list_differences(connection)
            faults += [Fault("access_policies", fault, "run: knowledge migrate") for fault in differences]
            return faults + await find_changes_of_node(connection, cluster)
        if (later := await find_later(connection)) is not None:
            if await digest_definitions(connection) != later.digest:
                text = f"functions, triggers, keys or rights differ from those that revision {later.revision} left"
                faults.append(Fault("definitions", text, "run: knowledge migrate, of the newer version"))
            return faults
        return faults + await find_changed_definitions(connection)


async def check_isolation(connection: Connection) -> None:
    """Raise ConfigurationError, one line with the first fault and its remedy, if there is a fault."""
    faults = await find_faults(connection)
    if faults:
        others = f" (and {len(faults) - 1} more: knowledge doctor)" if len(faults) > 1 else ""
        raise ConfigurationError(
            "DATABASE_URL", f"tenants are not isolated: {faults[0].text}{others}", f"remedy: {faults[0].remedy}"
        )
