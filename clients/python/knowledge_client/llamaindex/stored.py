"""The calls on stored nodes that both clients run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import UUID

from llama_index.core.schema import BaseNode

from knowledge_client import assets, documents
from knowledge_client.conditions import Condition, holds
from knowledge_client.errors import NotFound
from knowledge_client.exchange import Exchange
from knowledge_client.fields import EntryFields
from knowledge_client.llamaindex.nodes import draft_of, is_node, node_of, ref_doc_of
from knowledge_client.models import Entry


def add(nodes: Sequence[BaseNode], fields: EntryFields, wait: float) -> Exchange[list[str]]:
    """Write nodes with `fields`, and return their ids. Raises ValueError, DocumentsRefused and IndexingUnfinished."""
    yield from documents.write([draft_of(node, fields) for node in nodes], wait)
    return [node.node_id for node in nodes]


def fetch(node_ids: Sequence[str] | None, condition: Condition | None, tags: Sequence[str]) -> Exchange[list[BaseNode]]:
    """The nodes with these ids, or all, that fulfil the condition."""
    if node_ids is None:
        return (
            yield from documents.select(tags, lambda e: node_of(e) if _fulfils(e, condition) else None, hidden=False)
        )
    return [node_of(entry) for entry in (yield from _look_up(node_ids, condition, tags))]


def delete(node_ids: Sequence[str] | None, condition: Condition | None, tags: Sequence[str]) -> Exchange[None]:
    """Delete the nodes with these ids, or all that a store wrote, that fulfil the condition. Raises ValueError."""
    if node_ids is None and condition is None:
        raise ValueError("node_ids: ids or filters are required; clear() deletes all nodes")
    if node_ids is not None:
        found = yield from _look_up(node_ids, condition, tags)
        yield from documents.remove([entry.id for entry in found])
    else:
        yield from _delete_where(tags, lambda entry: _fulfils(entry, condition))


def delete_document(ref_doc_id: str, tags: Sequence[str]) -> Exchange[None]:
    """Delete the nodes of a document. Raises ValueError if it is an asset."""
    if (yield from _is_asset(ref_doc_id)):
        raise ValueError(f"ref_doc_id: {ref_doc_id} is an uploaded file; delete it with delete_asset")
    yield from _delete_where(tags, lambda entry: ref_doc_of(entry) == ref_doc_id)


def clear(tags: Sequence[str]) -> Exchange[None]:
    """Delete all nodes that a store wrote."""
    yield from _delete_where(tags, lambda entry: True)


def _delete_where(tags: Sequence[str], chosen: Callable[[Entry], bool]) -> Exchange[None]:
    ids = yield from documents.select(
        tags, lambda entry: entry.id if is_node(entry) and chosen(entry) else None, hidden=True
    )
    yield from documents.remove(ids)


def _look_up(node_ids: Sequence[str], condition: Condition | None, tags: Sequence[str]) -> Exchange[list[Entry]]:
    found: list[Entry] = []
    for node_id in node_ids:
        entry = yield from documents.look_up(node_id)
        if entry is not None and set(tags) <= set(entry.tags) and _fulfils(entry, condition):
            found.append(entry)
    return found


def _fulfils(entry: Entry, condition: Condition | None) -> bool:
    return condition is None or holds(condition, entry.metadata)


def _is_asset(ref_doc_id: str) -> Exchange[bool]:
    try:
        yield from assets.get_asset(UUID(ref_doc_id))
    except (ValueError, NotFound):
        return False
    return True
