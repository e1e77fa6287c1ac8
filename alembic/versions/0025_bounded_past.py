"""A search of a past time looks at a bounded number of former versions; a cluster of Citus keeps versions too."""

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
# A cluster did not have these triggers.
TRIGGERS = """
do $$ begin
  if exists (select from pg_trigger where tgrelid = 'entries'::regclass and tgname = 'keep_changed') then
    return;
  end if;
  create trigger note_keeping before insert or update or delete on entries
    for each statement execute function note_keeping();
  create trigger keep_changed before update on entries for each row
    when (current_setting('app.keeps_versions', true) = nullif(current_setting('app.current_tenant', true), ''))
    execute function keep_version();
  create trigger keep_removed before delete on entries for each row
    when (current_setting('app.keeps_versions', true) = nullif(current_setting('app.current_tenant', true), ''))
    execute function keep_version();
  create trigger note_arrival before insert on entries for each row
    when (current_setting('app.keeps_versions', true) = nullif(current_setting('app.current_tenant', true), '')
          and new.updated_at < now())
    execute function note_arrival();
end $$
"""
FUNCTIONS = {
    "versions": ("note_keeping", "keep_version", "pending_versions"),
    "former_search": ("keyword.former_ids", "keyword.former_words"),
    "keyword_search": ("keyword.search",),
}


def upgrade() -> None:
    execute_script(INDEXES)
    execute_script("drop function if exists keyword.former_words(entry_filter, tsquery, integer)")
    for file, functions in FUNCTIONS.items():
        for function in functions:
            load_function(file, function)
    execute_script(TRIGGERS)


def downgrade() -> None:
    """Leave the indexes, triggers and functions: those that a downgrade leaves call them."""
