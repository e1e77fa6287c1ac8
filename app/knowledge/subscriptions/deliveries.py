"""Deliver matches to subscribers, at least once and only while the owner has the right to read them.

An endpoint gets no messages before it has answered a challenge of the subscription.
"""

import asyncio
import logging
import random
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from uuid import UUID

import orjson

from app.contract.entries import Entry
from app.db.database import Database
from app.db.queries import deliveries as db
from app.db.queries import entries, subscriptions
from app.db.queries.deliveries import Delivery, Handshake
from app.db.rows import new_id
from app.db.session import TenantSession
from app.errors import DatabaseUnavailable
from app.knowledge.queue import JobQueue
from app.knowledge.subscriptions.matching import fingerprint
from app.knowledge.subscriptions.webhooks import (
    EndpointAnswer,
    SecretSealer,
    SecretUnreadable,
    SendPace,
    WebhookSender,
    sending_tenant,
)

log = logging.getLogger("app.knowledge.subscriptions.deliveries")

_CHANCE = random.SystemRandom()
PAUSES = (5, 30, 120, 600)
"""Seconds between challenges to an endpoint, five within 13 minutes: its owner may still have to store the secret."""
OVERLOADED_SECONDS = 5.0


RETRY_SECONDS = (5, 30, 120, 600, 1_800, 3_600, 10_800, 21_600, 43_200, 86_400)
"""Pauses between the attempts at one message: eleven attempts within two days."""
LONGEST_HOLD = 3_600.0
"""Longest pause between two attempts at an endpoint that fails for all messages."""
LEASE = timedelta(seconds=60)
"""How long a worker holds a message. If the worker dies, another sends the message later, possibly again."""
PATIENCE = timedelta(days=5)
"""An endpoint that accepts no message for this long is disabled."""
WAITING, KEPT = timedelta(days=7), timedelta(days=30)
"""How long a message can wait, for example for its owner's rights; and how long records of messages are kept."""
EACH, AT_ONCE = 4, 16
SLICE_SECONDS = 5.0
LEAST_PAUSE_SECONDS = 0.5


@dataclass(eq=False)
class DeliveryService:
    """Sends the pending messages of the outbox.

    A message contains the current entry. If the entry is no longer the version that matched, or was hidden or deleted,
    the message is dropped; the later change is matched on its own. So all attempts at a message have the same body.

    An endpoint gets its first message after it has answered a challenge, and a host as many as its pace allows.
    """

    database: Database
    jobs: JobQueue
    sender: WebhookSender
    sealer: SecretSealer
    pace: SendPace
    lease: timedelta = LEASE

    def __post_init__(self) -> None:
        self._delivering: set[UUID] = set()

    async def deliver(self, tenant_id: UUID, *, seconds: float = SLICE_SECONDS) -> float | None:
        """Send due challenges and messages for `seconds`; return the seconds until the next is due, None without any.

        A tenant has one turn at a time in each process, so that its endpoints never hold up those of other tenants.
        Raises DatabaseUnavailable.
        """
        if tenant_id in self._delivering:
            return LEAST_PAUSE_SECONDS
        self._delivering.add(tenant_id)
        try:
            return await self._deliver_due(tenant_id, seconds)
        finally:
            self._delivering.discard(tenant_id)

    async def tidy(self, tenant_id: UUID) -> None:
        """Give up old messages, remove old records, and queue jobs for messages and changes that have none."""
        async with self.database.tenant_session(tenant_id) as session:
            await db.tidy(session, waiting=WAITING, kept=KEPT, absence=WAITING)
            await self._reseal(session, tenant_id)
            work = await db.due_work(session)
            if work.changes:
                await self.jobs.enqueue(session, "match_changes", "entries")
            if work.deliveries:
                await self.jobs.enqueue(session, "deliver_webhooks", "webhooks")

    async def _reseal(self, session: TenantSession, tenant_id: UUID) -> None:
        """Encrypt secrets with the first key that are not yet: those stored before it was the first."""
        if not self.sealer.mark:
            return
        for stored in await subscriptions.list_secrets_without(session, self.sealer.mark):
            try:
                secret = self.sealer.open(stored.secret)
            except SecretUnreadable:
                log.error(
                    "a webhook secret is encrypted with a key that is not in KB_ENCRYPTION_KEY",
                    extra={"tenant_id": str(tenant_id), "saved_search_id": str(stored.saved_search_id)},
                )
                continue
            await subscriptions.replace_secret(session, stored, self.sealer.seal(secret))

    async def _admit_challenges(self, tenant_id: UUID, claimed: list[Handshake]) -> list[Handshake]:
        """Return the claimed challenges that may be sent now; the others are postponed."""
        waits = await self.pace.admit_challenges(tenant_id, [handshake.url for handshake in claimed])
        held = [(asked, timedelta(seconds=wait)) for asked, wait in zip(claimed, waits, strict=True) if wait]
        if held:
            async with self.database.tenant_session(tenant_id) as session:
                await db.postpone_handshakes(session, held)
        return [handshake for handshake, wait in zip(claimed, waits, strict=True) if not wait]

    async def _ask(self, tenant_id: UUID, handshake: Handshake) -> None:
        """Send one challenge, and record the answer."""
        challenge = secrets.token_urlsafe(32)
        saved_search = {"id": handshake.saved_search_id, "name": handshake.name}
        body = orjson.dumps(
            {
                "type": "subscription.challenge",
                "timestamp": datetime.now(UTC).isoformat(),
                "data": {"saved_search": saved_search, "challenge": challenge},
            }
        )
        admit = self.pace.admit_challenge_at
        answer = await self._send(tenant_id, handshake, new_id(), body, admit, challenge)
        try:
            outcome = await self._note_challenge(tenant_id, handshake, answer)
        except DatabaseUnavailable:
            # The challenge is claimed again after the lease.
            log.warning(
                "the answer to a challenge was not recorded", extra={"saved_search_id": str(handshake.saved_search_id)}
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

    async def _send(
        self,
        tenant_id: UUID,
        endpoint: Handshake | Delivery,
        message_id: UUID,
        body: bytes,
        admit: Callable[[UUID, str], Awaitable[float]],
        echo: str | None = None,
    ) -> EndpointAnswer:
        """Post one message once, in a task of its own; `admit` takes the tenant's turn at an IP address."""
        try:
            secret = self.sealer.open(endpoint.secret)
        except SecretUnreadable as error:
            return EndpointAnswer(str(error))
        sending_tenant.set(tenant_id)
        name = f"msg_{message_id.hex}"
        return await self.sender.send(endpoint.url, secret, name, body, echo=echo, admit=partial(admit, tenant_id))

    async def _note_challenge(self, tenant_id: UUID, handshake: Handshake, answer: EndpointAnswer) -> str:
        async with self.database.tenant_session(tenant_id) as session:
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

    async def _deliver_due(self, tenant_id: UUID, seconds: float) -> float | None:
        end = time.monotonic() + seconds
        while True:
            async with self.database.tenant_session(tenant_id) as session:
                asked = await db.claim_handshakes(session, limit=AT_ONCE, lease=self.lease)
                claimed = await db.claim_deliveries(session, each=EACH, limit=AT_ONCE, lease=self.lease)
                found = await _fetch_readable(session, claimed)
                due = await db.next_due(session)
            if not claimed and not asked:
                return None if due is None else max(LEAST_PAUSE_SECONDS, due)
            current, overtaken = _split(claimed, found)
            asked = await self._admit_challenges(tenant_id, asked)
            current = await self._admit(tenant_id, current)
            # If one fails, the others continue and end within their lease.
            outcomes = await asyncio.gather(
                *[self._ask(tenant_id, handshake) for handshake in asked],
                self._drop(tenant_id, overtaken),
                *[self._deliver(tenant_id, delivery, found[delivery.id]) for delivery in current],
                return_exceptions=True,
            )
            for outcome in outcomes:
                if outcome is not None:
                    raise outcome
            if time.monotonic() >= end:
                return 0.0

    async def _drop(self, tenant_id: UUID, overtaken: Sequence[Delivery]) -> None:
        if overtaken:
            async with self.database.tenant_session(tenant_id) as session:
                await db.end_deliveries(session, [delivery.id for delivery in overtaken], "overtaken")

    async def _admit(self, tenant_id: UUID, claimed: Sequence[Delivery]) -> list[Delivery]:
        """Return the deliveries that their hosts accept now; the others wait, and so do their subscriptions."""
        waits = await self.pace.admit(tenant_id, [delivery.url for delivery in claimed])
        held = [delivery for delivery, wait in zip(claimed, waits, strict=True) if wait]
        if held:
            pause = timedelta(seconds=max(waits))
            async with self.database.tenant_session(tenant_id) as session:
                await db.hold_subscriptions(session, [delivery.saved_search_id for delivery in held], pause)
                await db.postpone_deliveries(session, [delivery.id for delivery in held], pause)
        return [delivery for delivery, wait in zip(claimed, waits, strict=True) if not wait]

    async def _deliver(self, tenant_id: UUID, delivery: Delivery, entry: Entry) -> None:
        saved_search = {"id": delivery.saved_search_id, "name": delivery.name}
        # The entry as in GET /knowledge/entries/{id}.
        body = orjson.dumps(
            {
                "type": "entry.matched",
                "timestamp": delivery.created_at.isoformat(),
                "data": {"saved_search": saved_search, **delivery.finding, "entry": asdict(entry)},
            }
        )
        answer = await self._send(tenant_id, delivery, delivery.id, body, self.pace.admit_at)
        try:
            state = await self._note(tenant_id, delivery, answer)
        except DatabaseUnavailable:
            # Whether it was sent or not, the message is claimed again after the lease.
            log.warning("a delivery's outcome was not recorded", extra={"delivery_id": str(delivery.id)})
            return
        log.info(
            "webhook delivered" if answer.error is None else "webhook not delivered: %s",
            *([] if answer.error is None else [answer.error]),
            extra={
                "tenant_id": str(tenant_id),
                "saved_search_id": str(delivery.saved_search_id),
                "delivery_id": str(delivery.id),
                "attempt": delivery.attempts,
                "subscription": state,
            },
        )

    async def _note(self, tenant_id: UUID, delivery: Delivery, answer: EndpointAnswer) -> str | None:
        async with self.database.tenant_session(tenant_id) as session:
            if answer.error is None:
                await db.end_deliveries(session, [delivery.id], "delivered")
                await db.note_success(session, delivery.saved_search_id)
                return "active"
            if answer.overloaded:
                pause = timedelta(seconds=answer.retry_after or RETRY_SECONDS[0])
                if answer.retry_after:
                    await db.hold_subscriptions(session, [delivery.saved_search_id], pause)
                await db.postpone_deliveries(session, [delivery.id], pause)
                return "active"
            if delivery.attempts > len(RETRY_SECONDS):
                await db.end_deliveries(session, [delivery.id], "given_up")
            else:
                again = timedelta(seconds=find_pause(delivery.attempts, answer.retry_after))
                await db.retry_delivery(session, delivery.id, again)
            hold = None
            if answer.own_fault:
                hold = timedelta(seconds=min(LONGEST_HOLD, find_pause(delivery.failures + 1, answer.retry_after)))
            return await db.note_failure(
                session, delivery.saved_search_id, answer.error, hold=hold, gone=answer.gone, patience=PATIENCE
            )


async def _fetch_readable(session: TenantSession, claimed: Sequence[Delivery]) -> dict[UUID, Entry]:
    """The entries by the ids of their deliveries, if the owners may read them now."""
    found: dict[UUID, Entry] = {}
    for principals in {tuple(delivery.principals) for delivery in claimed}:
        own = [delivery for delivery in claimed if tuple(delivery.principals) == principals]
        async with session.acting_as(principals):
            readable = await entries.fetch_entries(session, [delivery.entry_id for delivery in own])
        found |= {d.id: readable[d.entry_id] for d in own if d.entry_id in readable}
    return found


def _split(claimed: Sequence[Delivery], found: Mapping[UUID, Entry]) -> tuple[list[Delivery], list[Delivery]]:
    """Separate the deliveries to send from those whose entry has changed since, or is hidden from the owner."""
    prints = {delivery_id: fingerprint(entry) for delivery_id, entry in found.items()}
    current: list[Delivery] = []
    overtaken: list[Delivery] = []
    for delivery in claimed:
        is_current = prints.get(delivery.id) == delivery.fingerprint
        if is_current:
            entry = found[delivery.id]
            superseded = entry.superseded_by_id is not None and not delivery.include_superseded
            expired = entry.expires_at is not None and entry.expires_at <= datetime.now(UTC)
            is_current = not (expired or entry.quarantined or superseded)
        (current if is_current else overtaken).append(delivery)
    return current, overtaken


def find_pause(attempts: int, retry_after: float | None = None) -> float:
    """Seconds to wait after this many failed attempts, with a jitter of 10 %; at least the endpoint's Retry-After."""
    pause = RETRY_SECONDS[min(attempts, len(RETRY_SECONDS)) - 1] * _CHANCE.uniform(0.9, 1.1)
    return max(pause, retry_after or 0.0)
