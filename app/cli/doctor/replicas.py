"""Checks of the read replicas."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from app.cli.doctor.finding import Finding, size
from app.errors import ConfigurationError

if TYPE_CHECKING:
    from app.settings import Settings


async def check_replicas(settings: Settings, primary: str) -> AsyncIterator[Finding]:
    """Check that each replica answers, belongs to the primary, isolates tenants, and is not far behind."""
    import asyncpg

    from app.composition.database import check_database
    from app.composition.replicas import name_of
    from app.db.outage import AWAY
    from app.db.replicas.probe import ask_once

    if not settings.database.replica_urls:
        return
    own = await ask_once(primary)
    for url in settings.database.replica_urls:
        address = url.get_secret_value()
        name = name_of(address)
        try:
            answer = await ask_once(address)
        except (*AWAY, asyncpg.PostgresError) as error:
            yield _wrong(f"{name} does not answer ({type(error).__name__})", "searches use the other servers")
            continue
        if not answer.replays or answer.place != own.place:
            yield _wrong(f"{name} is not a replica of DATABASE_URL", "correct DATABASE_REPLICA_URLS")
            continue
        try:
            await check_database(address)
        except ConfigurationError as error:
            yield _wrong(f"{name}: {error.problem}", error.remedy or "searches use the other servers")
            continue
        behind = max(0, (own.position or 0) - (answer.position or 0))
        yield Finding("replicas", "ok", f"{name} is {size(behind)} of the log behind DATABASE_URL")


def _wrong(detail: str, remedy: str) -> Finding:
    return Finding("replicas", "wrong", detail, remedy)
