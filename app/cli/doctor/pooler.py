"""Checks of a pooler between the service and the database, such as PgBouncer in transaction mode."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.cli.doctor.finding import Finding, from_error
from app.errors import ConfigurationError, DatabaseUnavailable

if TYPE_CHECKING:
    from app.db.schema.pooler import Pooler
    from app.settings import Settings

DIRECT = "DATABASE_DIRECT_URL"
REMEDY = "correct DATABASE_DIRECT_URL"


def check_statements(settings: Settings, pooler: Pooler) -> Finding:
    """Check that prepared statements are off if the pooler loses them."""
    from app.db.schema.pooler import check_keeps

    used = settings.database.prepared_statements
    try:
        if used:
            check_keeps(pooler)
    except ConfigurationError as error:
        return from_error("pooler", error)
    kept = "keeps" if pooler.keeps_prepared else "does not keep"
    state = "on" if used else "off"
    return Finding("pooler", "ok", f"it shares connections and {kept} prepared statements, which are {state}")


async def check_notifications(settings: Settings, address: str, pooler: Pooler | None) -> list[Finding]:
    """Check that workers can hear of new jobs."""
    if settings.database.direct_url is not None:
        return [await _check_direct(settings.database.direct_url.get_secret_value(), address)]
    if pooler is None:
        return []
    return [
        Finding(
            "pooler",
            "warning",
            "it does not forward notifications of new jobs, so workers look for jobs once a second",
            f"set {DIRECT} to the address of the database itself",
        )
    ]


async def _check_direct(direct: str, address: str) -> Finding:
    """Check that it is the address of the same database, without a pooler."""
    import asyncpg

    from app.db.outage import AWAY
    from app.db.replicas.probe import ask_once
    from app.db.schema.pooler import find_pooler

    try:
        if await find_pooler(direct, DIRECT) is not None:
            return Finding("pooler", "wrong", f"{DIRECT} is the address of a pooler, too", REMEDY)
        answer, expected = await ask_once(direct), await ask_once(address)
    except ConfigurationError as error:
        return from_error("pooler", error)
    except (*AWAY, asyncpg.PostgresError, DatabaseUnavailable) as error:
        return Finding("pooler", "wrong", f"{DIRECT} does not answer ({type(error).__name__})", REMEDY)
    if answer.place != expected.place or answer.replays:
        return Finding("pooler", "wrong", f"{DIRECT} is not the primary of DATABASE_URL", REMEDY)
    return Finding("pooler", "ok", f"workers listen for new jobs at {DIRECT}")
