"""The mapping between LlamaIndex's nodes and the service's entries.

A node is an entry: its text is the content, its metadata the metadata, its id the external id. The key `_node` of the
metadata keeps everything else of the node: its type, its relationships and so on. The service embeds the text, so the
node's own vector is not stored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from llama_index.core.schema import BaseNode, MetadataMode, NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores.utils import metadata_dict_to_node

from knowledge_client.fields import EntryFields, NewEntry
from knowledge_client.models import Entry, Hit

NODE = "_node"
"""The key of the metadata that keeps the rest of a node."""

REF_DOC_ID = "ref_doc_id"

ELSEWHERE = ("metadata", "text", "text_resource", "embedding")
"""Parts of a node that the entry has in fields of its own, or not at all."""


def draft_of(node: BaseNode, fields: EntryFields) -> NewEntry:
    """The node as an entry to store, with `fields`. Raises ValueError if its metadata have the key `_node`."""
    parts = node.model_dump(mode="json")
    metadata = parts["metadata"]
    if NODE in metadata:
        raise ValueError(f"metadata: the key {NODE} of node {node.node_id} is reserved")
    rest = {name: value for name, value in parts.items() if name not in ELSEWHERE}
    kept = {"type": node.class_name(), REF_DOC_ID: node.ref_doc_id, "rest": json.dumps(rest, sort_keys=True)}
    return {
        **fields,
        "content": node.get_content(metadata_mode=MetadataMode.NONE),
        "external_id": node.node_id,
        "metadata": {**metadata, NODE: kept},
    }


def node_of(entry: Entry | Hit, facts: Mapping[str, Any] | None = None) -> BaseNode:
    """The entry as a node, with `facts` added to its metadata.

    An entry that no store wrote is a TextNode; the document of a chunk is its asset.
    """
    metadata = {key: value for key, value in entry.metadata.items() if key != NODE}
    kept = entry.metadata.get(NODE)
    node = _foreign(entry, metadata) if kept is None else _own(entry, metadata, kept)
    if facts:
        # Citations belong in a prompt, numbers and ids do not.
        hidden = [name for name in facts if name not in ("title", "source")]
        node.metadata = {**node.metadata, **facts}
        node.excluded_llm_metadata_keys = [*node.excluded_llm_metadata_keys, *hidden]
        node.excluded_embed_metadata_keys = [*node.excluded_embed_metadata_keys, *facts]
    return node


def is_node(entry: Entry) -> bool:
    """Whether a store wrote the entry."""
    return isinstance(entry.metadata.get(NODE), Mapping)


def ref_doc_of(entry: Entry) -> str | None:
    """The document of a node that a store wrote, if it has one."""
    found: str | None = entry.metadata[NODE].get(REF_DOC_ID) if is_node(entry) else None
    return found


def node_id_of(entry: Entry | Hit) -> str:
    """The id of the entry's node."""
    return entry.external_id or str(entry.id)


def _own(entry: Entry | Hit, metadata: Mapping[str, Any], kept: Mapping[str, Any]) -> BaseNode:
    content = json.dumps({**json.loads(kept["rest"]), "metadata": metadata})
    return metadata_dict_to_node({"_node_content": content, "_node_type": kept["type"]}, text=entry.content)


def _foreign(entry: Entry | Hit, metadata: dict[str, Any]) -> BaseNode:
    source = None if entry.asset_id is None else RelatedNodeInfo(node_id=str(entry.asset_id))
    start, end = metadata.get("char_start"), metadata.get("char_end")
    return TextNode(
        id_=node_id_of(entry),
        text=entry.content,
        metadata=metadata,
        relationships={} if source is None else {NodeRelationship.SOURCE: source},
        start_char_idx=start if isinstance(start, int) else None,
        end_char_idx=end if isinstance(end, int) else None,
    )
