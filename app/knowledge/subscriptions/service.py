"""Saved searches, and subscriptions that send their new and changed matches to a webhook."""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from datetime import timedelta
from typing import Any, get_args
from uuid import UUID

import httpx

from app.concurrency.background import start_background
from app.contract.fields import Page
from app.contract.results import SearchResult
from app.contract.saved_searches import (
    NewSavedSearch,
    OwnedSubscription,
    SavedQuery,
    SavedSearch,
    Subscription,
    SubscriptionWithSecret,
)
from app.contract.search import SearchQuery, most_hits
from app.contract.validation import same_fields, validate
from app.contract.vocabulary import SavedSearchSort
from app.db.database import Database
from app.db.principals import SERVICE, act_as, current_principals, principals_of
from app.db.queries import audit, deliveries, tenants
from app.db.queries import subscriptions as db
from app.errors import (
    FieldError,
    InvalidInput,
    MaximumReached,
    SavedSearchNotFound,
    SubscriptionNotFound,
    TenantNotFound,
)
from app.knowledge.audit import AuditTrail
from app.knowledge.paging import NEWEST_FIRST, PageRequest
from app.knowledge.queue import JobQueue
from app.knowledge.search.service import KnowledgeSearchService
from app.knowledge.subscriptions.webhooks import SecretSealer, Targets, check_url, find_host, make_secret, read_secret

MAX_SAVED = 200
"""Most saved searches of one owner."""
MAX_OF_A_TENANT = 10_000
"""Most saved searches of all owners of a tenant."""


class SavedSearchService:
    """Stores saved searches; only its owner can see a saved search."""

    def __init__(self, database: Database, trail: AuditTrail, search: KnowledgeSearchService) -> None:
        self._database = database
        self._trail = trail
        self._search = search

    async def save(self, tenant_id: UUID, owner: str, asked: NewSavedSearch) -> tuple[SavedSearch, bool]:
        """Save a search that the owner could run now; return it and whether its name is new.

        A name that the owner already uses replaces that search and keeps its subscription; pending messages for the old
        request are discarded. Raises InvalidInput, with fields under `request`, and Conflict when the owner has too
        many.
        """
        query = self._read(asked.request)
        try:
            await self._search.check(tenant_id, query)
        except InvalidInput as error:
            raise _under_request(error) from None
        async with self._trail.writing(tenant_id, owner, "saved_search.write") as session:
            if await db.count_others(session, owner, asked.name) >= MAX_SAVED:
                raise MaximumReached(f"{MAX_SAVED} saved searches are the maximum; delete one first")
            kept = await db.put_saved_search(session, owner, asked.name, asked.request)
            if kept.is_new and await db.count_all(session) > MAX_OF_A_TENANT:
                raise MaximumReached(f"the tenant has {MAX_OF_A_TENANT} saved searches, which is the maximum")
            if kept.is_replaced:
                await deliveries.give_up_waiting(session, kept.id)
            await audit.write_audit(session, owner, "saved_search.write", [kept.id], {})
            stored = await db.fetch_saved_search(session, owner, kept.id)
        assert stored is not None
        return stored, kept.is_new

    async def get(self, tenant_id: UUID, owner: str, saved_search_id: UUID) -> SavedSearch:
        """Find one of the owner's saved searches. Raises SavedSearchNotFound."""
        async with self._database.tenant_session(tenant_id) as session:
            kept = await db.fetch_saved_search(session, owner, saved_search_id)
        if kept is None:
            raise SavedSearchNotFound("you have no saved search with this id")
        return kept

    async def run(self, tenant_id: UUID, owner: str, saved_search_id: UUID) -> SearchResult:
        """Run a saved search within the current limits. Raises SavedSearchNotFound, and as a search does."""
        saved = await self.get(tenant_id, owner, saved_search_id)
        return await self._search.search(tenant_id, self._read(saved.request), subject=owner)

    async def list_saved(
        self,
        tenant_id: UUID,
        owner: str,
        *,
        limit: int = 50,
        cursor: str | None = None,
        sort: SavedSearchSort = NEWEST_FIRST,
    ) -> Page[SavedSearch]:
        """List the owner's saved searches, by default newest first. Raises InvalidInput, also for a bad cursor."""
        wanted = PageRequest.read(limit, cursor, sort, get_args(SavedSearchSort))
        async with self._database.tenant_session(tenant_id) as session:
            places = await db.list_saved_searches(session, owner, wanted.order, wanted.after, wanted.reach)
            page = wanted.cut_places(places)
            found = await db.fetch_saved_searches(session, owner, [place.id for place in page.items])
        return Page(found, page.next_cursor)

    async def delete(self, tenant_id: UUID, owner: str, saved_search_id: UUID) -> None:
        """Delete one of the owner's saved searches and its subscription. Raises SavedSearchNotFound."""
        async with self._trail.writing(tenant_id, owner, "saved_search.delete", [saved_search_id]) as session:
            if not await db.delete_saved_search(session, owner, saved_search_id):
                raise SavedSearchNotFound("you have no saved search with this id")
            await audit.write_audit(session, owner, "saved_search.delete", [saved_search_id], {})

    def _read(self, request: Mapping[str, Any]) -> SearchQuery:
        with most_hits(self._search.defaults.max_limit):
            return read_request(request)


def read_request(request: Mapping[str, Any]) -> SearchQuery:
    """Read the request of a saved search, such as an imported one. Raises InvalidInput, with fields under `request`."""
    values = {name: value for name, value in request.items() if value is not None}
    try:
        return validate(SavedQuery, values)
    except InvalidInput as error:
        raise _under_request(error) from None


def _under_request(error: InvalidInput) -> InvalidInput:
    return InvalidInput([FieldError(f"request.{e.field}", e.message) for e in error.errors])


log = logging.getLogger("app.knowledge.subscriptions")

ASKED_AGAIN = timedelta(minutes=1)
"""Shortest time between the last challenge and one that the owner requests."""

MAX_SUBSCRIPTIONS = 100
"""Most subscriptions of one tenant; every changed entry is matched against each of them."""

MAX_OF_A_HOST = 10
"""Most subscriptions of one tenant whose webhooks go to the same host: it gets no more messages for a changed entry."""

RIGHTS_LAST = timedelta(days=7)
"""How long an owner counts as a reader after a call with a reader's token. Only tokens contain roles, so the service
learns of a change from the next token."""

NOTE_SECONDS = 3600.0
"""Shortest interval at which a caller's rights are recorded."""

MAX_NOTED = 50_000


@dataclass(eq=False)
class SubscriptionService:
    """Creates, shows and deletes subscriptions, and records which owners have the right to read."""

    database: Database
    trail: AuditTrail
    jobs: JobQueue
    sealer: SecretSealer
    targets: Targets = Targets()  # noqa: RUF009  # immutable
    rights_last: timedelta = RIGHTS_LAST
    _: KW_ONLY
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._noted: dict[tuple[UUID, str, bool], tuple[float, tuple[tuple[str, ...], tuple[str, ...]]]] = {}
        self._notes: set[asyncio.Task[None]] = set()

    async def subscribe(
        self, tenant_id: UUID, owner: str, saved_search_id: UUID, url: str, secret: str | None = None
    ) -> tuple[SubscriptionWithSecret, bool]:
        """Send matches of the saved search to `url` from now on; a second call replaces the URL and the secret.

        The first message follows when the endpoint has answered a challenge; matches wait until then.
        Returns the subscription with its secret, and whether it is new. Raises SavedSearchNotFound, InvalidInput,
        Conflict when the tenant has too many.
        """
        check_url(url, self.targets)
        if secret is not None:
            read_secret(secret)
        secret = secret or make_secret()
        current, alone = current_principals(), principals_of(owner, ())
        async with self.trail.writing(tenant_id, owner, "subscription.write", [saved_search_id]) as session:
            if await db.fetch_saved_search(session, owner, saved_search_id) is None:
                raise SavedSearchNotFound("you have no saved search with this id")
            others = await db.list_other_urls(session, saved_search_id)
            if len(others) >= MAX_SUBSCRIPTIONS:
                raise MaximumReached(f"the tenant has {MAX_SUBSCRIPTIONS} subscriptions, which is the maximum")
            if [find_host(other) for other in others].count(find_host(url)) >= MAX_OF_A_HOST:
                raise MaximumReached(
                    f"the tenant has {MAX_OF_A_HOST} subscriptions with this host, which is the maximum"
                )
            new = saved_search_id not in await db.fetch_subscriptions(session, [saved_search_id])
            await db.put_subscription(
                session,
                saved_search_id,
                url,
                self.sealer.seal(secret),
                self.rights_last,
                ASKED_AGAIN,
                # Those who see all subscribe as themselves.
                current if set(alone) <= set(current) else alone,
            )
            await audit.write_audit(session, owner, "subscription.write", [saved_search_id], {})
            await self.jobs.enqueue(session, "deliver_webhooks", "webhooks")
            stored = (await db.fetch_subscriptions(session, [saved_search_id]))[saved_search_id]
        return SubscriptionWithSecret(**same_fields(stored, Subscription), secret=secret), new

    async def get(self, tenant_id: UUID, owner: str, saved_search_id: UUID) -> Subscription:
        """Find the subscription of one of the owner's saved searches. Raises SubscriptionNotFound."""
        async with self.database.tenant_session(tenant_id) as session:
            rows = await db.fetch_subscriptions(session, [saved_search_id], owner)
        if saved_search_id not in rows:
            raise SubscriptionNotFound("you have no subscription for a saved search with this id")
        return Subscription(**same_fields(rows[saved_search_id], Subscription))

    async def ask_again(self, tenant_id: UUID, owner: str, saved_search_id: UUID) -> Subscription:
        """Send the endpoint another challenge, at the earliest ASKED_AGAIN after the last one.

        A confirmed subscription stays as it is. Raises SubscriptionNotFound.
        """
        async with self.trail.writing(tenant_id, owner, "subscription.confirm", [saved_search_id]) as session:
            before = (await db.fetch_subscriptions(session, [saved_search_id], owner)).get(saved_search_id)
            if before is None:
                raise SubscriptionNotFound("you have no subscription for a saved search with this id")
            if not await deliveries.ask_again(session, saved_search_id, owner, ASKED_AGAIN):
                return Subscription(**same_fields(before, Subscription))
            if before.confirmation == "refused":
                await audit.write_audit(session, owner, "subscription.confirm", [saved_search_id], {})
            await self.jobs.enqueue(session, "deliver_webhooks", "webhooks")
            after = await db.fetch_subscriptions(session, [saved_search_id], owner)
            return Subscription(**same_fields(after[saved_search_id], Subscription))

    async def list_subscriptions(
        self, tenant_id: UUID, *, limit: int = 50, cursor: str | None = None, reader: str | None = None
    ) -> Page[OwnedSubscription]:
        """List the tenant's subscriptions for its admin, newest first; with `reader`, recorded in the audit trail.

        A URL is reduced to its host, because the rest can contain a secret of the owner. Raises InvalidInput for a bad
        cursor.
        """
        wanted = PageRequest.read(limit, cursor)
        async with self.database.tenant_session(tenant_id) as session:
            places = await db.list_subscriptions(session, wanted.after, wanted.reach)
            page = wanted.cut(places, lambda place: place)
            rows = await db.fetch_subscriptions(session, [place.id for place in page.items])
            await self.trail.note_read(session, reader, "subscription.list")
        found = [rows[place.id] for place in page.items]
        return Page([replace(s, url=httpx.URL(s.url).host) for s in found], page.next_cursor)

    async def delete(self, tenant_id: UUID, saved_search_id: UUID, *, actor: str, owner: str | None = None) -> None:
        """Delete a subscription of `owner`, or of any owner if `owner` is None. Raises SubscriptionNotFound."""
        async with self.trail.writing(tenant_id, actor, "subscription.delete", [saved_search_id]) as session:
            if not await db.delete_subscription(session, saved_search_id, owner):
                raise SubscriptionNotFound("there is no subscription for a saved search with this id")
            await db.forget_changes(session)
            await audit.write_audit(session, actor, "subscription.delete", [saved_search_id], {})

    def note_caller(
        self, tenant_id: UUID, subject: str, groups: Collection[str] = (), roles: Collection[str] = (), *, reads: bool
    ) -> None:
        """Record that a caller has used a valid token.

        Its subscriptions continue, or pause if it cannot read, and admins see its groups and roles.

        This does not delay the call: it is written in the background, at most once in NOTE_SECONDS for the same groups
        and roles.
        """
        now = self.clock()
        key = (tenant_id, subject, reads)
        rights = (principals_of(subject, groups), tuple(sorted(roles)))
        noted_at, noted = self._noted.get(key, (-NOTE_SECONDS, ((), ())))
        if noted_at > now - NOTE_SECONDS and noted == rights:
            return
        if len(self._noted) >= MAX_NOTED:
            self._noted.clear()
        self._noted[key] = (now, rights)
        self._noted.pop((tenant_id, subject, not reads), None)
        task = start_background(self._write_rights(*key, *rights))
        self._notes.add(task)
        task.add_done_callback(self._notes.discard)

    async def close(self) -> None:
        """Wait until all recorded rights are written."""
        await asyncio.gather(*self._notes)

    async def _write_rights(
        self, tenant_id: UUID, subject: str, reads: bool, principals: tuple[str, ...], roles: tuple[str, ...]
    ) -> None:
        act_as(SERVICE)
        try:
            async with self.database.tenant_session(tenant_id) as session:
                lasts = self.rights_last if reads else timedelta(0)
                await tenants.note_caller(session, subject, principals, roles)
                owns = await db.set_rights(session, subject, lasts, principals)
                if owns and reads and (await deliveries.due_work(session)).deliveries:
                    await self.jobs.enqueue(session, "deliver_webhooks", "webhooks")
        except TenantNotFound:
            return  # the tenant's subscriptions were deleted with it
        except Exception as error:  # the next call records it again; no call may fail because of it
            self._noted.pop((tenant_id, subject, reads), None)
            log.warning(
                "a caller's rights were not recorded: %s", type(error).__name__, extra={"tenant_id": str(tenant_id)}
            )
