"""Webhook secrets in the database: encrypted, and encrypted again with a new key."""

from __future__ import annotations

import logging

import pytest
from cryptography.fernet import Fernet

from app.contract.saved_searches import NewSavedSearch
from app.knowledge.subscriptions.deliveries import DeliveryService
from app.knowledge.subscriptions.service import SubscriptionService
from app.knowledge.subscriptions.webhooks import SecretSealer, SecretUnreadable, WebhookSender, sign
from tests.knowledge.subscriptions.subscribing import OWNER, Desk

OLD, NEW = Fernet.generate_key(), Fernet.generate_key()
SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"


def deliverer(desk: Desk, *keys: bytes) -> DeliveryService:
    sender = WebhookSender(allow_private=True, seconds=5)
    return DeliveryService(desk.services.database, desk.services.jobs, sender, SecretSealer(keys))


async def subscribe(desk: Desk, *keys: bytes) -> None:
    saved, _ = await desk.services.saved_searches.save(
        desk.tenant.id, OWNER, NewSavedSearch("mine", {"query": "harbour", "mode": "keyword"})
    )
    service = SubscriptionService(
        desk.services.database,
        desk.services.trail,
        desk.services.jobs,
        SecretSealer(keys),
        allow_private=True,
    )
    made, _ = await service.subscribe(desk.tenant.id, OWNER, saved.id, desk.endpoint.url, SECRET)
    assert made.secret == SECRET


async def stored(desk: Desk) -> str:
    return str((await desk.sql("select secret from subscriptions"))[0])


def test_a_sealed_secret_names_its_key_and_is_opened_by_any_key() -> None:
    sealed = SecretSealer([OLD]).seal(SECRET)
    assert sealed.startswith(SecretSealer([OLD, NEW]).mark)
    assert SECRET not in sealed
    assert SecretSealer([NEW, OLD]).open(sealed) == SECRET
    for keys in ((), (NEW,)):
        with pytest.raises(SecretUnreadable):
            SecretSealer(keys).open(sealed)
    with pytest.raises(SecretUnreadable):
        SecretSealer([OLD]).open(sealed[:-4] + "AAAA")
    assert SecretSealer().open(SecretSealer().seal(SECRET)) == SECRET


async def test_the_database_has_no_secret_in_plain_text_and_messages_are_signed_with_it(desk: Desk) -> None:
    await subscribe(desk, OLD)
    await desk.confirm()
    assert SECRET.removeprefix("whsec_") not in await stored(desk)
    await desk.write("The harbour")
    while await desk.services.worker.run_once():
        pass
    assert desk.endpoint.received == [], "the worker has no key"
    await desk.sql("update deliveries set run_at = now(), attempts = 0")
    await desk.sql("update subscriptions set retry_at = null")
    await deliverer(desk, NEW, OLD).deliver(desk.tenant.id)
    (message,) = desk.endpoint.received
    given = message.headers
    assert given["webhook-signature"] == sign(
        SECRET, given["webhook-id"], int(given["webhook-timestamp"]), message.body
    )


async def test_the_sweep_encrypts_with_the_first_key(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    await subscribe(desk)
    assert await stored(desk) == SECRET
    await deliverer(desk).tidy(desk.tenant.id)
    assert await stored(desk) == SECRET
    for keys in ((OLD,), (NEW, OLD), (NEW,)):
        await deliverer(desk, *keys).tidy(desk.tenant.id)
        now = await stored(desk)
        assert now.startswith(SecretSealer(keys).mark)
        assert SecretSealer(keys).open(now) == SECRET
        await deliverer(desk, *keys).tidy(desk.tenant.id)
        assert await stored(desk) == now
    with caplog.at_level(logging.ERROR):
        await deliverer(desk, OLD).tidy(desk.tenant.id)
    assert await stored(desk) == now
    assert "not in KB_ENCRYPTION_KEY" in caplog.text
