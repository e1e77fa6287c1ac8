"""The read replicas of the service's database, from the settings."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from urllib.parse import parse_qs, urlsplit

from app.composition.database import check_database, make_database
from app.concurrency.processes.part import Part
from app.db.database import Database
from app.db.replicas.probe import Probe
from app.db.replicas.replicas import Replica, Replicas
from app.errors import ConfigurationError
from app.settings import Settings


@contextlib.asynccontextmanager
async def replicas_of(database: Database, settings: Settings, part: Part | None) -> AsyncIterator[None]:
    """While the block runs, searches read from the replicas in DATABASE_REPLICA_URLS that can serve them.

    Raises ConfigurationError.
    """
    addresses = [address.get_secret_value() for address in settings.database.replica_urls]
    if not addresses:
        yield
        return
    if database.nodes is not None:
        raise ConfigurationError(
            "DATABASE_REPLICA_URLS", "searches of a Citus cluster do not read from replicas", "remove it"
        )
    replicas = [
        Replica(name_of(address), make_database(settings, address, part), Probe(address))
        for address in addresses
    ]
    database.replicas = Replicas(
        Probe(database.dsn),
        replicas,
        staleness=settings.database.replica_staleness,
        check=check_database,
        writes=None if part is None else part.last_writes(),
    )
    try:
        async with database.replicas.watched():
            yield
    finally:
        database.replicas = None


def name_of(address: str) -> str:
    """The host and the port of an address, without what is secret."""
    parts = urlsplit(address)
    hosts = parts.netloc.rpartition("@")[2] or ",".join(parse_qs(parts.query).get("host", []))
    return hosts or "local"
