"""Entries with suspicious content can be hidden from searches until an admin releases them.

The indexes are empty at first. Their creation locks `entries` against writing while it reads the table once.
"""

from __future__ import annotations

from app.db.schema.migration import execute_script, load_function, run_file

revision = "0023"
down_revision = "0022"

INDEXES = """
create index if not exists entries_quarantined on entries (tenant_id, created_at desc, id desc) where quarantined;
create index if not exists entries_flagged on entries (tenant_id, id) where metadata ? 'flags';
"""


FUNCTIONS = {
    "entry_passes": "entry_filter",
    "keyword.tag_overlaps": "keyword_lookups",
    "keyword.derived_entries": "keyword_lookups",
}


def upgrade() -> None:
    execute_script(INDEXES)
    run_file("released_texts")
    run_file("tenant_isolation")
    for function, file in FUNCTIONS.items():
        load_function(file, function)


def downgrade() -> None:
    execute_script("drop table released_texts; drop index entries_quarantined; drop index entries_flagged;")
