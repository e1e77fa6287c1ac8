"""The figures of a day's searches are read from an index, without the searches' receipts."""

from __future__ import annotations

from app.db.migration import execute_script

revision = "0018"
down_revision = "0017"

UP = """
drop index searches_by_time;
create index searches_by_time on searches (tenant_id, at) include (fallback, result_count, query_time_ms);
"""

DOWN = """
drop index searches_by_time;
create index searches_by_time on searches (tenant_id, at);
"""


def upgrade() -> None:
    execute_script(UP)


def downgrade() -> None:
    execute_script(DOWN)
