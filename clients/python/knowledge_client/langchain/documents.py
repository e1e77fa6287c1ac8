"""The mapping between LangChain's documents and the service's entries.

A document is an entry: its text is the content, its metadata the metadata, its id the external id. Entries without an
external id, and chunks of assets, have the entry's own id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from langchain_core.documents import Document

from knowledge_client import documents
from knowledge_client.exchange import Exchange
from knowledge_client.fields import EntryFields, NewEntry
from knowledge_client.models import Entry, Hit


def document_of(entry: Entry | Hit, facts: Mapping[str, Any] | None = None) -> Document:
    """The entry as a document, with `facts` added to its metadata."""
    return Document(
        page_content=entry.content, metadata={**entry.metadata, **(facts or {})}, id=entry.external_id or str(entry.id)
    )


def store(
    texts: Sequence[str],
    metadatas: Sequence[Mapping[str, Any]] | None,
    ids: Sequence[str | None] | None,
    fields: EntryFields,
    wait: float,
) -> Exchange[list[str]]:
    """Write documents with `fields`, and wait up to `wait` seconds until semantic search finds them; return their ids.

    A document without an id gets a new one. Raises ValueError for lists of different lengths, DocumentsRefused, and
    IndexingUnfinished.
    """
    for name, given in (("metadatas", metadatas), ("ids", ids)):
        if given is not None and len(given) != len(texts):
            raise ValueError(f"{name}: has {len(given)} items for {len(texts)} texts")
    chosen = [one or str(uuid4()) for one in ids or [None] * len(texts)]
    drafts: list[NewEntry] = [
        {**fields, "content": text, "external_id": document_id, "metadata": metadata}
        for text, document_id, metadata in zip(texts, chosen, metadatas or [{}] * len(texts), strict=True)
    ]
    yield from documents.write(drafts, wait)
    return chosen


def fetch(ids: Sequence[str]) -> Exchange[list[Document]]:
    """The documents with these ids, in their order; ids that do not exist are skipped."""
    found: list[Document] = []
    for document_id in ids:
        entry = yield from documents.look_up(document_id)
        if entry is not None:
            found.append(document_of(entry))
    return found


def remove(ids: Sequence[str]) -> Exchange[bool]:
    """Delete the documents with these ids; ids that do not exist are skipped."""
    for document_id in ids:
        entry = yield from documents.look_up(document_id)
        if entry is not None:
            yield from documents.remove([entry.id])
    return True
