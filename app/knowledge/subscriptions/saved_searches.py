"""Searches that their owners keep under a name, to run again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from app.db.database import Database
from app.db.queries.tenants import audit
from app.db.queries.work import deliveries
from app.db.queries.work import saved_searches as db
from app.db.queries.work.saved_searches import SavedSearch
from app.db.rows import Position
from app.errors import Conflict, FieldError, InvalidInput, SavedSearchNotFound
from app.knowledge.audit import AuditTrail
from app.knowledge.paging import Page, PageRequest
from app.knowledge.search.query import MAX_LIMIT, SearchQuery
from app.knowledge.search.results import SearchResult
from app.knowledge.search.service import KnowledgeSearchService
from app.knowledge.text import is_storable
from app.knowledge.vocabulary import Weights

MAX_NAME = 200
MAX_SAVED = 200
"""Saved searches of one owner."""


class SavedSearchService:
    """Keeps searches; each belongs to its owner, for whom the others' do not exist."""

    def __init__(self, database: Database, trail: AuditTrail, search: KnowledgeSearchService) -> None:
        self._database = database
        self._trail = trail
        self._search = search

    async def save(
        self, tenant_id: UUID, owner: str, name: str, request: Mapping[str, Any]
    ) -> tuple[SavedSearch, bool]:
        """Keep a search that the owner could run now.

        Under a name that the owner has already it takes that one's place, and its subscription; messages that are
        still to be sent for what the search asked before are given up.

        Returns it and whether the name is new. Raises InvalidInput, its fields under `request`, and Conflict when the
        owner has too many.
        """
        query = self._read(request)
        try:
            await self._search.check(tenant_id, query)
        except InvalidInput as error:
            raise _under_request(error) from None
        name = name.strip()
        if not 1 <= len(name) <= MAX_NAME or not is_storable(name):
            raise InvalidInput.of("name", f"must have 1 to {MAX_NAME} characters")
        async with (
            self._trail.attempt(tenant_id, owner, "saved_search.write"),
            self._database.tenant_session(tenant_id) as session,
        ):
            if await db.count_others(session, owner, name) >= MAX_SAVED:
                raise Conflict(f"{MAX_SAVED} saved searches are the maximum; delete one first")
            kept = await db.put_saved_search(session, owner, name, request)
            if kept.is_replaced:
                await deliveries.give_up_waiting(session, kept.id)
            await audit.write_audit(session, owner, "saved_search.write", [kept.id], {})
            stored = await db.fetch_saved_search(session, owner, kept.id)
        assert stored is not None
        return stored, kept.is_new

    async def get(self, tenant_id: UUID, owner: str, saved_search_id: UUID) -> SavedSearch:
        """One of the owner's. Raises SavedSearchNotFound."""
        async with self._database.tenant_session(tenant_id) as session:
            kept = await db.fetch_saved_search(session, owner, saved_search_id)
        if kept is None:
            raise SavedSearchNotFound("you have no saved search with this id")
        return kept

    async def run(self, tenant_id: UUID, owner: str, saved_search_id: UUID) -> SearchResult:
        """Search as one of the owner's says, within the limits of now. Raises SavedSearchNotFound, and as a search."""
        saved = await self.get(tenant_id, owner, saved_search_id)
        return await self._search.search(tenant_id, self._read(saved.request), subject=owner)

    async def list_saved(
        self, tenant_id: UUID, owner: str, *, limit: int = 50, cursor: str | None = None
    ) -> Page[SavedSearch]:
        """The owner's, newest first. Raises InvalidInput for a bad cursor."""
        wanted = PageRequest.read(limit, cursor)
        async with self._database.tenant_session(tenant_id) as session:
            found = await db.list_saved_searches(session, owner, wanted.after, wanted.reach)
        return wanted.cut(found, lambda saved: Position(saved.created_at, saved.id))

    async def delete(self, tenant_id: UUID, owner: str, saved_search_id: UUID) -> None:
        """Forget one of the owner's, and its subscription. Raises SavedSearchNotFound."""
        async with (
            self._trail.attempt(tenant_id, owner, "saved_search.delete", [saved_search_id]),
            self._database.tenant_session(tenant_id) as session,
        ):
            if not await db.delete_saved_search(session, owner, saved_search_id):
                raise SavedSearchNotFound("you have no saved search with this id")
            await audit.write_audit(session, owner, "saved_search.delete", [saved_search_id], {})

    def _read(self, request: Mapping[str, Any]) -> SearchQuery:
        return read_request(request, max_limit=self._search.defaults.max_limit)


def read_request(request: Mapping[str, Any], *, max_limit: int = MAX_LIMIT) -> SearchQuery:
    """The search that a kept request describes.

    A cursor continues one search and cannot be kept. Raises InvalidInput, its fields under `request`.
    """
    values = {name: value for name, value in request.items() if value is not None}
    if "cursor" in values:
        raise InvalidInput.of("request.cursor", "cannot be saved: a cursor belongs to one search")
    try:
        if "weights" in values:
            values["weights"] = Weights(**values["weights"])
        if "asset_id" in values:
            values["asset_id"] = [UUID(str(i)) for i in values["asset_id"]]
        return SearchQuery(**values, max_limit=max_limit)
    except InvalidInput as error:
        raise _under_request(error) from None
    except (TypeError, ValueError, AttributeError):
        # Only a request that did not come through the service's own front, such as an imported one.
        raise InvalidInput.of("request", "is not a search") from None


def _under_request(error: InvalidInput) -> InvalidInput:
    return InvalidInput([FieldError(f"request.{e.field}", e.message) for e in error.errors])
