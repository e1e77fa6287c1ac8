"""`keyword.search` counts entries that it reads without a score: `complete` is true only if all were read."""

from __future__ import annotations

from app.db.schema.migration import load_function

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    load_function("keyword_search", "keyword.search")


def downgrade() -> None:
    pass
