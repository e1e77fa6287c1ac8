"""Searches and entries at a service elsewhere. The token has the tenant and the actor: both arguments are ignored."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any
from uuid import UUID

from app.cli.remote.exchange import Exchange
from app.db.queries.knowledge.entries import Entry
from app.knowledge.entries.drafts import EntryDraft
from app.knowledge.entries.related import Related, RelatedEntry
from app.knowledge.entries.writing import BulkResult
from app.knowledge.paging import NEWEST_FIRST, Page
from app.knowledge.search.query import SearchQuery
from app.knowledge.search.results import SearchResult
from app.knowledge.search.why_not import WhyNot
from app.knowledge.vocabulary import EntrySort, Relationship

ENTRIES = "/knowledge/entries"


@dataclass(frozen=True, slots=True)
class BulkAnswer:
    """The outcomes of a bulk write."""

    results: list[BulkResult]


@dataclass(frozen=True, slots=True)
class RemoteSearches:
    """Searches."""

    exchange: Exchange

    async def search(self, tenant_id: UUID, query: SearchQuery, *, subject: str = "") -> SearchResult:
        """Search. Raises KnowledgeError."""
        return await self.exchange.read(SearchResult, "POST", "/knowledge/search", body=request_of(query))

    async def why_not(self, tenant_id: UUID, entry: UUID | str, query: SearchQuery) -> WhyNot:
        """Explain why an entry is not among the results. Raises KnowledgeError."""
        body = {"entry_id": str(entry), "request": request_of(query)}
        return await self.exchange.read(WhyNot, "POST", "/knowledge/search/why-not", body=body)


def request_of(query: SearchQuery) -> dict[str, Any]:
    """The body of a search: the fields that differ from their defaults."""
    given = {}
    for field in fields(query):
        value = getattr(query, field.name)
        if field.name != "max_limit" and (field.default is MISSING or value != field.default):
            given[field.name] = value
    return given


@dataclass(frozen=True, slots=True)
class RemoteRelated:
    """Related entries."""

    exchange: Exchange

    async def related(
        self, tenant_id: UUID, entry_id: UUID, limit: int = 5, *, include_quarantined: bool = True
    ) -> Related:
        """Find the entries that are related to an entry. Raises KnowledgeError."""
        response = await self.exchange.send("GET", f"{ENTRIES}/{entry_id}/related", params={"limit": limit})
        answer = response.json()
        results = []
        for item in answer["results"]:
            relationship: Relationship = item.pop("relationship")
            overlap = item.pop("overlap_count")
            entry = self.exchange.parse(Entry, json.dumps(item).encode())
            results.append(RelatedEntry(entry, relationship, overlap))
        return Related(results, answer["metadata"]["total"])


@dataclass(frozen=True, slots=True)
class RemoteEntries:
    """Entries."""

    exchange: Exchange

    async def create(self, tenant_id: UUID, draft: EntryDraft, *, actor: str = "") -> tuple[Entry, bool]:
        """Store an entry; return it, and whether it is new. Raises KnowledgeError."""
        response = await self.exchange.send("POST", ENTRIES, body=draft.given())
        return self.exchange.parse(Entry, response.content), response.status_code == 201

    async def create_many(
        self, tenant_id: UUID, items: Sequence[EntryDraft], *, actor: str = ""
    ) -> list[BulkResult]:
        """Store 1 to 1,000 entries. Raises KnowledgeError."""
        body = {"entries": [item.given() for item in items]}
        return (await self.exchange.read(BulkAnswer, "POST", f"{ENTRIES}/bulk", body=body)).results

    async def get(self, tenant_id: UUID, entry_id: UUID) -> Entry:
        """One entry. Raises EntryNotFound."""
        return await self.read(tenant_id, entry_id)

    async def read(self, tenant_id: UUID, entry_id: UUID) -> Entry:
        """One entry. Raises EntryNotFound."""
        return await self.exchange.read(Entry, "GET", f"{ENTRIES}/{entry_id}")

    async def list_entries(
        self,
        tenant_id: UUID,
        *,
        limit: int = 50,
        cursor: str | None = None,
        entry_type: str | None = None,
        tag: str | None = None,
        asset_id: UUID | None = None,
        external_id: str | None = None,
        include_expired: bool = False,
        include_quarantined: bool = False,
        sort: EntrySort = NEWEST_FIRST,
    ) -> Page[Entry]:
        """A page of entries. Raises KnowledgeError."""
        params = {
            "limit": limit,
            "cursor": cursor,
            "entry_type": entry_type,
            "tag": tag,
            "asset_id": asset_id,
            "external_id": external_id,
            "include_expired": include_expired,
            "include_quarantined": include_quarantined,
            "sort": sort,
        }
        return await self.exchange.read(Page[Entry], "GET", ENTRIES, params=params)

    async def change(
        self,
        tenant_id: UUID,
        entry_id: UUID,
        draft: EntryDraft,
        *,
        if_version: int | Collection[int] | None = None,
        actor: str = "",
    ) -> Entry:
        """Change the fields that are set. Raises KnowledgeError."""
        return await self.exchange.read(
            Entry, "PATCH", f"{ENTRIES}/{entry_id}", body=draft.given(), version=_one(if_version)
        )

    async def delete(
        self,
        tenant_id: UUID,
        entry_id: UUID,
        *,
        if_version: int | Collection[int] | None = None,
        actor: str = "",
    ) -> None:
        """Delete an entry. Raises KnowledgeError."""
        await self.exchange.send("DELETE", f"{ENTRIES}/{entry_id}", version=_one(if_version))


def _one(versions: int | Collection[int] | None) -> int | None:
    """The version for If-Match; commands know at most one."""
    if versions is None or isinstance(versions, int):
        return versions
    (version,) = versions
    return version
