"""Former versions of entries, for tenants that keep them, and searches as of a past time.

A version before it cannot search with the wider type of the filter, also after a downgrade, which keeps it.
"""

from __future__ import annotations

from app.db.schema.migration import execute_script, load_function, run_file

revision = "0021"
down_revision = "0020"

# The type has no form of this statement that leaves out what is there: a new database has the attribute.
ADD = """
do $$ begin
  alter type entry_filter add attribute as_of timestamptz;
exception when duplicate_column then null;
end $$
"""
FUNCTIONS = {
    "entry_filter": ("was_current", "entry_passes", "repeats_another", "entry_matches"),
    "keyword_search": ("keyword.search",),
}
TABLES = ("former_entries", "former_embeddings", "kept_versions")
TRIGGERS = ("note_keeping", "keep_changed", "keep_removed", "note_arrival")
OWN_FUNCTIONS = (
    "keyword.former_words(entry_filter, tsquery, uuid[], integer)",
    "keyword.former_ids(entry_filter, integer)",
    "embeddings_at(uuid[], timestamptz, integer)",
    "entries_at(uuid[], timestamptz)",
    "pending_versions(uuid, integer, entry_filter, integer)",
    "former_entry(former_entries)",
    "note_keeping()",
    "keep_version()",
    "note_arrival()",
)


def upgrade() -> None:
    execute_script(ADD)
    run_file("readers")
    run_file("access_columns")
    for file, functions in FUNCTIONS.items():
        for function in functions:
            load_function(file, function)
    run_file("versions")
    run_file("former_search")
    run_file("tenant_isolation")


def downgrade() -> None:
    execute_script("; ".join(f"drop trigger if exists {trigger} on entries" for trigger in TRIGGERS))
    execute_script("; ".join(f"drop function {function}" for function in OWN_FUNCTIONS))
    execute_script("; ".join(f"drop table {table}" for table in TABLES))
