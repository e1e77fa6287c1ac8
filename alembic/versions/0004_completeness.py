"""`keyword.search` tells whether it compared every entry; entries without a vector can be counted under a filter."""

from __future__ import annotations

from app.db.schema.migration import execute_script, load_function

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    execute_script(
        "drop function if exists keyword.search(text[], text[], integer[], bigint, double precision, entry_filter,"
        " integer, integer, integer, double precision[], text[], text[])"
    )
    load_function("keyword_search", "keyword.search")
    load_function("entry_filter", "pending_entries")


def downgrade() -> None:
    pass
