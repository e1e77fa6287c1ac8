"""The schema, as defined in the files of `alembic/sql`."""

from __future__ import annotations

from app.db.schema.migration import run_file
from app.errors import ConfigurationError

revision = "0001"
down_revision = None

FILES = (
    "roles", "tenants", "readers", "lexemes", "entries", "embeddings", "statistics", "entry_filter", "keyword_lookups",
    "keyword_search", "queue", "records", "subscriptions", "model_changes", "limits", "tenant_isolation",
)  # fmt: skip


def upgrade() -> None:
    for file in FILES:
        run_file(file)


def downgrade() -> None:
    raise ConfigurationError(
        None, "nothing comes before revision 0001", "to remove the schema, drop the database"
    )
