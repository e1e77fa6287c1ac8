"""Verify endpoints: one gets no messages before it has answered a challenge of the subscription."""

from __future__ import annotations

import logging
import secrets
from datetime import UTC, datetime, timedelta
from uuid import UUID

import orjson

from app.db.database import Database
from app.db.queries import deliveries as db
from app.db.queries.deliveries import Handshake
from app.db.rows import new_id
from app.errors import DatabaseUnavailable
from app.knowledge.subscriptions.sending import MessageSender, SendPace
from app.knowledge.subscriptions.webhooks import EndpointAnswer

log = logging.getLogger("app.knowledge.subscriptions.handshakes")

PAUSES = (5, 30, 120, 600)
"""Seconds between challenges to an endpoint, five within 13 minutes: its owner may still have to store the secret."""
ASKED_AGAIN = timedelta(minutes=1)
"""Shortest time between the last challenge and one that the owner requests."""
OVERLOADED_SECONDS = 5.0


class Handshakes:
    """Sends challenges, and records whether their endpoints agree."""

    def __init__(self, database: Database, messages: MessageSender, pace: SendPace) -> None:
        self._database = database
        self._messages = messages
        self._pace = pace

    async def admit(self, tenant_id: UUID, claimed: list[Handshake]) -> list[Handshake]:
        """Return the claimed challenges that may be sent now; the others are postponed."""
        waits = await self._pace.admit_challenges(tenant_id, [handshake.url for handshake in claimed])
        held = [(asked, timedelta(seconds=wait)) for asked, wait in zip(claimed, waits, strict=True) if wait]
        if held:
            async with self._database.tenant_session(tenant_id) as session:
                await db.postpone_handshakes(session, held)
        return [handshake for handshake, wait in zip(claimed, waits, strict=True) if not wait]

    async def ask(self, tenant_id: UUID, handshake: Handshake) -> None:
        """Send one challenge, and record the answer."""
        challenge = secrets.token_urlsafe(32)
        body = make_challenge(handshake, challenge)
        admit = self._pace.admit_challenge_at
        answer = await self._messages.send(tenant_id, handshake, new_id(), body, admit=admit, echo=challenge)
        try:
            outcome = await self._note(tenant_id, handshake, answer)
        except DatabaseUnavailable:
            # The challenge is claimed again after the lease.
            log.warning(
                "the answer to a challenge was not recorded",
                extra={"saved_search_id": str(handshake.saved_search_id)},
            )
            return
        log.info(
            "webhook endpoint %s",
            outcome if answer.error is None else f"{outcome}: {answer.error}",
            extra={
                "tenant_id": str(tenant_id),
                "saved_search_id": str(handshake.saved_search_id),
                "attempt": handshake.challenges,
            },
        )

    async def _note(self, tenant_id: UUID, handshake: Handshake, answer: EndpointAnswer) -> str:
        async with self._database.tenant_session(tenant_id) as session:
            if answer.overloaded:
                held = timedelta(seconds=answer.retry_after or OVERLOADED_SECONDS)
                await db.postpone_handshakes(session, [(handshake, held)])
                return "pending"
            if answer.error is None:
                await db.note_handshake(session, handshake, "confirmed", None, timedelta(0))
                return "confirmed"
            if answer.gone or handshake.challenges > len(PAUSES):
                await db.note_handshake(session, handshake, "refused", answer.error, timedelta(0))
                return "refused"
            pause = max(PAUSES[handshake.challenges - 1], min(answer.retry_after or 0.0, PAUSES[-1]))
            await db.note_handshake(session, handshake, "pending", answer.error, timedelta(seconds=pause))
            return "pending"


def make_challenge(handshake: Handshake, challenge: str) -> bytes:
    """Make the message: its type, the time, the saved search, and the text to answer with."""
    return orjson.dumps(
        {
            "type": "subscription.challenge",
            "timestamp": datetime.now(UTC).isoformat(),
            "data": {
                "saved_search": {"id": handshake.saved_search_id, "name": handshake.name},
                "challenge": challenge,
            },
        }
    )
