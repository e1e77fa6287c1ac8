"""The primary dies while entries are written, and its replica is promoted: the service goes on, and nothing is lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

import pytest

from app.composition.services import Services, build_services
from app.db.database import Database
from app.errors import DatabaseUnavailable
from app.knowledge.entries.drafts import EntryDraft
from app.knowledge.search.query import SearchQuery
from tests.fixtures.database.cluster import MODEL, connected
from tests.fixtures.database.standby import ReplicatedDatabase, replicated_database
from tests.fixtures.embedded import find_postmaster
from tests.fixtures.providers.failing import FailingProvider

WRITERS = 4
SYNCHRONOUS = "select count(*) from pg_stat_replication where sync_state = 'sync'"


@dataclass
class Course:
    """What the writers saw."""

    acknowledged: list[UUID] = field(default_factory=list)
    refused: int = 0
    last: float = 0.0
    longest_pause: float = 0.0

    def note(self, entry: UUID) -> None:
        now = time.monotonic()
        if self.last:
            self.longest_pause = max(self.longest_pause, now - self.last)
        self.acknowledged.append(entry)
        self.last = now


def address_of_both(servers: ReplicatedDatabase) -> str:
    """One address of both servers, of which only the one that accepts writes is used."""
    first, second = servers.primary, servers.replica
    hosts = f"{first.address.socket_dir},{second.address.socket_dir}"
    one = f"host={first.address.socket_dir}&port={first.address.port}"
    assert one in first.service_dsn
    ports = f"{first.address.port},{second.address.port}"
    return first.service_dsn.replace(one, f"host={hosts}&port={ports}&target_session_attrs=read-write")


async def write(services: Services, tenant: UUID, writer: int, course: Course, stop: asyncio.Event) -> None:
    number = 0
    while not stop.is_set():
        number += 1
        try:
            (written,) = await services.entries.create_many(
                tenant, [EntryDraft(content=f"Entry {number} of writer {writer}.")]
            )
        except DatabaseUnavailable:
            course.refused += 1
            await asyncio.sleep(0.02)
        else:
            assert written.id is not None
            course.note(written.id)


async def fail_over(folder: Path, writes: int) -> Course:
    """Write, kill the primary, promote the replica, write as much again, and compare with what was acknowledged."""
    async with replicated_database(folder) as servers:
        async with connected(servers.primary.superuser_dsn) as superuser:
            await superuser.execute("alter system set synchronous_standby_names = '*'")
            await superuser.execute("select pg_reload_conf()")
            while await superuser.fetchval(SYNCHRONOUS) < 1:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        database = Database(address_of_both(servers), pool_size=5)
        services = await build_services(database, FailingProvider(MODEL))
        course, stop = Course(), asyncio.Event()
        try:
            tenant = (await services.tenants.create("failover", actor="test")).id
            async with asyncio.timeout(240), asyncio.TaskGroup() as group:
                for writer in range(WRITERS):
                    group.create_task(write(services, tenant, writer, course, stop))
                while len(course.acknowledged) < writes:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                find_postmaster(folder / "primary").kill()
                before = len(course.acknowledged)
                await servers.on_replica("select pg_promote()")
                while len(course.acknowledged) < before + writes:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                stop.set()
            assert (await services.search.search(tenant, SearchQuery("entry of a writer"))).results
        finally:
            await services.close()
            await database.close()
        async with connected(servers.replica.superuser_dsn) as superuser:
            kept = {row["id"] for row in await superuser.fetch("select id from entries")}
    assert not set(course.acknowledged) - kept
    return course


async def test_an_acknowledged_write_survives_the_death_of_the_primary(tmp_path: Path) -> None:
    course = await fail_over(tmp_path, 50)
    assert course.refused


@pytest.mark.slow
@pytest.mark.parametrize("attempt", range(3))
async def test_many_acknowledged_writes_survive_the_death_of_the_primary(
    tmp_path: Path, attempt: int, record_property: Callable[[str, object], None]
) -> None:
    course = await fail_over(tmp_path, 2_000)
    record_property("refused", course.refused)
    record_property("longest pause in seconds", round(course.longest_pause, 2))
