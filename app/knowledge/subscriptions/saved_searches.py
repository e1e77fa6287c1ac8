"""Saved searches: requests that callers store under a name, to run again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args
from uuid import UUID

from app.contract.fields import Page
from app.contract.results import SearchResult
from app.contract.saved_searches import NewSavedSearch, SavedQuery, SavedSearch
from app.contract.search import SearchQuery, most_hits
from app.contract.validation import validate
from app.contract.vocabulary import SavedSearchSort
from app.db.database import Database
from app.db.queries import audit, deliveries
from app.db.queries import subscriptions as db
from app.errors import FieldError, InvalidInput, MaximumReached, SavedSearchNotFound
from app.knowledge.audit import AuditTrail
from app.knowledge.paging import NEWEST_FIRST, PageRequest
from app.knowledge.search.service import KnowledgeSearchService

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

        A name that the owner already uses replaces that search and keeps its subscription; pending messages for the
        old request are discarded.

        Raises InvalidInput, with fields under `request`, and Conflict when the owner has too many.
        """
        query = self._read(asked.request)
        try:
            await self._search.check(tenant_id, query)
        except InvalidInput as error:
            raise _under_request(error) from None
        async with (
            self._trail.attempt(tenant_id, owner, "saved_search.write"),
            self._database.tenant_session(tenant_id) as session,
        ):
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
        async with (
            self._trail.attempt(tenant_id, owner, "saved_search.delete", [saved_search_id]),
            self._database.tenant_session(tenant_id) as session,
        ):
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
