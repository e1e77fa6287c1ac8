"""Statistics of a tenant's entries and searches, and the records that each call adds."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from app.contract.administration import Backlog, Estimates, Hour
from app.contract.models import ModelUse
from app.db.queries.receipts import RANKED
from app.db.session import PlatformSession, TenantSession
from app.db.statements import load_statements

SQL = load_statements(__name__)

FREQUENT = 2
"""Minimum number of entries for a lexeme's document frequency to be stored. A word in one entry is cheap to count; the
other words are the vocabulary for spelling corrections."""

LARGE, MOST_PRINCIPALS = 1_000, 50
"""Entries with readers that a principal may read, from which on its words are counted, and the most of them. Fewer
entries are cheap to count in a search."""

FREQUENT_FOR_SOME = 20
"""Minimum number of such entries for a lexeme's document frequency to be stored. A search uses only the frequencies of
words that are too frequent for it to count."""


@dataclass(frozen=True, slots=True)
class DueWork:
    """Whether to recount `lexemes`, index `vectors`, compute `embeddings`, or continue a `model_change`."""

    lexemes: bool
    vectors: bool
    embeddings: bool
    model_change: bool


@dataclass(frozen=True, slots=True)
class Health:
    """Counts of a tenant, without any of its content, queries or users.

    Attributes:
        pending: assets and entries that still have to be processed.
        failed: assets that could not be parsed, and entries that the provider refused to embed.
        fallback_rate: share of the last day's searches that ran without the semantic leg after a failure.
        last_activity: time of the last search or audited operation.
        limits: those that the platform has set.
    """

    entries: int
    assets: int
    pending: int
    failed: int
    searches_24h: int
    fallback_rate: float
    last_activity: datetime | None
    limits: Mapping[str, int]


async def refresh_lexemes(session: TenantSession) -> None:
    """Recount the document frequencies of the tenant's frequent lexemes."""
    await session.execute(SQL["reset_changes"])
    await session.execute(SQL["refresh_lexemes"], least=FREQUENT)
    await session.execute(
        SQL["refresh_lexemes_of_readers"], least_entries=LARGE, most=MOST_PRINCIPALS, least=FREQUENT_FOR_SOME
    )


@dataclass(frozen=True, slots=True)
class OutdatedStatistics:
    """A table whose planner statistics are old, or missing."""

    place: str
    is_missing: bool


async def list_outdated(session: PlatformSession) -> list[OutdatedStatistics]:
    """The tables that should be analysed: partitions that have changed by a fifth, then their parents."""
    return await session.fetch_as(OutdatedStatistics, SQL["outdated"])


async def analyze(session: PlatformSession, place: str) -> None:
    """Analyse one of these tables, unless it is locked or was analysed since."""
    await session.execute(SQL["analyze"], place=place)


async def due_work(session: TenantSession, *, least_entries: int, exact_limit: int) -> DueWork:
    """The work that is due because of the tenant's growth."""
    return await session.fetch_only_as(DueWork, SQL["due_work"], least_entries=least_entries, exact_limit=exact_limit)


async def overview(session: TenantSession) -> Mapping[str, Any]:
    """Counts of the tenant's data for its admins: fields of Stats."""
    row = await session.fetch_row(SQL["overview"])
    assert row is not None
    return dict(row)


async def searches_by_hour(session: TenantSession) -> list[Hour]:
    """Counts and times of the searches of the last 24 hours, by hour (UTC)."""
    return await session.fetch_as(Hour, SQL["searches_by_hour"])


async def fetch_estimates(session: TenantSession) -> Estimates:
    """How the estimates of the last 1,000 searches compare with the entries that were found."""
    return await session.fetch_only_as(Estimates, SQL["estimates"], ranked_bytes=RANKED.itemsize)


async def models_in_use(session: TenantSession) -> list[ModelUse]:
    """The models of which the tenant has or waits for vectors, the model in use first."""
    return await session.fetch_as(ModelUse, SQL["models_in_use"])


async def backlog(session: TenantSession) -> list[Backlog]:
    """The tenant's queued and running work by kind."""
    return await session.fetch_as(Backlog, SQL["backlog"])


async def health(session: TenantSession) -> Health | None:
    """Counts of the tenant, for the platform; None when the tenant was deleted."""
    return await session.fetch_one_as(Health, SQL["health"])


BATCH = 20_000
"""Rows that one statement removes."""

Trimmed = Literal["receipts", "feedback", "deliveries"]


@dataclass(frozen=True, slots=True)
class RecordCount:
    """The number of a tenant's records of one kind, and about how many bytes they have without indexes."""

    name: str
    rows: int
    bytes: int


async def count_records(session: TenantSession) -> list[RecordCount]:
    """The records of each kind."""
    return await session.fetch_as(RecordCount, SQL["counts"])


async def drop_oldest(session: TenantSession, name: Trimmed, most: int) -> int:
    """Remove the oldest records over `most`, up to BATCH of them; returns their number."""
    return await session.execute(SQL[f"drop_{name}"], most=most, batch=BATCH)


async def prune_audit(session: TenantSession | PlatformSession, most: int) -> int:
    """Remove the oldest rows of the trail over `most`, up to BATCH of them; returns their number.

    The database keeps at least the newest million.
    """
    return int(await session.fetch_value(SQL["prune_audit"], most=most, batch=BATCH))
