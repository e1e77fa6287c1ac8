"""The fields of responses, as in the contract."""

from __future__ import annotations

ENTRY = {
    *("id", "entry_type", "title", "content", "tags", "roles", "confidence", "scope", "parent_id"),
    *("source_ids", "superseded_by_id", "is_verified", "asset_id", "asset_name", "chunk_index", "metadata"),
    *("language", "expires_at", "external_id", "embedding_status", "version", "created_at", "updated_at"),
    *("quarantined", "readers", "writers"),
}
