"""The mapping between LangChain's documents and the service's entries, and the calls that both clients run.

A document is an entry: its text is the content, its metadata the metadata, its id the external id. Entries without an
external id, and chunks of assets, have the entry's own id.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID, uuid4

from langchain_core.documents import Document

from knowledge_client import entries, searches
from knowledge_client.errors import KnowledgeError, NotFound
from knowledge_client.exchange import Exchange
from knowledge_client.fields import NewEntry, SearchOptions
from knowledge_client.models import BulkResult, Entry, Hit

PAGE = 50
"""The maximum page of hits that the service returns."""


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


def document_of(entry: Entry | Hit, facts: Mapping[str, Any] | None = None) -> Document:
    """The entry as a document, with `facts` added to its metadata."""
    return Document(
        page_content=entry.content,
        metadata={**entry.metadata, **(facts or {})},
        id=entry.external_id or str(entry.id),
    )


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


def store(
    texts: Sequence[str],
    metadatas: Sequence[Mapping[str, Any]] | None,
    ids: Sequence[str | None] | None,
    tags: Sequence[str],
    wait: float,
) -> Exchange[list[str]]:
    """Write documents and wait up to `wait` seconds until semantic search finds them; return their ids.

    A document without an id gets a new one. Raises ValueError for lists of different lengths, DocumentsRefused, and
    IndexingUnfinished.
    """
    for name, given in (("metadatas", metadatas), ("ids", ids)):
        if given is not None and len(given) != len(texts):
            raise ValueError(f"{name}: has {len(given)} items for {len(texts)} texts")
    chosen = [one or str(uuid4()) for one in ids or [None] * len(texts)]
    drafts: list[NewEntry] = []
    for text, document_id, metadata in zip(texts, chosen, metadatas or [{}] * len(texts), strict=True):
        draft: NewEntry = {
            "content": text,
            "external_id": document_id,
            "metadata": metadata,
        }
        drafts.append({**draft, "tags": tags} if tags else draft)
    results = yield from entries.create_entries(drafts)
    if wait > 0:
        written = [r.id for r in results if r.id is not None and r.status in ("created", "updated")]
        yield from entries.wait_until_embedded(written, timeout=wait)
    if refused := [r for r in results if r.status == "failed"]:
        raise DocumentsRefused(refused)
    return chosen


def fetch(ids: Sequence[str]) -> Exchange[list[Document]]:
    """The documents with these ids, in their order; ids that do not exist are skipped."""
    documents: list[Document] = []
    for document_id in ids:
        entry = yield from _look_up(document_id)
        if entry is not None:
            documents.append(document_of(entry))
    return documents


def remove(ids: Sequence[str]) -> Exchange[bool]:
    """Delete the documents with these ids; ids that do not exist are skipped."""
    for document_id in ids:
        entry = yield from _look_up(document_id)
        if entry is not None:
            try:
                yield from entries.delete_entry(entry.id)
            except NotFound:
                continue
    return True


def _look_up(document_id: str) -> Exchange[Entry | None]:
    entry = yield from entries.find_entry(document_id)
    if entry is not None:
        return entry
    try:
        return (yield from entries.get_entry(UUID(document_id)))
    except (ValueError, NotFound):
        return None
