"""The Postgres that tests run on, and databases copied from a migrated template."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

import asyncpg

from app.composition.database import MIGRATOR, SERVICE
from app.embedded import EmbeddedAddress
from app.embeddings.models import resolve_model

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

FAST = {"shared_buffers": "128MB", "fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
"""Settings for clusters whose data nobody keeps."""

PASSWORDS = {MIGRATOR: "migrator-password", SERVICE: "service-password"}
MODEL = resolve_model("mock", dimensions=16)
"""The model registered in the template; few dimensions make tests quick."""

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class TestDatabase:
    """One database of the test cluster, by the roles that log in to it."""

    __test__ = False

    name: str
    address: EmbeddedAddress = field(repr=False)

    @property
    def superuser_dsn(self) -> str:
        """For looking past row-level security, and for breaking things."""
        return self.address.dsn(database=self.name)

    @property
    def admin_dsn(self) -> str:
        """As kb_migrator, the owner of the tables."""
        return self.address.dsn(MIGRATOR, self.name, PASSWORDS[MIGRATOR])

    @property
    def service_dsn(self) -> str:
        """As kb_service, the role that the service logs in as."""
        return self.address.dsn(SERVICE, self.name, PASSWORDS[SERVICE])


@asynccontextmanager
async def connected(dsn: str) -> AsyncIterator[Connection]:
    """A connection of its own, outside any pool."""
    connection = await asyncpg.connect(dsn)
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def new_database(
    address: EmbeddedAddress, *, template: str = "template1"
) -> AsyncIterator[TestDatabase]:
    """A database owned by kb_migrator that is dropped afterwards."""
    name = f"kb_test_{next(_numbers)}"
    async with connected(address.dsn(database="postgres")) as superuser:
        await superuser.execute(
            f"create database {name} template {template} owner {MIGRATOR} strategy file_copy"
        )
        try:
            yield TestDatabase(name, address)
        finally:
            await superuser.execute(f"drop database {name} with (force)")
