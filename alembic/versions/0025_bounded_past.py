"""A search of a past time looks at a bounded number of former versions; filters have indexes there."""

from __future__ import annotations

from app.db.schema.migration import execute_script, load_function

revision = "0025"
down_revision = "0024"

INDEXES = """
drop index if exists former_entries_by_end;
create index former_entries_by_end on former_entries (tenant_id, valid_until);
create index if not exists former_entries_by_time on former_entries (tenant_id, valid_until)
  include (id, valid_from, embedded) where not absent;
create index if not exists former_entries_by_tag on former_entries using gin (tenant_id, tags);
create index if not exists former_entries_by_metadata on former_entries using gin (tenant_id, metadata jsonb_path_ops);
"""
FUNCTIONS = {
    "versions": ("pending_versions", "keyword.former_ids", "keyword.former_words"),
    "keyword_search": ("keyword.search",),
}


def upgrade() -> None:
    execute_script(INDEXES)
    execute_script("drop function if exists keyword.former_words(entry_filter, tsquery, integer)")
    for file, functions in FUNCTIONS.items():
        for function in functions:
            load_function(file, function)


def downgrade() -> None:
    """Leave the indexes and functions: those that a downgrade leaves call them."""
