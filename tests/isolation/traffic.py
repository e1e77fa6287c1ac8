"""Transactions of mixed tenants over few connections; some are cancelled at random points."""

import asyncio
import random
from dataclasses import dataclass, field
from uuid import UUID, uuid4

from app.db.database import Database
from app.db.principals import acting_for_service
from app.db.session import TenantSession
from app.db.statements import parse_statement
from tests.fixtures.database.cluster import Connection

READ = [
    parse_statement("entries", "select tenant_id, pg_sleep(:pause) from entries"),
    parse_statement(
        "jobs", "select tenant_id, pg_sleep(:pause) from jobs union all select tenant_id, null from assets"
    ),
    parse_statement("tenants", "select id as tenant_id, pg_sleep(:pause) from tenants"),
]
WRITE = parse_statement("write", "update searches set result_count = result_count + 1")
WRITTEN = parse_statement("written", "select tenant_id, pg_sleep(:pause) from searches where result_count > 0")
FOUND = parse_statement("found", "select keyword.filtered_ids(null, 100)")
CURRENT = parse_statement("current", "select current_setting('app.current_tenant', true)")


@dataclass(slots=True)
class Tally:
    """The outcomes of the transactions; `foreign` holds what a transaction saw of another tenant."""

    finished: int = 0
    cancelled: int = 0
    rows: int = 0
    foreign: list[UUID] = field(default_factory=list)


async def send_traffic(
    database: Database, entries: dict[UUID, set[UUID]], transactions: int, *, seed: int, at_once: int = 20
) -> Tally:
    """Run this number of transactions, a fifth of them cancelled; `entries` are the ids that each tenant has."""
    chance = random.Random(seed)  # noqa: S311
    tally = Tally()
    # A tenant that does not exist has no rows; any row that it sees belongs to another tenant.
    tenants = [*entries, uuid4()]

    async def work(tenant: UUID, kind: int, pause: float) -> None:
        with acting_for_service():  # receipts of searches are their callers'
            async with database.tenant_session(tenant) as session:
                await _look(session, tenant, kind, pause, entries.get(tenant, set()), tally)
        tally.finished += 1

    async def watch(number: int) -> None:
        tenant, kind = chance.choice(tenants), chance.randrange(5)
        task = asyncio.create_task(work(tenant, kind, chance.uniform(0, 0.0005)))
        if number % 5 == 0:
            await asyncio.sleep(chance.choice((0.0, chance.uniform(0, 0.003), chance.uniform(0, 0.03))))
            task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            tally.cancelled += 1

    for start in range(0, transactions, at_once):
        await asyncio.gather(*(watch(n) for n in range(start, min(start + at_once, transactions))))
    return tally


async def _look(session: TenantSession, tenant: UUID, kind: int, pause: float, own: set[UUID], tally: Tally) -> None:
    if kind < len(READ):
        seen = [row["tenant_id"] for row in await session.fetch(READ[kind], pause=pause)]
    elif kind == len(READ):
        await session.execute(WRITE)
        seen = [row["tenant_id"] for row in await session.fetch(WRITTEN, pause=pause)]
    else:
        ids = await session.fetch_value(FOUND)
        seen = [tenant if i in own else i for i in ids]
    assert bool(seen) == bool(own)
    tally.rows += len(seen)
    tally.foreign += [i for i in seen if i != tenant]


async def leftover(database: Database) -> str | None:
    """The tenant id that a transaction finds if it sets none itself."""
    async with database.engine.connect() as pooled:
        raw = await pooled.get_raw_connection()
        driver: Connection = raw.driver_connection  # type: ignore[assignment]
        async with driver.transaction():
            value: str | None = await driver.fetchval(CURRENT.sql)
            return value
