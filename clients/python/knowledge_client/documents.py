"""What the classes for frameworks share: their documents are entries, with the document's id as the external id."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypedDict, TypeVar
from uuid import UUID

from knowledge_client import entries, searches
from knowledge_client.errors import KnowledgeError, NotFound
from knowledge_client.exchange import Exchange
from knowledge_client.fields import EntryFields, NewEntry, SearchOptions
from knowledge_client.models import BulkResult, Entry, Hit

PAGE = 50
"""The maximum page of hits that the service returns."""

LIST_PAGE = 200
"""The maximum page of a list of entries."""

T = TypeVar("T")


class AccessLists(TypedDict, total=False):
    """Who may read and change a document: `group:NAME` and `user:SUB`; None: all readers, all creators among them."""

    readers: Sequence[str] | None
    writers: Sequence[str] | None


class DocumentsRefused(KnowledgeError):
    """Some documents were not stored; the others were.

    Attributes:
        refused: the results of the refused documents, by their position among the documents.
    """

    def __init__(self, refused: Sequence[BulkResult]) -> None:
        first = refused[0]
        super().__init__(f"{len(refused)} documents were refused; number {first.index}: {first.error}")
        self.refused = refused


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """The hits of a search, best first."""

    search_id: UUID
    hits: Sequence[Hit]


def find(query: str, k: int, options: SearchOptions) -> Exchange[Found]:
    """The `k` best hits, or fewer; more than 50 are fetched in pages."""
    first: SearchOptions = {**options, "limit": min(k, PAGE)}
    found = yield from searches.search(query, **first)
    hits = list(found.results)
    cursor = found.metadata.next_cursor
    while cursor is not None and len(hits) < k:
        following: SearchOptions = {**first, "cursor": cursor}
        page = yield from searches.search(query, **following)
        hits += page.results
        cursor = page.metadata.next_cursor
    return Found(found.metadata.search_id, hits[:k])


def facts_of(hit: Hit, search_id: UUID) -> dict[str, Any]:
    """The search's facts about a hit, for citations and for feedback."""
    return {
        "title": hit.title,
        "source": hit.asset_name or hit.title or str(hit.id),
        "entry_type": hit.entry_type,
        "entry_id": str(hit.id),
        "search_id": str(search_id),
        "score": hit.score,
        "similarity": hit.similarity,
        "snippet": hit.snippet,
    }


def lists_of(given: Mapping[str, Any]) -> AccessLists:
    """The readers and writers among the options that a framework passes on."""
    lists: Any = {name: given[name] for name in ("readers", "writers") if name in given}
    found: AccessLists = lists
    return found


def shared_fields(tags: Sequence[str], access: AccessLists) -> EntryFields:
    """The fields that a store gives to each document that it writes."""
    fields: Any = {**access, "tags": tags} if tags else access
    given: EntryFields = fields
    return given


def write(drafts: Sequence[NewEntry], wait: float) -> Exchange[None]:
    """Write documents and wait up to `wait` seconds until semantic search finds them; 0 does not wait.

    Raises DocumentsRefused and IndexingUnfinished.
    """
    results = yield from entries.create_entries(drafts)
    if wait > 0:
        written = [r.id for r in results if r.id is not None and r.status in ("created", "updated")]
        yield from entries.wait_until_embedded(written, timeout=wait)
    if refused := [r for r in results if r.status == "failed"]:
        raise DocumentsRefused(refused)


def look_up(document_id: str) -> Exchange[Entry | None]:
    """The entry with this external id, or else with this id; None if there is none."""
    entry = yield from entries.find_entry(document_id)
    if entry is not None:
        return entry
    try:
        return (yield from entries.get_entry(UUID(document_id)))
    except (ValueError, NotFound):
        return None


def select(tags: Sequence[str], choose: Callable[[Entry], T | None], *, hidden: bool) -> Exchange[list[T]]:
    """What `choose` makes of each entry with all of these tags, without None; reads 200 entries in a request.

    `hidden` adds the expired and the quarantined ones.
    """
    chosen: list[T] = []
    cursor: str | None = None
    while True:
        page = yield from entries.list_entries(
            limit=LIST_PAGE,
            cursor=cursor,
            tag=tags[0] if tags else None,
            include_expired=hidden,
            include_quarantined=hidden,
        )
        for entry in page.items:
            if set(tags) <= set(entry.tags) and (one := choose(entry)) is not None:
                chosen.append(one)
        cursor = page.next_cursor
        if cursor is None:
            return chosen


def remove(entry_ids: Collection[UUID]) -> Exchange[None]:
    """Delete entries; those that do not exist are skipped."""
    for entry_id in entry_ids:
        try:
            yield from entries.delete_entry(entry_id)
        except NotFound:
            continue
