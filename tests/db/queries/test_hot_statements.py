"""What the statements of everyday work read, in every state in which a database may be."""

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, get_args
from uuid import UUID

import pytest

from app.composition.services import Services, build_services
from app.contract.search import SearchQuery
from app.db.database import Database
from app.db.principals import EVERYONE, Rights, acting_as, acting_for_service
from app.db.queries.entries import SQL, EntryKey, find_same
from app.db.queries.jobs import claim_job
from app.db.queries.statistics import list_outdated
from app.db.statements import Statement
from app.embedded import EmbeddedAddress
from app.embeddings.providers.mock import MockProvider
from app.knowledge.search.plan import EXACT_LIMIT
from app.knowledge.worker import KINDS
from tests.fixtures.database.cluster import MODEL, PARTITIONS, Connection, TestDatabase, connected, new_database
from tests.fixtures.database.filled import fill_tenant, make_tenant
from tests.fixtures.database.plans import Executed, PlanRecorder, explain_everything

State = Literal["empty", "loaded", "analysed", "autovacuumed"]
"""`analysed` is as upkeep leaves the tables, and `autovacuumed` as autovacuum does, without upkeep."""

PARENTS = ("entries", "embeddings")
PARTS = [f"{parent}_p{n:02}" for parent in PARENTS for n in range(PARTITIONS)]
FORGET = (
    "delete from pg_statistic where starelid = any ($1::regclass[])",
    "update pg_class set reltuples = -1, relpages = 0 where oid = any ($1::regclass[])",
    "select pg_stat_reset_single_table_counters(oid) from unnest($1::regclass[]) oid",
)


@dataclass(frozen=True, slots=True)
class Task:
    """Everyday work.

    Attributes:
        run: does it once; the number is another one each time.
        entries: how many rows of entries one step of a statement may look at.
        vectors: the same of embeddings; None: all of the tenant, while it is small enough to compare them all.
        buffers: the pages that it may read altogether in a tenant of at most 1,000 entries, and of 100,000.
        keys: how many rows it looks up by key, each through one page more where a small tenant has a large neighbour.
    """

    run: Callable[[Services, UUID, int], Awaitable[object]]
    entries: int
    vectors: int | None
    buffers: tuple[int, int]
    keys: int = 0


def search(**options: Any) -> Callable[[Services, UUID, int], Awaitable[object]]:
    """A search that meets a frequent word, a rare one and one that one entry has."""
    return lambda services, tenant, number: services.search.search(
        tenant, SearchQuery(f"word{number + 3} rare{number + 50} shared2", **options)
    )


async def read_entry(services: Services, tenant: UUID, _: int) -> None:
    """The newest entry."""
    for entry in (await services.entries.list_entries(tenant, limit=1)).items:
        await services.entries.get(tenant, entry.id)


async def read_related(services: Services, tenant: UUID, _: int) -> None:
    """What is related to the newest entry."""
    for entry in (await services.entries.list_entries(tenant, limit=1)).items:
        await services.reading.related(tenant, entry.id)


async def read_context(services: Services, tenant: UUID, _: int) -> None:
    """The tenant's row."""
    services.tenants.forget(tenant)
    await services.tenants.context(tenant)


# A leg gives 150 candidates, whose rows are read.
TASKS = {
    "search": Task(search(), 1_300, None, (1_800, 10_000), keys=320),
    "search by words": Task(search(mode="keyword"), 1_300, 0, (700, 3_000)),
    "search by meaning": Task(search(mode="semantic"), 200, None, (700, 8_000), keys=170),
    "search with a tag": Task(search(tags=["t17"]), 1_300, None, (2_500, 8_000)),
    # Whether each of the entries has a vector is looked up by its key.
    "list": Task(lambda services, tenant, _: services.entries.list_entries(tenant, limit=20), 50, 50, (200, 300), 60),
    "read": Task(read_entry, 20, 10, (100, 200)),
    # Of an entry's tags, one is on a third of all entries.
    "related": Task(read_related, 34_000, 50, (300, 12_000)),
    "tenant": Task(read_context, 0, 0, (50, 50)),
    "claim": Task(lambda s, _, __: claim_job(s.database, KINDS, timedelta(seconds=30)), 0, 0, (50, 50)),
    "upkeep": Task(lambda services, tenant, _: services.worker.runner.upkeep.check(tenant), 0, 0, (100, 100)),
}
MODES = {"auto": 7, "force_generic_plan": 2, "force_custom_plan": 2}
"""How plans are chosen, and how often each task is done then: Postgres makes no generic plan before the sixth time."""
MOST_TIMES = 20
"""How often it is done at most, until it reads few enough pages: those of catalogs count too, and a connection reads
them again when the other tests of this server have changed many tables."""


@dataclass
class Scene:
    """A database with two tenants in one partition, the second a hundred times as large."""

    services: Services
    recorder: PlanRecorder
    made: TestDatabase
    superuser: Connection
    tenants: dict[UUID, int]

    async def enter(self, state: State) -> None:
        """Bring the database from the state before into this one."""
        if state == "loaded":
            for tenant, entries in self.tenants.items():
                await fill_tenant(self.superuser, tenant, entries, indexed=entries > 5_000)
            await self.forget()
        elif state == "analysed":
            await self.services.worker.runner.upkeep.planner.refresh(at_once=True)
        elif state == "autovacuumed":
            await self.forget()
            await self.superuser.execute(f"vacuum (analyze) {', '.join(PARTS)}")

    async def forget(self) -> None:
        """Remove all statistics of the tables."""
        for statement in FORGET:
            await self.superuser.execute(statement, [*PARENTS, *PARTS])

    async def run_all(self, mode: str) -> AsyncIterator[tuple[str, UUID, Sequence[Sequence[Executed]]]]:
        """Run each task several times for each tenant, with new plans; yields what each time ran."""
        await self.superuser.execute(f"alter database {self.made.name} set plan_cache_mode = {mode}")
        await self.services.database.engine.dispose()
        for tenant, (name, task) in itertools.product(self.tenants, TASKS.items()):
            times: list[Sequence[Executed]] = []
            while len(times) < MODES[mode] or (
                len(times) < MOST_TIMES and self.pages(times) > self.bound(task, tenant)
            ):
                with self.recorder.record() as seen:
                    await task.run(self.services, tenant, len(times))
                times.append(seen)
                await self.services.similarities.flush()  # what searches write later belongs to none of the tasks
            yield name, tenant, times

    def bound(self, task: Task, tenant: UUID) -> int:
        """How many pages the task may read."""
        if self.tenants[tenant] > 1_000:
            return task.buffers[1]
        return task.buffers[0] + (task.keys if max(self.tenants.values()) > 1_000 else 0)

    @staticmethod
    def pages(times: Sequence[Sequence[Executed]]) -> int:
        """How many pages were read at least."""
        return min(sum(statement.buffers for statement in seen) for seen in times)

    def judge(self, state: State, mode: str, name: str, tenant: UUID, times: Sequence[Sequence[Executed]]) -> list[str]:
        """What a task may not do in a state, but has done."""
        task, size = TASKS[name], self.tenants[tenant]
        known = state in ("analysed", "autovacuumed")
        entries = task.entries if known else max(task.entries, 3 * size)
        vectors = task.vectors if task.vectors is not None else min(size, EXACT_LIMIT)
        if mode != "force_generic_plan" and name in ("list", "read", "related") and size <= 1_000:
            entries = sum(self.tenants.values())  # All pages of a small table cost less than one index look-up each.
        faults = [
            f"{state}, {mode}, {name} among {size}: {statement}"
            for statement in itertools.chain(*times)
            for step in statement.steps
            if (step.table.startswith("entries") and step.looked_at > entries)
            or (step.table.startswith("embeddings") and step.looked_at > vectors)
        ]
        if known and (buffers := self.pages(times)) > self.bound(task, tenant):
            faults.append(f"{state}, {mode}, {name} among {size}: {buffers} buffers")
        return faults


@asynccontextmanager
async def open_scene(cluster: EmbeddedAddress, template: str, sizes: tuple[int, int]) -> AsyncIterator[Scene]:
    async with new_database(cluster, template=template) as made, connected(made.superuser_dsn) as superuser:
        database, recorder = Database(made.service_dsn), PlanRecorder()
        services = await build_services(database, MockProvider(MODEL))
        first, place = await make_tenant(services, superuser)
        second, _ = await make_tenant(services, superuser, place)
        recorder.watch(database)
        await explain_everything(superuser, made)
        try:
            yield Scene(services, recorder, made, superuser, dict(zip((first, second), sizes, strict=True)))
        finally:
            await services.close()
            await database.close()


@pytest.mark.parametrize(
    ("sizes", "modes"),
    [
        pytest.param((10, 1_000), ("auto",), id="small"),
        pytest.param((10, 1_000), tuple(MODES), marks=pytest.mark.slow, id="small-forced"),
        pytest.param((1_000, 100_000), tuple(MODES), marks=pytest.mark.slow, id="large-forced"),
    ],
)
async def test_no_statement_depends_on_statistics(
    cluster: EmbeddedAddress, template: str, sizes: tuple[int, int], modes: Sequence[str]
) -> None:
    faults = []
    async with open_scene(cluster, template, sizes) as scene:
        for state in get_args(State):
            with acting_for_service():
                await scene.enter(state)
            for mode in modes if state in ("analysed", "autovacuumed") else ("auto",):
                with acting_as(("user:alice", EVERYONE), Rights.ALL):
                    async for name, tenant, times in scene.run_all(mode):
                        faults += scene.judge(state, mode, name, tenant, times)
    assert not faults, "\n".join(faults)


GENERIC_PLANS = Statement(
    "generic_plans", "select generic_plans from pg_prepared_statements where statement = $1", ("text",), writes=False
)


async def test_a_bulk_write_keeps_no_plan_from_when_there_were_no_entries(
    cluster: EmbeddedAddress, template: str
) -> None:
    """Such a plan may read all entries of the tenant for each key: on an empty partition every index costs the same."""
    async with open_scene(cluster, template, (10, 1_000)) as scene:
        tenant, _ = scene.tenants
        with acting_for_service():
            async with scene.services.database.tenant_session(tenant) as session:
                for _ in range(MODES["auto"]):
                    await find_same(session, [EntryKey(str(n), b"") for n in range(200)])
                assert await session.fetch_value(GENERIC_PLANS, text=SQL["find_same"].sql) == 0


async def test_upkeep_analyses_what_has_changed(cluster: EmbeddedAddress, template: str) -> None:
    async with open_scene(cluster, template, (10, 1_000)) as scene:
        database, planner = scene.services.database, scene.services.worker.runner.upkeep.planner

        async def outdated() -> dict[str, bool]:
            async with database.platform_session() as session:
                return {table.place: table.is_missing for table in await list_outdated(session)}

        assert await outdated() == {}
        await scene.enter("loaded")
        missing = await outdated()
        assert set(missing) >= {"public.entries", "public.embeddings"}
        assert list(missing)[-1] in ("public.entries", "public.embeddings")
        assert all(missing.values())
        await planner.refresh()
        assert await outdated() == {}
        known = await scene.superuser.fetch(
            "select distinct starelid::regclass::text from pg_statistic where starelid = any ($1::regclass[])",
            list(PARENTS),
        )
        assert {row[0] for row in known} == set(PARENTS)
        await scene.superuser.execute("update entries set confidence = 0.5")
        assert not any((await outdated()).values())
        assert await outdated()
        await planner.refresh()
        assert await outdated(), "the tables were looked at a moment ago"
        await planner.refresh(at_once=True)
        assert await outdated() == {}
