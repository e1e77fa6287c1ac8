"""`keyword.search` looks up frequent words among the entries of a filter that leaves few."""

from __future__ import annotations

from app.db.schema.migration import load_function

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    load_function("keyword_search", "keyword.search")


def downgrade() -> None:
    pass
