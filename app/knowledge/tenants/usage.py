"""What a tenant uses by day, so that a platform can charge for it: counted at each sweep, and when it is read."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta

from app.contract.administration import MAX_USAGE_DAYS, DayUsage
from app.db.queries import tenants as db
from app.db.session import TenantSession
from app.errors import InvalidInput

WRITES = (
    *("entry.write", "entry.update", "entry.delete", "asset.upload", "asset.update", "asset.delete"),
    *("source.write", "source.delete"),
)
"""Operations of the audit trail that write knowledge."""

DEFAULT_DAYS = 30


async def tally(session: TenantSession) -> None:
    """Count the writes of yesterday and today, and what is stored now. The session must see the whole tenant."""
    today = datetime.now(UTC).date()
    yesterday = today - timedelta(days=1)
    writes = await db.count_writes(session, WRITES, datetime.combine(yesterday, time(), UTC))
    if yesterday in writes:
        await db.tally_day(session, yesterday, writes[yesterday], None, None)
    stored, files = await db.fetch_stored(session), await db.count_files(session)
    await db.tally_day(session, today, writes.get(today, 0), stored, files)


def choose_days(first: date | None, last: date | None) -> tuple[date, date]:
    """The days to report, by default the last 30. Raises InvalidInput."""
    last = last or datetime.now(UTC).date()
    first = first or last - timedelta(days=DEFAULT_DAYS - 1)
    if not 0 <= (last - first).days < MAX_USAGE_DAYS:
        raise InvalidInput.of("from", f"must be at most {MAX_USAGE_DAYS - 1} days before `to`, and not after it")
    return first, last


async def read_usage(session: TenantSession, first: date, last: date) -> Sequence[DayUsage]:
    """The usage of each day from `first` to `last`. A day without counts has what was stored before it."""
    await tally(session)
    counted = await db.list_usage(session, last)
    by_day = {each.day: each for each in counted}
    stored = next((each for each in reversed(counted) if each.day < first and each.entries is not None), None)
    days = []
    for number in range((last - first).days + 1):
        day = first + timedelta(days=number)
        counts = by_day.get(day)
        if counts is not None and counts.entries is not None:
            stored = counts
        days.append(
            DayUsage(
                day,
                searches=counts.searches if counts else 0,
                writes=counts.writes if counts else 0,
                embedded_tokens=counts.embedded_tokens if counts else 0,
                entries=(stored and stored.entries) or 0,
                files=(stored and stored.files) or 0,
                bytes=(stored and stored.bytes) or 0,
            )
        )
    return days
