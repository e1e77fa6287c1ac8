"""The schema, as defined in the files of `alembic/sql`."""

from __future__ import annotations

from app.db.schema.migration import run_file
from app.errors import ConfigurationError

revision = "0001"
down_revision = None

FILES = (
    "roles",
    "tenants",
    "tenant_slugs",
    "readers",
    "lexemes",
    "entries",
    "embeddings",
    "planner_statistics",
    "statistics",
    "entry_filter",
    "keyword_lookups",
    "keyword_search",
    "keyword_words",
    "queue",
    "records",
    "subscriptions",
    "send_turns",
    "model_changes",
    "limits",
    "revoked_tokens",
    "api_keys",
    "revoked_platform_tokens",
    "audit_pruning",
    "erasures",
    "versions",
    "former_search",
    "sources",
    "released_texts",
    "access",
    "callers",
    "tenant_isolation",
    "access_policies",
    "rights",
)


def upgrade() -> None:
    for file in FILES:
        run_file(file)


def downgrade() -> None:
    raise ConfigurationError(None, "nothing comes before revision 0001", "to remove the schema, drop the database")
