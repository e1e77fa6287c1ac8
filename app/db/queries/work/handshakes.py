"""Challenges to the endpoints of subscriptions, and the turns of tenants at the hosts that messages go to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal
from uuid import UUID

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
    return await session.fetch_as(Handshake, SQL["claim"], limit=limit, lease=lease)


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


async def postpone_handshakes(
    session: TenantSession, handshakes: Sequence[tuple[Handshake, timedelta]]
) -> None:
    """Schedule challenges that were not sent again, each after its pause; they do not count."""
    await session.execute(
        SQL["postpone"],
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
        GrantedTurns,
        SQL["take_turns"],
        destinations=list(destinations),
        wanted=list(wanted),
        quota=quota,
    )
