"""The catalog gate: whether the database that is served still keeps tenants apart as the migrations made it."""

from __future__ import annotations

from dataclasses import dataclass

import asyncpg

from app.db.statements import load_statements
from app.errors import ConfigurationError

SQL = load_statements(__name__)


@dataclass(frozen=True, slots=True)
class Fault:
    """One protection that is missing: the rule that found it, what is wrong, and what mends it."""

    rule: str
    text: str
    remedy: str


async def find_faults(connection: asyncpg.Connection[asyncpg.Record]) -> list[Fault]:
    """Every fault of the isolation of tenants, for the role that is logged in; about 30 ms."""
    return [
        Fault(rule, row["fault"], row["remedy"])
        for rule, statement in SQL.items()
        for row in await connection.fetch(statement.sql)
    ]


async def check_isolation(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Raise ConfigurationError, one line with the first fault and its remedy, unless there is none."""
    faults = await find_faults(connection)
    if faults:
        others = f" (and {len(faults) - 1} more: knowledge doctor)" if len(faults) > 1 else ""
        raise ConfigurationError(
            "DATABASE_URL",
            f"tenants are not isolated: {faults[0].text}{others}",
            f"remedy: {faults[0].remedy}",
        )
