"""A call of each tool."""

from typing import Any
from uuid import uuid4

from app.auth.principal import Role

UNKNOWN = str(uuid4())

CALLS: dict[str, tuple[Role, dict[str, Any], int | None]] = {
    "kb_search": (Role.READER, {"query": "word"}, None),
    "kb_get_related": (Role.READER, {"entry_id": UNKNOWN}, None),
    "hybrid_search": (Role.READER, {"query_text": "word"}, None),
    "kb_why_not": (Role.READER, {"query": "word", "entry_id": UNKNOWN}, None),
    "kb_saved_searches": (Role.READER, {}, None),
    "kb_feedback": (Role.READER, {"search_id": UNKNOWN, "entry_id": UNKNOWN, "relevant": True}, 404),
    "kb_get": (Role.READER, {"entry_id": UNKNOWN}, 404),
    "kb_read_document": (Role.READER, {"asset_id": UNKNOWN}, 404),
    "kb_list_tags": (Role.READER, {}, None),
    "search": (Role.READER, {"query": "word"}, None),
    "fetch": (Role.READER, {"id": UNKNOWN}, 404),
    "kb_add": (Role.CREATOR, {"content": "the entry"}, None),
    "kb_bulk_import": (Role.CREATOR, {"entries": [{"content": "the entry"}]}, None),
    "kb_update": (Role.CREATOR, {"entry_id": UNKNOWN, "tags": []}, 404),
    "kb_delete": (Role.CREATOR, {"entry_id": UNKNOWN}, 404),
    "kb_stats": (Role.TENANT_ADMIN, {}, None),
    "kb_rebuild_embeddings": (Role.TENANT_ADMIN, {"model": "unheard-of"}, 422),
}
"""Of each tool: the lowest role, arguments, and the status of the problem, if any, for callers with the role."""
