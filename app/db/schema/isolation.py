"""The catalog gate: checks that the database still isolates tenants as the migrations set it up."""

from __future__ import annotations

from dataclasses import dataclass

import asyncpg

from app.db.statements import load_statements
from app.errors import ConfigurationError

SQL = load_statements(__name__)


@dataclass(frozen=True, slots=True)
class Fault:
    """A missing protection: the rule that found it, the fault, and the remedy."""

    rule: str
    text: str
    remedy: str


async def find_faults(connection: asyncpg.Connection[asyncpg.Record]) -> list[Fault]:
    """Find all faults of tenant isolation for the login role; takes about 30 ms."""
    return [
        Fault(rule, row["fault"], row["remedy"])
        for rule, statement in SQL.items()
        for row in await connection.fetch(statement.sql)
    ]


async def check_isolation(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Raise ConfigurationError, one line with the first fault and its remedy, if there is a fault."""
    faults = await find_faults(connection)
    if faults:
        others = f" (and {len(faults) - 1} more: knowledge doctor)" if len(faults) > 1 else ""
        raise ConfigurationError(
            "DATABASE_URL",
            f"tenants are not isolated: {faults[0].text}{others}",
            f"remedy: {faults[0].remedy}",
        )
