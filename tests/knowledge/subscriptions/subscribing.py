"""Subscriptions, an endpoint that receives their messages, and access to the outbox."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.entries import EntryDraft
from app.contract.saved_searches import NewSavedSearch
from app.knowledge.subscriptions.deliveries import DeliveryService
from app.knowledge.subscriptions.webhooks import SecretSealer, SendPace, WebhookSender
from tests.fixtures.database.cluster import fetch
from tests.fixtures.providers.failing import FailingProvider
from tests.knowledge.subscriptions.endpoint import ANYWHERE, Endpoint

OWNER = "anna"


@dataclass
class Desk:
    """The steps that tests of subscriptions share."""

    services: Services
    provider: FailingProvider
    tenant: Tenant
    endpoint: Endpoint
    superuser_dsn: str
    service_dsn: str

    async def subscribe(self, owner: str = OWNER, name: str = "mine", **request: Any) -> UUID:
        saved, _ = await self.services.saved_searches.save(self.tenant.id, owner, NewSavedSearch(name, request))
        await self.services.subscriptions.subscribe(self.tenant.id, owner, saved.id, self.endpoint.url)
        await self.confirm()
        return saved.id

    async def subscribe_again(self, saved: UUID) -> None:
        await self.services.subscriptions.subscribe(self.tenant.id, OWNER, saved, self.endpoint.url)

    def deliverer(
        self, sender: WebhookSender | None = None, pace: SendPace | None = None, keys: Sequence[bytes] = (), **own: Any
    ) -> DeliveryService:
        """A service of its own that delivers the messages of the desk, by default to its endpoint."""
        database = own.pop("database", self.services.database)
        sender, pace = sender or WebhookSender(ANYWHERE, seconds=5), pace or SendPace(database)
        return DeliveryService(database, self.services.jobs, sender, SecretSealer(keys), pace, **own)

    async def confirm(self) -> None:
        """Confirm all endpoints, as if they had answered a challenge."""
        await self.sql("update subscriptions set confirmation = 'confirmed'")

    async def write(self, content: str, **values: Any) -> UUID:
        entry, _ = await self.services.entries.create(self.tenant.id, EntryDraft(content=content, **values))
        return entry.id

    async def work(self) -> None:
        """Run the work that is due."""
        while await self.services.worker.run_once():
            pass

    async def match(self) -> None:
        """Compare the entries that have changed with the saved searches, which queues messages."""
        while await self.services.worker.run_once(["match_changes"]):
            pass

    async def hasten(self) -> None:
        """Make all waiting work due, and run it."""
        await self.sql("update jobs set run_at = now() where state = 'queued'")
        await self.sql("update deliveries set run_at = now() where state = 'waiting'")
        await self.sql("update subscriptions set retry_at = null, challenge_at = now()")
        await self.sql("delete from send_turns")
        await self.work()

    async def sql(self, statement: str, *values: Any) -> list[Any]:
        """The first column of a query as superuser."""
        return [row[0] for row in await fetch(self.superuser_dsn, statement, *values)]

    async def states(self) -> list[str]:
        """The states of all deliveries, in the order of the queue."""
        return await self.sql("select state from deliveries order by created_at, id")

    @property
    def contents(self) -> list[str]:
        """Of the entries that the endpoint was sent."""
        return [received.content for received in self.endpoint.received]
