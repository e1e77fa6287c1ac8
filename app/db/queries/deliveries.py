"""Messages to subscribers, challenges to their endpoints, and the turns of tenants at hosts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

import orjson

from app.db.session import TenantSession
from app.db.statements import load_statements

SQL = load_statements(__name__)


@dataclass(frozen=True, slots=True)
class Handshake:
    """A challenge that this worker has claimed; `challenges` includes it."""

    saved_search_id: UUID
    name: str
    url: str
    secret: str = field(repr=False)
    challenges: int


@dataclass(frozen=True, slots=True)
class GrantedTurns:
    """How many messages may go to a destination now, and the seconds until the tenant can ask for more."""

    destination: str
    granted: int
    wait_seconds: float


async def claim_handshakes(session: TenantSession, *, limit: int, lease: timedelta) -> list[Handshake]:
    """Claim due challenges. Unfinished ones are available again after `lease`."""
    return await session.fetch_as(Handshake, SQL["claim_handshakes"], limit=limit, lease=lease)


async def note_handshake(
    session: TenantSession,
    handshake: Handshake,
    confirmation: Literal["pending", "confirmed", "refused"],
    error: str | None,
    pause: timedelta,
) -> None:
    """Record how a challenge ended, unless the subscription has another URL now; the next one follows after `pause`."""
    await session.execute(
        SQL["note"],
        saved_search_id=handshake.saved_search_id,
        url=handshake.url,
        confirmation=confirmation,
        error=error,
        pause=pause,
    )


async def postpone_handshakes(session: TenantSession, handshakes: Sequence[tuple[Handshake, timedelta]]) -> None:
    """Schedule challenges that were not sent again, each after its pause; they do not count."""
    await session.execute(
        SQL["postpone_handshakes"],
        saved_search_ids=[handshake.saved_search_id for handshake, _ in handshakes],
        urls=[handshake.url for handshake, _ in handshakes],
        pauses=[pause for _, pause in handshakes],
    )


async def ask_again(session: TenantSession, saved_search_id: UUID, owner: str, pause: timedelta) -> bool:
    """Schedule a challenge, at least `pause` after the last one; False if the endpoint is confirmed."""
    return await session.execute(SQL["ask_again"], id=saved_search_id, owner=owner, pause=pause) > 0


async def take_turns(
    session: TenantSession, destinations: Sequence[str], wanted: Sequence[int], quota: int
) -> list[GrantedTurns]:
    """Take up to `wanted` of each destination's `quota` turns; sort the destinations, to prevent deadlocks."""
    return await session.fetch_as(
        GrantedTurns, SQL["take_turns"], destinations=list(destinations), wanted=list(wanted), quota=quota
    )


@dataclass(frozen=True, slots=True)
class NewDelivery:
    """An entry found by a saved search; `id` is the same for the same entry with the same content."""

    id: UUID
    saved_search_id: UUID
    entry_id: UUID
    fingerprint: bytes
    finding: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Delivery(NewDelivery):
    """A delivery that this worker has claimed; `attempts` includes this try."""

    attempts: int
    created_at: datetime
    name: str
    url: str
    secret: str
    failures: int
    principals: Sequence[str]
    include_superseded: bool


@dataclass(frozen=True, slots=True)
class QueuedDeliveries:
    """How many new deliveries are waiting, and how many were dropped because the queue is full."""

    waiting: int
    given_up: int


@dataclass(frozen=True, slots=True)
class OutboxWork:
    """Whether there are `changes` to compare and `deliveries` to make."""

    changes: bool
    deliveries: bool


async def put_deliveries(session: TenantSession, deliveries: Sequence[NewDelivery], most: int) -> QueuedDeliveries:
    """Queue deliveries, up to `most` for each subscription, except those that wait or were the last of an entry."""
    return await session.fetch_only_as(
        QueuedDeliveries,
        SQL["put"],
        most=most,
        ids=[d.id for d in deliveries],
        saved_search_ids=[d.saved_search_id for d in deliveries],
        entry_ids=[d.entry_id for d in deliveries],
        fingerprints=[d.fingerprint for d in deliveries],
        findings=[orjson.dumps(dict(d.finding)).decode() for d in deliveries],
    )


async def claim_deliveries(session: TenantSession, *, each: int, limit: int, lease: timedelta) -> list[Delivery]:
    """Claim due deliveries, at most `each` of a subscription. Unfinished ones are available again after `lease`."""
    return await session.fetch_as(Delivery, SQL["claim"], each=each, limit=limit, lease=lease)


async def end_deliveries(
    session: TenantSession, ids: Sequence[UUID], state: Literal["delivered", "given_up", "overtaken"]
) -> None:
    """Record how deliveries ended."""
    await session.execute(SQL["end"], ids=list(ids), state=state)


async def retry_delivery(session: TenantSession, delivery_id: UUID, delay: timedelta) -> None:
    """Schedule a retry."""
    await session.execute(SQL["retry"], id=delivery_id, delay=delay)


async def postpone_deliveries(session: TenantSession, ids: Sequence[UUID], delay: timedelta) -> None:
    """Schedule deliveries that were not sent again; the attempt does not count."""
    await session.execute(SQL["postpone"], ids=list(ids), delay=delay)


async def hold_subscriptions(session: TenantSession, saved_search_ids: Sequence[UUID], delay: timedelta) -> None:
    """Send nothing for these subscriptions for a while."""
    await session.execute(SQL["hold"], saved_search_ids=list(saved_search_ids), delay=delay)


async def note_success(session: TenantSession, saved_search_id: UUID) -> None:
    """Record that the endpoint accepted a message."""
    await session.execute(SQL["note_success"], saved_search_id=saved_search_id)


async def note_failure(
    session: TenantSession,
    saved_search_id: UUID,
    error: str,
    *,
    hold: timedelta | None,
    gone: bool,
    patience: timedelta,
) -> str | None:
    """Record that the endpoint did not accept a message; returns the subscription's state, None if it has ended.

    Nothing is sent to the endpoint for `hold`. The subscription is disabled when the endpoint is `gone` or fails for
    `patience`.
    """
    return await session.fetch_value_as(
        str, SQL["note_failure"], saved_search_id=saved_search_id, error=error, hold=hold, gone=gone, patience=patience
    )


async def next_due(session: TenantSession) -> float | None:
    """Seconds until the next delivery or challenge is due, 0 or less when one is; None when nothing can be sent."""
    return await session.fetch_value_as(float, SQL["next_due"])


async def give_up_waiting(session: TenantSession, saved_search_id: UUID) -> int:
    """Drop the waiting messages of this saved search; returns their number."""
    return await session.execute(SQL["give_up_waiting"], saved_search_id=saved_search_id)


async def tidy(session: TenantSession, *, waiting: timedelta, kept: timedelta, absence: timedelta) -> None:
    """Drop messages that waited too long, delete old finished ones, and disable subscriptions of absent owners."""
    await session.execute(SQL["give_up_old"], age=waiting)
    await session.execute(SQL["purge"], age=kept)
    await session.execute(SQL["disable_absent"], age=absence)


async def due_work(session: TenantSession) -> OutboxWork:
    """The pending work for the tenant's subscriptions."""
    return await session.fetch_only_as(OutboxWork, SQL["due_work"])
